"""What a panel keeps of events: by tables; and that it stays small, whatever comes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from notebook_ext.fold import KEPT_CALLS, KEPT_JOBS, KEPT_LATENCIES, KEPT_ROUTES, KEPT_TROUBLES, Fold
from shim.events import Attempt, CallFinished, Ending, Event, JobState, Purpose, Verdict
from tests.notebook.scene import NOW, attempt, call, failure, finished, fold, job

LAB = "lab/bge-m3"
LIMIT = failure(LAB, Verdict.TRANSIENT, "rate_limit", "slow down", 429)
REHEARSED = failure(LAB, Verdict.TRANSIENT, "rate_limit", "rehearsal of HTTP 429", 429, is_rehearsal=True)
BAD_PROBE = failure(LAB, Verdict.TRANSIENT, "timeout", "timeout", None, purpose=Purpose.SPACE_CHECK)
PROBE = attempt(LAB, purpose=Purpose.SPACE_CHECK, duration=9.0)


def told(kept: Fold) -> dict[str, Any]:
    return {
        "latencies": {route: list(seconds) for (_, route), seconds in kept.latencies.items()},
        "troubles": {reason: trouble.count for (_, reason), trouble in kept.troubles.items()},
        "endings": {ending.value: count for ending, count in kept.endings.items()},
        "calls": len(kept.calls),
        "lost": kept.lost_cost,
        "checks": kept.space_checks,
    }


NOTHING: dict[str, Any] = {"latencies": {}, "troubles": {}, "endings": {}, "calls": 0, "lost": 0.0, "checks": 0}


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ([], {}),
        ([finished(attempt(LAB, duration=0.5))], {"latencies": {LAB: [0.5]}}),
        ([finished(LIMIT), finished(LIMIT)], {"troubles": {"rate_limit": 2}}),
        ([finished(attempt(LAB, None, cost=0.25))], {"lost": 0.25}),
        ([finished(PROBE)], {"checks": 1}),
        ([finished(BAD_PROBE)], {"checks": 1}),
        ([finished(REHEARSED)], {}),
        ([CallFinished(call(attempt(LAB)))], {"calls": 1, "endings": {"ok": 1}}),
        ([CallFinished(call(LIMIT, ending=Ending.EXHAUSTED))], {"calls": 1, "endings": {"exhausted": 1}}),
        ([CallFinished(call(LIMIT, ending=Ending.EXHAUSTED, mode="job"))], {"calls": 1}),
        ([CallFinished(call(REHEARSED, attempt(LAB, number=2)))], {"calls": 1}),
    ],
    ids=[
        "nothing",
        "a good answer is a latency",
        "failures are counted by reason",
        "what a loser cost is lost",
        "a probe is no latency",
        "a probe that failed is told by its attempt",
        "a rehearsed failure is in no figure",
        "a call that ended well",
        "an exhausted call",
        "a batch that its job asks for again",
        "a rehearsed call is shown and not counted",
    ],
)
def test_what_is_kept(history: Sequence[Event], expected: dict[str, Any]) -> None:
    assert told(fold(history)) == {**NOTHING, **expected}


def test_calls_from_before_count_as_heard() -> None:
    made = call(LIMIT, attempt(LAB, number=2, duration=0.5))
    heard = fold([finished(one) for one in made.attempts] + [CallFinished(made)])
    seeded = Fold()
    seeded.seed([made])

    assert told(seeded) == told(heard)


@pytest.mark.parametrize(
    ("states", "shown"),
    [
        (["running", "waiting", "running", "done"], "done"),
        (["running", "cancelled"], "cancelled"),
        (["done", "running"], "done"),
    ],
    ids=["its last word counts", "it was cancelled", "a late word of a thread changes nothing"],
)
def test_a_job_is_where_it_last_was(states: list[str], shown: str) -> None:
    kept = fold([job(JobState(state)) for state in states])

    assert [one.state.value for one in kept.jobs.values()] == [shown]


def test_a_job_that_is_resumed_runs_again() -> None:
    kept = fold([job(JobState.CANCELLED, at=NOW), job(JobState.RUNNING, at=NOW + 5)])

    assert [one.state for one in kept.jobs.values()] == [JobState.RUNNING]


def test_running_jobs_stay_before_those_that_are_over() -> None:
    told = [job(job_id="first")]
    told += [job(JobState.DONE, job_id=f"over-{number}") for number in range(5)]
    kept = fold(told)

    assert list(kept.jobs) == ["first", "over-3", "over-4"]


def test_it_stays_small_whatever_comes() -> None:
    kept = Fold()
    for number in range(3000):
        kept.take(finished(attempt(f"lab/model-{number}")))
        kept.take(finished(attempt(LAB)))
        kept.take(finished(failure(LAB, Verdict.TRANSIENT, f"reason-{number}", "x", 500)))
        kept.take(CallFinished(call(attempt(LAB))))
        kept.take(job(job_id=f"job-{number}"))

    assert len(kept.calls) == KEPT_CALLS
    assert len(kept.latencies) == KEPT_ROUTES
    assert max(map(len, kept.latencies.values())) == KEPT_LATENCIES
    assert len(kept.troubles) == KEPT_TROUBLES
    assert ("reason-2999") in [reason for _, reason in kept.troubles]
    assert len(kept.jobs) == KEPT_JOBS


def test_the_last_failure_of_a_reason_is_the_one_that_is_told() -> None:
    first, last = (failure(LAB, Verdict.TRANSIENT, "timeout", text, None) for text in ("first", "last"))
    trouble = fold([finished(first), finished(last)]).troubles[(Verdict.TRANSIENT, "timeout")]

    assert (trouble.count, trouble.last.message) == (2, "last")


def test_an_attempt_is_not_changed_by_being_kept() -> None:
    made: Attempt = attempt(LAB)
    kept = fold([CallFinished(call(made))])

    assert kept.calls[0].attempts[0] is made
