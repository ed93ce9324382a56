"""Carries batches to their routes through a client: worker threads for a sync one, its event loop for an async one.

Results of both arrive in one queue, in the thread that runs the job.
"""

from __future__ import annotations

import asyncio
import contextvars
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Protocol

import numpy as np

from shim._core.retry_after import parse_duration
from shim.embed.lanes import Allowance
from shim.embed.segments import Vectors
from shim.embed.trouble import Failure, Trouble, sorted_out
from shim.events import Attempt
from shim.served import call_of, packed_of


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of one route: the family, the texts, and what else is the same for all of a job."""

    number: int
    route: str
    texts: list[str]
    fields: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Reply:
    """The vectors of one batch, in the order of its texts."""

    vectors: Vectors
    tokens: int | None
    cost: float | None
    model: str
    call: str
    allowance: Allowance
    attempts: tuple[Attempt, ...]


@dataclass(frozen=True, slots=True)
class Crash:
    """Something that is no provider's doing: it ends the job."""

    error: BaseException


Arrival = tuple[int, Reply | Failure | Crash] | None
"""The number of a request and how it ended; None wakes the job up."""
Post = Callable[[Mapping[str, object], Mapping[str, str]], Any]
"""A client's way to ask for packed vectors: body and headers in, a raw response out (or a promise of one)."""


class Port(Protocol):
    """Where requests go. `arrivals` is where their results come out."""

    arrivals: SimpleQueue[Arrival]

    @property
    def is_gone(self) -> bool:
        """Whether nothing will ever arrive any more: the event loop is closed."""

    def submit(self, request: Request) -> None:
        """Start a request."""

    def landed(self) -> None:
        """A result was taken in."""

    def close(self) -> None:
        """Drop what is in flight."""


def _body(request: Request) -> dict[str, object]:
    return {**request.fields, "input": request.texts, "encoding_format": "base64"}


def _headers(request: Request) -> dict[str, str]:
    return {"x-shim-route": request.route, "x-shim-fallback": "off"}


def reply_of(raw: Any, wall: float) -> Reply | Failure | Crash:
    """What a raw response brought."""
    response = raw.http_response
    packed, call = packed_of(response), call_of(response)
    if packed is None or call is None:
        return Crash(TypeError("the answer carries no vectors: the call was not routed"))
    vectors = np.frombuffer(packed.packed(), dtype="<f4").reshape(packed.count, packed.dimensions)
    won = next((one for one in call.attempts if one.number == call.winner), None)
    cost = None if won is None else won.cost
    model = packed.model or (won.model if won is not None else "")
    allowance = allowance_of(response.headers)
    return Reply(vectors, packed.input_tokens, cost, model, call.id, allowance, call.attempts)


def failure_of(error: Exception, wall: float) -> Failure | Crash:
    """What an exception of the client tells. `wall` is unix seconds."""
    call = call_of(error)
    if call is None:
        return Crash(error)
    asked = [one for one in call.attempts if one.verdict is not None]
    back_at = getattr(error, "retry_at", None)
    if not asked:
        retry_in = None if back_at is None else max(0.0, back_at - wall)
        return Failure(Trouble.BARRED, "barred", _own_words(str(error)), None, retry_in, call=call.id)
    last = asked[-1]
    back_at = last.retry_at if last.retry_at is not None else back_at
    retry_in = None if back_at is None else max(0.0, back_at - wall)
    trouble = sorted_out(last)
    return Failure(
        trouble, last.reason, last.message, last.status, retry_in, last.is_told, attempts=call.attempts, call=call.id
    )


def _own_words(message: str) -> str:
    """What the message of a call that asked nobody says of its one route: `back in 900 s (bad_key)`. The job names the
    route itself, and that a call within it found no other is nothing to its user."""
    told = message.partition("(last: ")[2].removesuffix(")").removeprefix("no attempt was made; ")
    return _ROUTE_IS.sub("", told) or message


