"""What the demonstration must have shown, checked against its records and against the model asked directly."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from shim import Attempt, BreakerState, Verdict
from shim.cli.demo_acts import Act, Vectors
from shim.cli.demo_stage import ATTEMPT_TIMEOUT, BUSY, HEALTHY, SLOW
from shim.events import BreakerChanged

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CLOSE = 1e-6
"""Largest difference of a component between vectors that are the same: what a float32 may lose on its way."""

Finding = tuple[bool, str]


def of_sequence(act: Act, truth: Vectors) -> list[Finding]:
    """What the first part proves."""
    limited = _count(act, BUSY, lambda one: one.status == 429)
    timeouts = _count(act, SLOW, lambda one: one.reason == "timeout")
    opened = any(_is_move(move, SLOW) and move.after is BreakerState.OPEN for move in act.moves)
    closed = any(_is_move(move, SLOW) and move.after is BreakerState.CLOSED for move in act.moves)
    back = [name for name in (BUSY, SLOW) if _count(act, name, lambda one: one.verdict is Verdict.OK)]
    return [
        (limited > 0, f"{limited} answers 429 from {BUSY}, left alone for the time that it named"),
        (timeouts > 0, f"{timeouts} timeouts of {SLOW}, each after {ATTEMPT_TIMEOUT:g} s"),
        (opened, f"the breaker of {SLOW} opened: the next call did not wait for it"),
        (closed, f"the breaker of {SLOW} let one probe through and closed"),
        (back == [BUSY, SLOW], f"routes that recovered and served: {', '.join(back) or 'none'}"),
        _same(act, truth),
    ]


def of_race(act: Act, truth: Vectors) -> list[Finding]:
    """What the second part proves."""
    lost = [one for one in act.attempts if one.verdict is None]
    counted = [move for move in act.moves if _is_move(move, SLOW)]
    hung = _count(act, SLOW, lambda one: one.verdict is None)
    won = _count(act, HEALTHY, lambda one: one.verdict is Verdict.OK)
    return [
        (hung > 0 and won > 0, f"race: {len(lost)} losers were cancelled, {hung} of them on {SLOW}"),
        (not counted, f"race: a cancelled loser is no failure, the breaker of {SLOW} did not move"),
        (
            act.slowest < ATTEMPT_TIMEOUT,
            f"race: no call waited for a timeout, the slowest took {1000 * act.slowest:.0f} ms",
        ),
        _same(act, truth, "race: "),
    ]


def nearest(questions: Vectors, vectors: Vectors, count: int = 3) -> list[list[tuple[float, int]]]:
    """For each question the `count` nearest texts as (cosine, index), nearest first."""
    cosines = _unit(questions) @ _unit(vectors).T
    ranked = (-cosines).argsort(axis=1)[:, :count]
    return [[(float(row[index]), int(index)) for index in order] for row, order in zip(cosines, ranked, strict=True)]


def _unit(rows: Vectors) -> NDArray[np.float64]:
    import numpy as np

    made = np.asarray(rows, np.float64)
    unit: NDArray[np.float64] = made / np.linalg.norm(made, axis=1, keepdims=True)
    return unit


def _same(act: Act, truth: Vectors, prefix: str = "") -> Finding:
    import numpy as np

    given = [*act.vectors, *act.questions]
    if len(given) != len(truth):
        return False, f"{prefix}{len(given)} vectors came back, {len(truth)} were asked for"
    worst = float(np.abs(np.asarray(given) - np.asarray(truth)).max())
    text = f"{prefix}{len(given)} vectors, equal to the model's own (largest difference {worst:.1g})"
    return worst <= CLOSE, text


def _count(act: Act, provider: str, is_meant: Callable[[Attempt], bool]) -> int:
    return sum(one.provider == provider and is_meant(one) for one in act.attempts)


def _is_move(move: BreakerChanged, provider: str) -> bool:
    return move.subject.partition("/")[0] == provider
