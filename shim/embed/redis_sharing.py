"""Shares pauses and concurrency with the other workers through Redis, from a thread of its own.

The job reads what was last heard and never waits. A Redis that is away costs the sharing, not the job.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from shim._run.system import Clock
from shim.embed.sharing import Pause

BEAT = 0.5
"""Seconds between two exchanges while this process is at work: how late it may hear of a pause."""
LEASE = 3.0
"""Seconds after its last beat that a worker still counts as alive."""
_PATIENCE = 1.0
"""Seconds that the first batch of a process waits for news; none of the later ones does."""

Told = tuple[str, float, str, bool]
"""A pause on its way: route, seconds left, reason, whether the provider itself named the time."""
Exchange = Callable[[Sequence[str], Sequence[Told]], tuple[int, Sequence[Told]]]
"""Says who is alive and which routes rest; hears how many are alive in all, and all routes that rest."""

log = logging.getLogger("shim")


class RedisSharing:
    """What one process shares. `total` is the concurrency of all workers together, `workers` how many there are as long
    as Redis does not tell, `every` the seconds between two exchanges. Its members are the callers in this process that
    embed at the same time."""

    def __init__(
        self, exchange: Exchange, total: int, workers: int, clock: Clock, name: str, every: float = BEAT
    ) -> None:
        self._every = every
        self._exchange, self._total, self._workers, self._clock, self._name = exchange, total, workers, clock, name
        self._members: set[str] = set()
        self._numbers = 0
        self._live: int | None = None
        self._pauses: dict[str, Pause] = {}
        self._outbox: list[Told] = []
        self._guard = threading.Lock()
        self._wake, self._heard = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._has_complained = False
        self._is_closed = False

    # -- coming and going

    def join(self) -> str:
        """Another caller is at work; its name, for `leave`. The first one waits a moment for news."""
        with self._guard:
            self._numbers += 1
            member = f"{self._name}.{self._numbers}"
            self._members.add(member)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="shim-sharing", daemon=True)
                self._thread.start()
        self._wake.set()
        self._heard.wait(_PATIENCE)
        return member

    def leave(self, member: str) -> None:
        """A caller is done. It counts on until its lease ends, since the next batch is mostly at hand."""
        with self._guard:
            self._members.discard(member)

    def close(self) -> None:
        """End the thread."""
        self._is_closed = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(_PATIENCE)

    # -- what a run asks and tells

    @property
    def live(self) -> int:
        """How many workers there are: as heard, else as configured."""
        return self._live or self._workers

    def most(self) -> int:
        return max(1, self._total // self.live)

    def pauses(self) -> Mapping[str, Pause]:
        return self._pauses

    def pause(self, route: str, seconds: float, reason: str, *, is_told: bool) -> None:
        until = self._clock.now() + seconds
        known = self._pauses.get(route)
        if known is not None and known.until >= until - self._every:
            return  # an echo of what all know
        with self._guard:
            self._outbox.append((route, seconds, reason, is_told))
        self._wake.set()

    # -- the thread

    def _work(self) -> None:
        while not self._is_closed:
            self._wake.wait(self._every if self._members else None)
            self._wake.clear()
            if not self._is_closed and self._members:
                self._beat()

    def _beat(self) -> None:
        with self._guard:
            members, told, self._outbox = sorted(self._members), self._outbox, []
        try:
            live, pauses = self._exchange(members, told)
        except Exception as error:  # noqa: BLE001  a driver: whatever Redis did, the job goes on without it
            self._live = None
            self._complain(error)
        else:
            now = self._clock.now()
            self._live = live
            self._pauses = {route: Pause(now + left, reason, is_told) for route, left, reason, is_told in pauses}
        self._heard.set()

    def _complain(self, error: Exception) -> None:
        if not self._has_complained:
            self._has_complained = True
            log.warning(
                "sharing through Redis does not work (%s: %s): until it does, each of %d workers keeps to its own part",
                type(error).__name__,
                error,
                self._workers,
            )


_SCRIPT = """
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local alive, pauses, lease = KEYS[1], KEYS[2], tonumber(ARGV[1])
redis.call('ZREMRANGEBYSCORE', alive, '-inf', string.format('%d', now))
for _, member in ipairs(cjson.decode(ARGV[2])) do
  redis.call('ZADD', alive, string.format('%d', now + lease), member)
end
redis.call('PEXPIRE', alive, lease * 2)
for _, told in ipairs(cjson.decode(ARGV[3])) do
  local known = redis.call('HGET', pauses, told[1])
  local till = now + math.ceil(told[2] * 1000)
  if not known or cjson.decode(known)[1] < till then
    redis.call('HSET', pauses, told[1], cjson.encode({till, told[3], told[4]}))
    redis.call('PEXPIRE', pauses, string.format('%d', math.max(till - now, redis.call('PTTL', pauses))))
  end
end
local left, all = {}, redis.call('HGETALL', pauses)
for at = 1, #all, 2 do
  local one = cjson.decode(all[at + 1])
  if one[1] > now then
    left[#left + 1] = {all[at], (one[1] - now) / 1000, one[2], one[3]}
  else
    redis.call('HDEL', pauses, all[at])
  end
end
return {redis.call('ZCARD', alive), #left > 0 and cjson.encode(left) or '[]'}
"""
"""Everything in one round trip, on the clock of the server: those of the workers' machines may differ."""


def through_redis(url: str, name: str) -> Exchange:
    """An exchange with all who give the same `name` at a `redis://`, `rediss://` or `unix://` address.

    Connects when it is called. Raises ImportError without the extra `redis`, ValueError for another kind of address.
    """
    try:
        redis: Any = import_module("redis")
    except ImportError as error:
        raise ImportError("share needs redis: pip install 'openai-shim[redis]'") from error
    client = redis.Redis.from_url(url, socket_timeout=2.0, socket_connect_timeout=2.0)
    script = client.register_script(_SCRIPT)
    keys = [f"shim:{{{name}}}:alive", f"shim:{{{name}}}:pauses"]

    def exchange(members: Sequence[str], told: Sequence[Told]) -> tuple[int, Sequence[Told]]:
        arguments = [int(LEASE * 1000), json.dumps(list(members)), json.dumps(list(told))]
        live, left = script(keys=keys, args=arguments)
        return int(live), [(route, float(seconds), reason, told) for route, seconds, reason, told in json.loads(left)]

    return exchange
