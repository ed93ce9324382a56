"""A stream after its first content: passed on byte for byte, watched, and never a silent half answer."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from functools import cache
from typing import Any

import anyio

from shim import errors
from shim._core.outcome import Fault, Outcome
from shim._core.stream import StreamWatch
from shim._http.flavour import Flavour
from shim._http.idle import IdleLimit
from shim._http.sockets import drop
from shim._run.flight import Flight
from shim._run.system import Clock
from shim._run.watchdog import Watch

FOREVER = float("inf")
_DRAIN = (
    0.1  # seconds to wait for the end of a body whose last event has come, so that its connection can be used again
)
_WORDS = {
    "error event": "the provider sent an error",
    "not JSON": "an event is not JSON",
    "no finish": "it ended without finish_reason or [DONE]",
    "half event": "it ended in the middle of an event",
    "empty": "it ended at once",
}


class Live:
    """The open stream of the attempt that won; the sync and the async iterator below carry it on."""

    def __init__(
        self,
        flavour: Flavour,
        response: Any,
        chunks: Any,
        first: bytes,
        watch: StreamWatch,
        idle: float,
        clock: Clock,
        release: Callable[[], None],
    ) -> None:
        self.flavour = flavour
        self.response = response
        self.chunks = chunks
        self.first = first
        self.watch = watch
        self.idle = idle
        self.clock = clock
        self.release = release
        self.due = clock.now() + idle
        self.is_over = False
        self.is_closed = False
        self.is_stopped = False
        """Whether another thread than the reader's closed it."""
        self.is_cut = False
        """Whether a cancellation may have kept the library from closing the connection."""
        self.failure: Exception | None = None
        self.guard: Watch | None = None
        """The watchdog's hold on a sync read."""
        self._events = watch.events
        self._flight: Flight | None = None
        self._number = 0
        self._request: Any = None

    def attach(self, flight: Flight, number: int, request: Any) -> None:
        """Tell which call the stream belongs to and which request of the caller it answers."""
        self._flight, self._number, self._request = flight, number, request

    def arm(self) -> float:
        """The instant by which the next event must be there: comments do not move it."""
        if self.watch.events != self._events:
            self._events = self.watch.events
            self.due = self.clock.now() + self.idle
        return self.due

    def take(self, chunk: bytes | None) -> bytes:
        """What may be passed on of a chunk, or of the end (None). `failure` is set in place of an error event or an
        improper end; it is raised by those who read, once they hold no bytes: a traceback shows local variables, and a
        provider's error may repeat a key."""
        if chunk is None:
            reason = self.watch.close()
            out = b"" if reason is not None else self.watch.unsent()
        else:
            out = self.watch.feed(chunk)
            reason = self.watch.error.reason if self.watch.error is not None else None
        if reason is None:
            return out
        self.failure = self._failed(reason)
        return b""

    def broke(self, error: BaseException, *, is_overdue: bool) -> Exception:
        """The connection broke or stalled after content: the exception for the caller."""
        outcome = self.flavour.outcome(error, is_overdue=is_overdue, during=Fault.STALL)
        if self.watch.finished:
            outcome = Outcome(fault=Fault.RESET, detail="after the last event")
        return self._interrupted(outcome)

    def stop(self) -> None:
        """End a read that blocks in another thread: it is over for its reader as well."""
        self.is_stopped = True
        if self.guard is not None:
            self.guard.end()

    def over(self) -> None:
        """A good end, or a caller that closed the stream: neither is a failure."""
        if not self.is_over:
            self.is_over = True
            if self._flight is not None:
                self._flight.stream_ended(self._number, None, interrupted=False)

    def abandoned(self) -> None:
        """The caller was cancelled while it waited for the next event."""
        if not self.is_over:
            self.is_over = True
            if self._flight is not None:
                self._flight.stream_abandoned(self._number)

    def _failed(self, reason: str) -> Exception:
        error = self.watch.error
        if error is None or reason != "error event":
            return self._interrupted(Outcome(200, fault=Fault.PROTOCOL, detail=_WORDS.get(reason, reason)))
        return self._interrupted(Outcome(200, body=error.data), event=error.event)

    def _interrupted(self, outcome: Outcome, event: str | None = None) -> Exception:
        flight = self._flight
        assert flight is not None
        failure = flight.judge_stream(self._number, outcome, event)
        self.is_over = True
        flight.stream_ended(self._number, failure, interrupted=True)
        cls = errors.StreamInterruptedError
        if outcome.fault is Fault.STALL:
            cls = errors.StreamTimeoutError
        elif outcome.fault is Fault.RESET:
            cls = errors.StreamConnectionError
        text = f"the stream of {flight.route_of(self._number)} failed after its first content: {failure.message}"
        body = {"message": failure.message, "code": failure.reason, "type": "stream_interrupted", "param": None}
        return cls(flight.masked(text), request=self._request, body=body, partial=self.watch.partial, call=flight.call)


def chunks_of(live: Live) -> Iterator[bytes]:
    """The bytes of the stream for a sync reader; the watchdog ends a read that takes too long."""
    chunks = _chunks(live)
    next(chunks)  # into its `try`: a generator that never began would not clean up when it is closed or dropped
    return chunks


