"""What a panel keeps of a router's events, whatever the traffic: a few calls, latencies, failures by reason."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from shim.events import (
    Attempt,
    AttemptFinished,
    Call,
    CallFinished,
    Ending,
    Event,
    JobProgress,
    JobState,
    Purpose,
    Verdict,
)

KEPT_CALLS = 8
KEPT_JOBS = 3
KEPT_LATENCIES = 40
KEPT_TROUBLES = 60
KEPT_ROUTES = 1000

_OVER = (JobState.DONE, JobState.STOPPED, JobState.CANCELLED)


@dataclass(frozen=True, slots=True)
class Trouble:
    """Failures of one verdict and reason: how many, and the last of them."""

    count: int
    last: Attempt


@dataclass(slots=True)
class Fold:
    """Feed it events with `take`; rehearsed attempts are kept out of all figures. Not locked: one thread feeds it."""

    calls: deque[Call] = field(default_factory=lambda: deque(maxlen=KEPT_CALLS))
    endings: Counter[Ending] = field(default_factory=Counter)
    latencies: dict[tuple[str, str], deque[float]] = field(default_factory=dict)
    troubles: dict[tuple[Verdict, str], Trouble] = field(default_factory=dict)
    jobs: dict[str, JobProgress] = field(default_factory=dict)
    lost_cost: float = 0.0
    """US dollars for attempts that were cancelled or failed."""
    space_checks: int = 0
    """Grows with each probe: what was read of the spaces is old when it has."""

    def take(self, event: Event) -> None:
        """One event more."""
        match event:
            case AttemptFinished(attempt=attempt):
                self._attempt(attempt)
            case CallFinished(call=call):
                self._call(call)
            case JobProgress():
                self._job(event)
            case _:
                pass  # what moved is in the router's status

    def seed(self, calls: Iterable[Call]) -> None:
        """Calls that were over before anybody listened."""
        for call in calls:
            for attempt in call.attempts:
                self._attempt(attempt)
            self._call(call)

    def _attempt(self, attempt: Attempt) -> None:
        if attempt.purpose is Purpose.SPACE_CHECK:
            self.space_checks += 1
            return  # how it ended is how the attempt ended that it was made for
        if is_rehearsal(attempt):
            return
        if attempt.verdict is Verdict.OK:
            self._latency(attempt)
            return
        self.lost_cost += attempt.cost or 0.0
        if attempt.verdict is not None:
            self._trouble(attempt.verdict, attempt)

    def _latency(self, attempt: Attempt) -> None:
        place = (attempt.family, attempt.route)
        kept = self.latencies.get(place)
        if kept is None:
            if len(self.latencies) >= KEPT_ROUTES:
                return
            kept = self.latencies[place] = deque(maxlen=KEPT_LATENCIES)
        kept.append(attempt.duration)

    def _trouble(self, verdict: Verdict, attempt: Attempt) -> None:
        place = (verdict, attempt.reason)
        known = self.troubles.pop(place, None)  # and back at the end: the oldest is forgotten first
        self.troubles[place] = Trouble(1 if known is None else known.count + 1, attempt)
        if len(self.troubles) > KEPT_TROUBLES:
            del self.troubles[next(iter(self.troubles))]

    def _call(self, call: Call) -> None:
        self.calls.append(call)
        if call.mode == "job" and call.ending is not Ending.OK:
            return  # its rows go elsewhere, or come again: the job's card tells what became of them
        if not any(map(is_rehearsal, call.attempts)):
            self.endings[call.ending] += 1

    def _job(self, told: JobProgress) -> None:
        known = self.jobs.get(told.job_id)
        if known is not None and known.state in _OVER and told.state is JobState.RUNNING and told.at <= known.at:
            return  # a late word of a thread that was overtaken
        self.jobs.pop(told.job_id, None)
        self.jobs[told.job_id] = replace(told, shares=dict(told.shares))
        while len(self.jobs) > KEPT_JOBS:
            over = [name for name, job in self.jobs.items() if job.state in _OVER]
            del self.jobs[over[0] if over else next(iter(self.jobs))]


def is_rehearsal(attempt: Attempt) -> bool:
    """Whether the attempt met an injected fault."""
    return attempt.is_rehearsal
