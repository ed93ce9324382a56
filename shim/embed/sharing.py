"""What the workers of a job beyond one process tell one another: which routes rest, and how much each may take. Pure.

A rate limit or an open breaker that one worker has met is true for all of them; a wrong key may be one machine's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from shim.embed.lanes import Lane
from shim.embed.trouble import Failure, Trouble


@dataclass(frozen=True, slots=True)
class Pause:
    """A route rests until that instant on this process's clock. `is_told`: the provider itself named it."""

    until: float
    reason: str
    is_told: bool


class Sharing(Protocol):
    """The other workers, as one of them sees them. Every method returns at once, whatever the network does."""

    def pauses(self) -> Mapping[str, Pause]:
        """Pauses that any worker has told of, by route."""

    def pause(self, route: str, seconds: float, reason: str, *, is_told: bool) -> None:
        """Tell all of them that a route rests for so long."""

    def most(self) -> int:
        """How many requests this worker may have in flight on a route; at least 1."""


def heed(sharing: Sharing, lanes: Sequence[Lane], now: float) -> None:
    """Rest where another worker was told to, and take no more than this worker's share."""
    most, pauses = sharing.most(), sharing.pauses()
    for lane in lanes:
        lane.most = most
        lane.window = min(lane.window, float(most))
        pause = pauses.get(lane.route)
        if pause is not None and pause.until > max(now, lane.paused_until):
            lane.paused_until, lane.pause_is_told, lane.trouble = pause.until, pause.is_told, pause.reason


def tell(sharing: Sharing, lanes: Sequence[Lane], route: str, failure: Failure, now: float) -> None:
    """After a failure: what all workers would meet on this route. One odd answer is no news, a limit or an open
    breaker is."""
    lane = next(lane for lane in lanes if lane.route == route)
    if failure.trouble in (Trouble.LIMITED, Trouble.BARRED) and not lane.is_out and lane.paused_until > now:
        sharing.pause(route, lane.paused_until - now, failure.message, is_told=lane.pause_is_told)


def tell_pace(sharing: Sharing, lanes: Sequence[Lane], route: str, now: float) -> None:
    """After a good answer: rest that its rate-limit headers ask for."""
    lane = next(lane for lane in lanes if lane.route == route)
    if lane.pause_is_told and lane.paused_until > now:
        sharing.pause(route, lane.paused_until - now, "paced by its rate-limit headers", is_told=True)
