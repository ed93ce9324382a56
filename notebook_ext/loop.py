"""Runs a coroutine from a cell on an event loop of its own thread: no patched loop, and the stop button stops it."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

T = TypeVar("T")

_guard = threading.Lock()
_current: tuple[asyncio.AbstractEventLoop, threading.Thread] | None = None
GOODBYE = 5.0
"""Seconds that a stopped coroutine has to clean up before the cell goes on without it."""


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of `coroutine`, run on a background loop while this cell waits.

    The caller's context goes in, so that what it prints appears in this cell. What it raises is raised here. The stop
    button cancels it, waits until it has cleaned up, and raises KeyboardInterrupt. Calling it on that loop itself
    raises RuntimeError instead of waiting for ever.
    """
    loop, thread = _background()
    if thread is threading.current_thread():
        coroutine.close()
        raise RuntimeError("notebook_ext.run: this code runs on the background loop already: use await")
    future: Future[T] = Future()
    started: list[asyncio.Task[T]] = []

    def start() -> None:
        task = loop.create_task(coroutine)
        started.append(task)
        task.add_done_callback(lambda over: _hand_on(over, future))

    loop.call_soon_threadsafe(start, context=contextvars.copy_context())
    try:
        return future.result()
    except CancelledError:
        raise asyncio.CancelledError from None
    except KeyboardInterrupt:
        loop.call_soon_threadsafe(lambda: started[0].cancel() if started else coroutine.close())
        _wait_for(future)
        raise


def close() -> None:
    """Stop the loop and its thread; the next `run` starts another."""
    global _current
    with _guard:
        current, _current = _current, None
    if current is not None:
        loop, thread = current
        loop.call_soon_threadsafe(loop.stop)
        thread.join(GOODBYE)


def is_running() -> bool:
    """Whether the thread of the loop is there."""
    return _current is not None and _current[1].is_alive()


def _background() -> tuple[asyncio.AbstractEventLoop, threading.Thread]:
    global _current
    with _guard:
        if _current is None or not _current[1].is_alive():
            loop = asyncio.new_event_loop()
            thread = threading.Thread(target=_serve, args=(loop,), name="notebook_ext-loop", daemon=True)
            thread.start()
            _current = (loop, thread)
        return _current


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=GOODBYE))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


def _hand_on(task: asyncio.Task[T], future: Future[T]) -> None:
    if task.cancelled():
        future.cancel()
        future.set_running_or_notify_cancel()
        return
    error = task.exception()
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(task.result())


def _wait_for(future: Future[Any]) -> None:
    over = threading.Event()
    future.add_done_callback(lambda _: over.set())
    over.wait(GOODBYE)
