"""The order in which the routes of a family are tried."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim._core.order import Place, arrange


def places(*given: tuple[int, float, int, float | None]) -> list[Place]:
    return [Place(*each) for each in given]


def even(*priorities: int) -> list[Place]:
    return [Place(priority, 1.0, 0, None) for priority in priorities]


def draws(*numbers: float) -> Callable[[], float]:
    left = list(numbers)
    return lambda: left.pop(0)


BUSY = places((1, 1, 3, None), (1, 1, 0, None), (1, 1, 1, None))
TIMED = places((1, 1, 0, 0.5), (1, 1, 0, 0.2), (1, 1, 0, 0.9))
NEW = places((1, 1, 0, 0.5), (1, 1, 0, None), (1, 1, 0, 0.2))
HEAVY = places((1, 1, 0, None), (1, 3, 0, None))
ROWS = [
    ("priority: lower first", even(3, 1, 2), "priority", 0, (), [1, 2, 0]),
    ("priority: ties as written", even(1, 1, 1), "priority", 5, (), [0, 1, 2]),
    ("round robin: the first turn begins with the first", even(1, 1, 1), "round_robin", 0, (), [0, 1, 2]),
    ("round robin: the second turn begins with the second", even(1, 1, 1), "round_robin", 1, (), [1, 2, 0]),
    ("round robin: turns come round", even(1, 1, 1), "round_robin", 5, (), [2, 0, 1]),
    ("round robin: only within a priority", even(1, 2, 1), "round_robin", 1, (), [2, 0, 1]),
    ("least busy first", BUSY, "least_busy", 0, (), [1, 2, 0]),
    ("least busy: only within a priority", places((1, 1, 9, None), (2, 1, 0, None)), "least_busy", 0, (), [0, 1]),
    ("fastest first", TIMED, "fastest", 0, (), [1, 0, 2]),
    ("fastest: a route without figures gets some first", NEW, "fastest", 0, (), [1, 2, 0]),
    ("weighted: a low draw is the first", HEAVY, "weighted", 0, (0.2, 0.0), [0, 1]),
    ("weighted: three quarters of the draws are the heavy one", HEAVY, "weighted", 0, (0.25, 0.0), [1, 0]),
    ("weighted: the highest draw is the last", HEAVY, "weighted", 0, (0.999999, 0.0), [1, 0]),
    ("weighted: without replacement", even(1, 1, 1), "weighted", 0, (0.5, 0.9, 0.0), [1, 2, 0]),
    ("weighted: a priority with one route draws nothing", even(1, 2), "weighted", 0, (), [0, 1]),
]


@pytest.mark.parametrize(
    ("given_places", "order", "turn", "numbers", "expected"), [r[1:] for r in ROWS], ids=[r[0] for r in ROWS]
)
def test_order(
    given_places: list[Place], order: str, turn: int, numbers: tuple[float, ...], expected: list[int]
) -> None:
    assert arrange(given_places, order, turn, draws(*numbers)) == expected


def test_an_order_that_is_not_known_is_told() -> None:
    with pytest.raises(ValueError, match="unknown order 'alphabetical'"):
        arrange(even(1, 1), "alphabetical", 0, draws())


@given(
    st.lists(
        st.builds(
            Place,
            st.integers(0, 3),
            st.floats(0.001, 100),
            st.integers(0, 5),
            st.one_of(st.none(), st.floats(0.001, 9)),
        ),
        max_size=8,
    ),
    st.sampled_from(["priority", "round_robin", "weighted", "fastest", "least_busy"]),
    st.integers(0, 1000),
    st.integers(),
)
def test_every_route_comes_once_and_priorities_come_first(some: list[Place], order: str, turn: int, seed: int) -> None:
    ordered = arrange(some, order, turn, Random(seed).random)
    assert sorted(ordered) == list(range(len(some)))
    assert [some[i].priority for i in ordered] == sorted(place.priority for place in some)
