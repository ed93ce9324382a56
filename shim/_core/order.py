"""In which order the routes of a family are tried. Lower priority numbers come first; the order works within one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple


class Place(NamedTuple):
    """What the orders look at. `latency` is the median of the route's valid answers, None before the first."""

    priority: int
    weight: float
    in_flight: int
    latency: float | None


def arrange(places: Sequence[Place], order: str, turn: int, draw: Callable[[], float]) -> list[int]:
    """Indexes of `places`, first to last. `turn` counts the calls of the family; `draw` gives numbers in [0, 1)."""
    tiers: dict[int, list[int]] = {}
    for index, place in enumerate(places):
        tiers.setdefault(place.priority, []).append(index)
    ordered: list[int] = []
    for priority in sorted(tiers):
        tier = tiers[priority]
        ordered += tier if len(tier) == 1 or order == "priority" else _within(tier, places, order, turn, draw)
    return ordered


def _within(tier: list[int], places: Sequence[Place], order: str, turn: int, draw: Callable[[], float]) -> list[int]:
    match order:
        case "round_robin":
            start = turn % len(tier)
            return tier[start:] + tier[:start]
        case "weighted":
            return _weighted(tier, places, draw)
        case "least_busy":
            return sorted(tier, key=lambda i: places[i].in_flight)
        case "fastest":
            # A route without figures comes first: it is tried until it has some.
            return sorted(tier, key=lambda i: places[i].latency or 0.0)
        case _:
            raise ValueError(f"unknown order {order!r}")


def _weighted(tier: list[int], places: Sequence[Place], draw: Callable[[], float]) -> list[int]:
    """Draw without replacement, each with a chance in proportion to its weight."""
    left = list(tier)
    drawn: list[int] = []
    while left:
        point = draw() * sum(places[i].weight for i in left)
        for index in left:
            point -= places[index].weight
            if point < 0:
                break
        left.remove(index)
        drawn.append(index)
    return drawn