def allowance_of(headers: Mapping[str, str]) -> Allowance:
    """What is left by `x-ratelimit-remaining-*` and `x-ratelimit-reset-*` (OpenAI's names; many hosts send them)."""
    return Allowance(
        _whole(headers.get("x-ratelimit-remaining-requests")),
        _seconds(headers.get("x-ratelimit-reset-requests")),
        _whole(headers.get("x-ratelimit-remaining-tokens")),
        _seconds(headers.get("x-ratelimit-reset-tokens")),
    )


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None


_ROUTE_IS = re.compile(r"^\S+ is ")
_LONGEST_RESET = 120.0
"""Seconds: a longer reset is of a daily allowance, or an instant; neither paces requests."""


def _seconds(text: str | None) -> float | None:
    found = None if text is None else parse_duration(text)
    return None if found is None else found if found <= _LONGEST_RESET else None


class ThreadPort:
    """For a sync client: daemon threads, as many as are needed; an interrupted process does not wait for them."""

    is_gone = False

    def __init__(self, post: Post, wall: Callable[[], float]) -> None:
        self.arrivals: SimpleQueue[Arrival] = SimpleQueue()
        self._post, self._wall = post, wall
        self._requests: SimpleQueue[Request | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._busy = 0
        self._is_closed = False

    def submit(self, request: Request) -> None:
        self._busy += 1
        if self._busy > len(self._threads):
            work = contextvars.copy_context().run  # the caller's span is the parent of what it asks for
            name = f"shim-embed-{len(self._threads)}"
            thread = threading.Thread(target=work, args=(self._work,), name=name, daemon=True)
            self._threads.append(thread)
            thread.start()
        self._requests.put(request)

    def landed(self) -> None:
        self._busy -= 1

    def _work(self) -> None:
        while (request := self._requests.get()) is not None:
            if self._is_closed:
                return
            try:
                result: Reply | Failure | Crash = reply_of(self._post(_body(request), _headers(request)), self._wall())
            except Exception as error:  # noqa: BLE001  a driver: what a provider did becomes a failure, the rest ends the job
                result = failure_of(error, self._wall())
            except BaseException as error:  # noqa: BLE001  a cassette's, or a test's: raised where the job was called
                result = Crash(error)
            self.arrivals.put((request.number, result))
            del result  # an idle thread holds no vectors

    def close(self) -> None:
        self._is_closed = True
        for _ in self._threads:
            self._requests.put(None)
        self._threads.clear()


class LoopPort:
    """For an async client: tasks on its event loop. `submit` is called from another thread."""

    def __init__(self, post: Post, wall: Callable[[], float], loop: asyncio.AbstractEventLoop) -> None:
        self.arrivals: SimpleQueue[Arrival] = SimpleQueue()
        self._post, self._wall, self._loop = post, wall, loop
        self._flying: set[Any] = set()

    def submit(self, request: Request) -> None:
        future = asyncio.run_coroutine_threadsafe(self._ask(request), self._loop)
        self._flying.add(future)
        future.add_done_callback(self._flying.discard)

    def landed(self) -> None:
        pass

    async def _ask(self, request: Request) -> None:
        try:
            result: Reply | Failure | Crash = reply_of(
                await self._post(_body(request), _headers(request)), self._wall()
            )
        except (
            asyncio.CancelledError
        ) as error:  # by whoever cancels all tasks of the loop: the job must not wait for it
            self.arrivals.put((request.number, Crash(error)))
            raise
        except Exception as error:  # noqa: BLE001  as above
            result = failure_of(error, self._wall())
        except BaseException as error:  # noqa: BLE001  as above
            result = Crash(error)
        self.arrivals.put((request.number, result))

    @property
    def is_gone(self) -> bool:
        return self._loop.is_closed()

    def close(self) -> None:
        if self.is_gone:
            return
        for future in list(self._flying):
            future.cancel()
