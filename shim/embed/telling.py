"""Tells how far a job is: to the bar, to the caller's function, to the router's observers."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from types import TracebackType
from typing import Any

from shim._run.system import Clock
from shim.embed.bar import Bar
from shim.embed.run import Run
from shim.events import Event, JobProgress, JobState

log: logging.Logger = logging.getLogger("shim")


class Teller:
    """Called with the state a few times a second. What a callback raises is logged once and never reaches the job."""

    def __init__(
        self,
        job_id: str,
        family: str,
        run: Run,
        publish: Callable[[Event], None],
        callback: Callable[[JobProgress], Any] | None,
        bar: Bar | None,
        clock: Clock,
    ) -> None:
        self._job_id, self._family, self._run, self._publish = job_id, family, run, publish
        self._callback, self._bar, self._clock = callback, bar, clock
        self._began = clock.now()
        self._has_complained = False

    def __enter__(self) -> None:
        self(JobState.RUNNING)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        pass

    def __call__(self, state: JobState, message: str = "") -> JobProgress:
        """Tell everyone; what they were told."""
        progress = self._progress(state, message)
        for told in (self._bar, self._callback):
            try:
                if told is not None:
                    told(progress)
            except Exception:
                if not self._has_complained:
                    self._has_complained = True
                    log.exception("the progress callback of an embedding job failed; it is called on")
        self._publish(progress)
        return progress

    def end(self, state: JobState, message: str) -> None:
        """The last word."""
        self(state, message)
        if self._bar is not None:
            with contextlib.suppress(Exception):  # a terminal that is gone
                self._bar.close()

    def _progress(self, state: JobState, message: str) -> JobProgress:
        run, now = self._run, self._clock.now()
        tallies, tally, machine = run.tallies, run.intake.tally, run.machine
        waits = machine.waits_for(now) if state is JobState.WAITING else None
        elapsed = now - self._began
        fresh = max(0, tallies.done - tally.cached)
        rate = fresh / elapsed if elapsed > 0 else 0.0
        left = None if run.rows is None else max(0, run.rows - tallies.done - tallies.failed)
        return JobProgress(
            job_id=self._job_id,
            family=self._family,
            state=state,
            rows=run.rows,
            done=tallies.done,
            failed=tallies.failed,
            cached=tally.cached,
            duplicates=tally.duplicates,
            requests=machine.requests,
            tokens=tallies.tokens,
            cost=machine.spent if any(lane.price is not None for lane in machine.lanes) else None,
            elapsed=elapsed,
            rate=rate,
            eta=left / rate if left is not None and rate > 0 and state is JobState.RUNNING else None,
            in_flight=machine.in_flight,
            shares={lane.route: lane.rows for lane in machine.lanes if lane.rows},
            message=message or (waits[1] if waits is not None else ""),
            waiting_until=None if waits is None else self._clock.wall() + waits[0] - now,
            at=self._clock.wall(),
        )
