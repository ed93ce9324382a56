"""Takes in the answer of one exchange, for the sync and the async reader alike: no I/O of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from shim._core.outcome import Fault, Outcome
from shim._core.stream import StreamWatch
from shim._run.exchange import Exchange, Reply

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_WHOLE = frozenset({"application/json", "application/problem+json", "text/html", "application/xhtml+xml"})
_OPENINGS = (b"{", b"[", b"<")
"""How an answer begins that is no stream of events: JSON or a page."""
_SHORTEST = 1e-3
"""Seconds. Sockets round less to none, which means not to wait at all and fails as if nobody listened."""
MOST_BYTES = 1 << 30
"""Larger answers are refused: 1 GiB is about 40,000 vectors of 1,536 numbers as JSON."""


class Limits(dict[str, float]):
    """The `timeout` extension of a request. Each phase that asks (pool, connect, write, read) gets what is left then.

    The libraries read one figure at the start of a phase; a plain dict would give every phase the whole limit.
    """

    __slots__ = ("_connect", "_now", "_until", "has_connected", "is_aborted")

    def __init__(self, until: float, connect: float, now: Any) -> None:
        left = max(until - now(), _SHORTEST)
        super().__init__(connect=min(connect, left), read=left, write=left, pool=left)  # for those who copy it
        self._until = until
        self._connect = connect
        self._now = now
        self.is_aborted = False
        self.has_connected = False
        """Whether a new connection was made: a kept-alive one never asks for its limit."""

    def get(self, key: str, default: Any = None) -> Any:
        if self.is_aborted:
            return _SHORTEST
        left = max(self._until - self._now(), _SHORTEST)
        if key != "connect":
            return left
        self.has_connected = True
        return min(left, max(self._connect, _SHORTEST))


class Lowered(Mapping[str, str]):
    """Response headers by lower-case name; a repeated one keeps its last value. Decoded when asked: few ever are."""

    __slots__ = ("_raw",)

    def __init__(self, raw: list[tuple[bytes, bytes]]) -> None:
        self._raw = {name.lower(): value for name, value in raw}

    def __getitem__(self, name: str) -> str:
        return self._raw[name.encode("latin-1")].decode("latin-1")

    def __iter__(self) -> Iterator[str]:
        return (name.decode("latin-1") for name in self._raw)

    def __len__(self) -> int:
        return len(self._raw)

    def length(self) -> int:
        """The announced length of the body in bytes, 0 where none is."""
        announced = self._raw.get(b"content-length", b"")
        return int(announced) if announced.isdigit() else 0


def lower(headers: Any) -> Lowered:
    """The headers of a response."""
    return Lowered(headers.raw)


def is_live(exchange: Exchange, status: int, headers: Mapping[str, str]) -> bool:
    """Whether the answer is a stream to be handed over after its first content."""
    watch = exchange.watch
    if watch is None or not 200 <= status < 300 or status == 204:
        return False
    if not watch.takes_anything:
        return True  # many servers send events under another name, or none: the watch tells what they are
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "text/event-stream":
        watch.expect_events()
    return kind not in _WHOLE


def whole(response: Any, headers: Mapping[str, str], at: float) -> Reply:
    """The reply of an answer whose body was read. A byte order mark before JSON is no part of it (RFC 8259 8.1)."""
    body = response.content.removeprefix(_BYTE_ORDER_MARK)
    return Reply(Outcome(response.status_code, headers, body), at, response=response)


def forget_cookies(client: Any, response: Any, headers: Lowered) -> None:
    """A provider's cookies do not stay in the HTTP client: it would send them to whoever shares the host's name."""
    if "set-cookie" in headers:
        for cookie in list(response.cookies.jar):
            with contextlib.suppress(KeyError):
                client.cookies.jar.clear(cookie.domain, cookie.path, cookie.name)


def too_large(headers: Lowered, status: int) -> Outcome | None:
    """Refuse what is announced as larger than anything that a provider answers."""
    announced = headers.length()
    if announced > MOST_BYTES:
        return Outcome(status, headers, fault=Fault.TOO_LARGE, detail=f"{announced} bytes announced")
    return None


def opened(watch: StreamWatch, response: Any, headers: Mapping[str, str], at: float | None, live: object) -> Reply:
    """The reply of a stream that was read up to its first content, an error, or its end."""
    status = response.status_code
    reason = None if watch.committed else watch.close()
    if watch.error is not None:
        return Reply(Outcome(status, headers), at, response=response, error=(watch.error.data, watch.error.event))
    if reason is not None:
        body = watch.unsent().removeprefix(_BYTE_ORDER_MARK)
        if body.lstrip()[:1] in _OPENINGS:
            return Reply(Outcome(status, headers, body), at, response=response)
        said = f"the stream ended before any content ({reason})"
        return Reply(Outcome(status, headers, fault=Fault.PROTOCOL, detail=said), at)
    return Reply(Outcome(status, headers), at, live=live, response=response)
