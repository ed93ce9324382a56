"""A race of a sync client: the async driver on a background loop, each exchange blocking in a thread of its own.

A loser is cancelled by shutting down its socket, so that the thread that reads it comes back at once.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor

from shim._core.outcome import Judgement
from shim._run import aio
from shim._run.exchange import Exchange, Reply, Send
from shim._run.flight import Flight
from shim._run.system import Clock

_MOST_THREADS = 512  # attempts of sync races that may be in flight at once in this process


class _Background:
    """The loop, its thread, and the threads that exchanges block in."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.threads = ThreadPoolExecutor(_MOST_THREADS, thread_name_prefix="shim-exchange")
        self._thread = threading.Thread(target=self.loop.run_forever, name="shim-race", daemon=True)
        self._thread.start()


_lock = threading.Lock()
_current: _Background | None = None


def _background() -> _Background:
    global _current
    with _lock:
        if _current is None:
            _current = _Background()
        return _current


def _forget() -> None:
    """In a forked child the loop has no thread: the next race starts its own."""
    global _current, _lock
    _lock = threading.Lock()
    _current = None


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_forget)


def _wait_for(future: Future[None], background: _Background) -> None:
    """Give the cancelled race a moment to end in its own thread: what it holds can be taken from it only then."""
    ended = threading.Event()
    background.loop.call_soon_threadsafe(background.loop.call_later, 0.05, ended.set)
    ended.wait(1.0)


class _InThreads:
    """A blocking `send` as the async driver wants it."""

    def __init__(self, send: Send, background: _Background) -> None:
        self._send = send
        self._background = background

    async def __call__(self, exchange: Exchange, /) -> Reply:
        context = contextvars.copy_context()
        loop, threads = self._background.loop, self._background.threads
        try:
            return await loop.run_in_executor(threads, context.run, self._send, exchange)
        except asyncio.CancelledError:
            self._send.abort(exchange)
            raise

    async def discard(self, task: asyncio.Task[Reply | Judgement]) -> None:
        """The thread of a cancelled exchange ends by itself; a stream that had begun is closed here."""
        if task.done() and not task.cancelled() and task.exception() is None:
            result = task.result()
            if isinstance(result, Reply):
                self._send.close(result)


def together(send: Send, exchanges: list[Exchange]) -> list[Reply]:
    """The replies to exchanges that may run side by side, in order; each blocks a thread of its own."""
    if len(exchanges) == 1:
        return [send(exchanges[0])]
    threads = _background().threads
    futures = [threads.submit(contextvars.copy_context().run, send, exchange) for exchange in exchanges]
    try:
        return [future.result() for future in futures]
    except BaseException:  # KeyboardInterrupt: nobody waits for the others any more
        for exchange in exchanges:
            send.abort(exchange)
        raise


def run(flight: Flight, send: Send, clock: Clock) -> None:
    """As `sync.run`, for a call that may have several attempts in flight."""
    background = _background()
    future = asyncio.run_coroutine_threadsafe(aio.run(flight, _InThreads(send, background), clock), background.loop)
    try:
        future.result()
    except BaseException:  # KeyboardInterrupt in the caller's thread: stop the attempts as well
        future.cancel()
        _wait_for(future, background)
        flight.drop(send)  # it may have been won in the same moment
        raise
