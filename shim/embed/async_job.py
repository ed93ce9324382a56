"""The job of an async client: it runs beside the event loop, and is awaited."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Generator
from typing import Any

from shim.embed.job import Job, settled
from shim.events import JobState


def awaited(client: Any, data: object, **given: Any) -> AsyncJob:
    """What an async client's `embed` returns."""
    return AsyncJob(client, data, **settled(given))


class AsyncJob(Job):
    """A job of an async client. `await job` gives what the sync client returns at once; `cancel()` ends it, keeping
    what is done. Where an event loop is running, it starts at once; else when it is awaited."""

    def __init__(self, *args: Any, **rest: Any) -> None:
        super().__init__(*args, **rest)
        self._task: asyncio.Task[Any] | None = None
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return
        self._begin()

    def __await__(self) -> Generator[Any, None, Any]:
        if self._task is None:
            self._begin()
        assert self._task is not None
        return (yield from self._task.__await__())

    def cancel(self) -> bool:
        """End it soon; what is done is kept, and running it again goes on from there. False if it is over."""
        return self._task.cancel() if self._task is not None else False

    def _again(self) -> Any:
        self._begin()
        return self

    def _begin(self) -> None:
        self._run, self._is_cancelled = None, False
        self.state, self.message = JobState.RUNNING, ""
        self._task = asyncio.ensure_future(self._work())
        self._task.add_done_callback(self._seen)

    async def _work(self) -> Any:
        """The run, in a thread of its own: the loop carries the requests and stays free for the user."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()

        def work() -> None:
            try:
                result, error = self._start(loop), None
            except BaseException as raised:  # noqa: BLE001  raised where the job is awaited
                result, error = None, raised
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to be told
                loop.call_soon_threadsafe(_resolve, future, result, error)

        run = contextvars.copy_context().run
        thread = threading.Thread(target=run, args=(work,), name=f"shim-embed-{self.id}", daemon=True)
        thread.start()
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            if future.done():
                raise
            self._is_cancelled = True
            if self._run is not None:
                self._run.cancel()
            await _quietly(future)
            raise asyncio.CancelledError(self.message) from None

    def _seen(self, task: asyncio.Task[Any]) -> None:
        """A job that nobody awaits says why it failed in `job.message`, not in a complaint of the event loop."""
        error = None if task.cancelled() else task.exception()
        if self.state is not JobState.RUNNING:
            return
        if task.cancelled():
            self.state, self.message = JobState.CANCELLED, "cancelled before it began; run the same again"
        elif error is not None:
            self.state, self.message = JobState.STOPPED, str(error)
        else:
            self.state = JobState.DONE  # a dry run


def _resolve(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    elif isinstance(error, asyncio.CancelledError):
        future.cancel(str(error))
    else:
        future.set_exception(error)


async def _quietly(future: asyncio.Future[Any]) -> None:
    """Wait until a cancelled run has kept what it could."""
    try:
        await future
    except BaseException:  # noqa: BLE001  the caller raises the cancellation that this answers
        return
