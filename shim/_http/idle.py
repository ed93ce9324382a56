"""Limits each wait of one task for the next piece of a stream, with one timer for all of them."""

from __future__ import annotations

import asyncio
from typing import Any


class IdleLimit:
    """`asyncio.timeout` for many waits in a row. A stream's limit starts anew with every event: a timer for each would
    cost more than the event does, so one timer looks at the instant that holds when it fires, and goes on from there.
    """

    __slots__ = ("_before", "_is_overdue", "_task", "_timer", "_until")

    def __init__(self) -> None:
        self._task: asyncio.Task[Any] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._until = 0.0
        self._before = 0
        self._is_overdue = False

    def begin(self, seconds: float) -> None:
        """The running task is about to wait, so many seconds at most; then it is cancelled."""
        loop = asyncio.get_running_loop()
        task = asyncio.current_task(loop)
        assert task is not None, "a stream is read by a task"
        self._task, self._before = task, task.cancelling()
        self._until = loop.time() + max(seconds, 0.0)
        if self._timer is None or self._until < self._timer.when():
            self.stop()
            self._timer = loop.call_at(self._until, self._look, loop)

    def end(self) -> bool:
        """The wait is over. Whether a cancellation that ended it was ours alone: then it is no cancellation."""
        task, self._task = self._task, None
        if not self._is_overdue or task is None:
            return False
        self._is_overdue = False
        return task.uncancel() <= self._before

    def stop(self) -> None:
        """There will be no more waits."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        if self._task is None:  # the reader's own time does not count; the next wait sets another timer
            return
        if loop.time() < self._until:
            self._timer = loop.call_at(self._until, self._look, loop)
            return
        self._is_overdue = True
        self._task.cancel()
