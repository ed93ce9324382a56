"""What passes between a call and the layer that speaks HTTP: one exchange to carry out, and the reply it brought."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from shim._core.answers import Answer
from shim._core.outcome import Fault, Judgement, Outcome
from shim._core.prepare import Prepared
from shim._core.stream import StreamWatch


@dataclass(slots=True)
class Exchange:
    """One HTTP exchange. `until` is an instant: the whole body, or a stream's first content, must be there by then.

    With a `watch` an event stream is read up to its first content and handed over live; `idle` seconds then limit the
    wait for each further event. `provider` and `model` name the route.
    """

    prepared: Prepared = field(repr=False)
    until: float = 0.0
    watch: StreamWatch | None = None
    idle: float = 60.0
    connect: float = 5.0
    abort: Callable[[], None] | None = None
    """Ends the exchange from another thread; set while it is under way."""
    is_aborted: bool = False
    provider: str = ""
    model: str = ""


def during(exchange: Exchange) -> Fault:
    """The fault to name when a limit of ours ends the exchange before its answer, or a stream's content, is there."""
    return Fault.TIMEOUT if exchange.watch is None else Fault.FIRST_CHUNK_TIMEOUT


@dataclass(slots=True)
class Reply:
    """What came of an exchange. `live` is the open stream after its first content, `response` what the library gave;
    both are opaque here. `error` holds the data and the event name of an error event before any content."""

    outcome: Outcome
    first_byte_at: float | None = None
    live: object | None = None
    response: Any = None
    error: tuple[bytes, str | None] | None = None
    answer: Answer | None = None
    """What a good answer said of itself, once it was judged."""


@dataclass(slots=True)
class Together:
    """Exchanges that may run at the same time where the driver can; their replies come back in order."""

    exchanges: list[Exchange] = field(default_factory=list)


@dataclass(slots=True)
class Pause:
    """Nothing to send for so many seconds."""

    seconds: float


class Send(Protocol):
    """Carries out an exchange in the calling thread. Never raises for what a provider or the network does."""

    def __call__(self, exchange: Exchange, /) -> Reply: ...

    def abort(self, exchange: Exchange) -> None:
        """End an exchange that another thread carries out."""

    def close(self, reply: Reply) -> None:
        """Close the stream of a reply that nobody will read."""


class AsyncSend(Protocol):
    """Carries out an exchange in the running event loop. Never raises for what a provider or the network does."""

    def __call__(self, exchange: Exchange, /) -> Awaitable[Reply]: ...

    async def discard(self, task: asyncio.Task[Reply | Judgement]) -> None:
        """Wait until a cancelled attempt has let go of its connection; close a stream that nobody will read."""