def _chunks(live: Live) -> Iterator[bytes]:
    guard, chunks = live.guard, live.chunks
    assert guard is not None
    try:
        yield b""
        yield live.first
        while True:
            guard.move(live.arm())
            try:
                chunk = next(chunks, None)
            except live.flavour.caught as error:
                if live.is_stopped:
                    return
                raise live.broke(error, is_overdue=guard.is_overdue) from error
            if live.is_stopped:
                return
            if chunk is None and guard.is_overdue:
                raise live.broke(EOFError(), is_overdue=True)
            guard.at = FOREVER  # the reader's own time does not count
            out = live.take(chunk)
            is_end, chunk = chunk is None, None
            if live.failure is not None:
                raise live.failure
            if out:
                yield out
            if is_end:
                return
    finally:
        _finish_sync(live, guard)


def _finish_sync(live: Live, guard: Watch) -> None:
    try:
        if live.watch.finished and not live.is_over:
            guard.move(live.clock.now() + _DRAIN)
            for _ in live.chunks:
                pass
    except live.flavour.caught:
        pass  # the answer was complete: how its connection ended is of no interest
    finally:
        live.response.close()
        guard.stop()
        live.release()
        live.over()


_open: set[Live] = set()
"""Streams with an async reader. Held until that reader ends: where a reader is dropped, its own generators are to be
closed first, and they close ours. Collected together they would be closed in any order, each in a task of its own that
meets the others at work and complains."""


class AsyncChunks:
    """The bytes of the stream for an async reader."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._limit = IdleLimit()
        _open.add(live)
        self._is_begun = False
        self._is_ended = False

    def __aiter__(self) -> AsyncChunks:
        return self

    async def __anext__(self) -> bytes:
        if not self._is_begun:
            self._is_begun = True
            return self._live.first
        try:
            while not self._is_ended:
                chunk = await self._pull()
                out = self._live.take(chunk)
                self._is_ended, chunk = chunk is None, None
                if self._live.failure is not None:
                    raise self._live.failure
                if out:
                    return out
        except asyncio.CancelledError:
            self._live.is_cut = True
            self._live.abandoned()
            await self.aclose()
            raise
        except BaseException:
            await self.aclose()
            raise
        await self.aclose()
        raise StopAsyncIteration

    async def _pull(self) -> bytes | None:
        """The next bytes, None at the end of the body; raises when they do not come in time."""
        live, limit = self._live, self._limit
        limit.begin(live.arm() - live.clock.now())
        try:
            return await live.chunks.__anext__()  # type: ignore[no-any-return]
        except StopAsyncIteration:
            return None
        except asyncio.CancelledError as error:
            if not limit.end():
                raise
            raise live.broke(TimeoutError(), is_overdue=True) from error
        except live.flavour.caught as error:
            raise live.broke(error, is_overdue=limit.end()) from error
        finally:
            limit.end()

    async def aclose(self) -> None:
        """Close the connection; again and again does no harm."""
        self._is_begun = self._is_ended = True
        if not self._live.is_closed:
            self._live.is_closed = True
            self._limit.stop()
            with anyio.CancelScope(shield=True):
                await _finish_async(self._live)

    def __del__(self) -> None:
        """Nobody closed it: the permits come back at least. Without I/O: the loop may be gone, or somebody else's."""
        _open.discard(self._live)
        if not self._live.is_closed:
            self._live.release()
            self._live.over()


async def _finish_async(live: Live) -> None:
    try:
        if live.watch.finished and not live.is_over:
            with anyio.move_on_after(_DRAIN):
                async for _ in live.chunks:
                    pass
    except live.flavour.caught:
        pass  # the answer was complete: how its connection ended is of no interest
    finally:
        try:
            await live.response.aclose()
            with contextlib.suppress(RuntimeError):  # it runs: the one that was cancelled in it ends it
                await live.chunks.aclose()  # else the loop does, in a task whose complaints nobody hears
        except anyio.get_cancelled_exc_class():
            live.is_cut = True
            raise
        finally:
            if live.is_cut:
                drop(live.response)
            live.release()
            live.over()
            _open.discard(live)


@cache
def stream_classes(flavour: Flavour) -> tuple[Any, Any]:
    """The byte streams that the library's `Response` accepts, over an iterator and a way to close it."""
    hx: Any = flavour.module

    class SyncStream(hx.SyncByteStream):  # type: ignore[misc]
        def __init__(self, chunks: Any, stop: Callable[[], None]) -> None:
            self.chunks = chunks
            self.stop = stop

        def __iter__(self) -> Iterator[bytes]:
            return self.chunks  # type: ignore[no-any-return]

        def close(self) -> None:
            try:
                self.chunks.close()
            except ValueError:  # a generator that runs: another thread reads
                self.stop()

    class AsyncStream(hx.AsyncByteStream):  # type: ignore[misc]
        def __init__(self, chunks: Any) -> None:
            self.chunks = chunks

        def __aiter__(self) -> AsyncIterator[bytes]:
            return self.chunks  # type: ignore[no-any-return]

        async def aclose(self) -> None:
            await self.chunks.aclose()

    return SyncStream, AsyncStream
