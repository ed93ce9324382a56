"""The numbers of a call and of its exchanges: the policy's, where the caller said nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shim._core.call import Limits
from shim._core.plan import Slot
from shim._core.prepare import Prepared
from shim._core.request import Request
from shim._core.stream import StreamWatch
from shim._run.exchange import Exchange
from shim._run.records import Running
from shim.config import FamilyConfig
from shim.events import Kind

_ROUNDING = 1e-3
"""Seconds. An instant less another is a hair less than the limit that made it."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the caller asked of this call. Times are seconds, None where nothing was said."""

    deadline: float | None = None
    read_timeout: float | None = None
    connect_timeout: float | None = None
    max_retries: int | None = None
    pinned: str | None = None
    only_first: bool = False
    account: str = ""
    """The one account whose keys may be used, "" for any."""


def limits_of(
    family: FamilyConfig, request: Request, slots: Sequence[Slot], options: Options, started: float
) -> Limits:
    """The limits of a call that began at `started`, an instant."""
    policy = family.policy
    is_told = family.kind is Kind.CHAT or policy.first_chunk_timeout is not None
    if request.is_stream and is_told:  # the first event of an image or a transcript may well be all of it
        private = any(slot.route.provider.is_private for slot in slots)
        attempt = policy.first_chunk_timeout_for(is_private=private)
    else:
        attempt = policy.attempt_timeout_for(family.kind)
    width, delay = _width_and_delay(family, slots)
    return Limits(
        deadline=started + (policy.deadline if options.deadline is None else options.deadline),
        attempt_timeout=attempt,
        retries=policy.max_retries if options.max_retries is None else options.max_retries,
        width=width,
        delay=delay,
        # A dataset job waits itself: it has other routes, its own patience, and is to be cancelled at once.
        wait_when_exhausted=policy.when_exhausted == "wait" and not request.headers.wants_packed,
    )


def _width_and_delay(family: FamilyConfig, slots: Sequence[Slot]) -> tuple[int, float | None]:
    policy = family.policy
    match policy.mode:
        case "sequential":
            return 1, None
        case "race":
            return policy.race_width, 0.0
        case "hedged":
            if not isinstance(policy.hedge_delay, str):
                return policy.race_width, policy.hedge_delay
            share = int(policy.hedge_delay[1:]) / 100
            return policy.race_width, slots[0].route.health.percentile(share) if slots else None


def exchange_of(
    family: FamilyConfig, request: Request, running: Running, prepared: Prepared, options: Options
) -> Exchange:
    """The exchange of an attempt, with a watch where a stream was asked for."""
    policy = family.policy
    connect, idle = policy.connect_timeout, policy.idle_timeout
    if options.connect_timeout is not None:
        connect = min(connect, options.connect_timeout)
    if options.read_timeout is not None:
        idle = min(idle, options.read_timeout)
    if request.is_stream:
        running.watch = StreamWatch(request.endpoint)
    route = running.slot.route.config
    return Exchange(prepared, running.until, running.watch, idle, connect, provider=route.provider, model=route.model)


def was_rushed(running: Running, patience: float) -> bool:
    """Whether the caller's own deadline left less time than the route needs as a rule: nobody's failure.

    As a rule is the median: a share of the deadline between that and the slowest answers is still enough to tell a dead
    route from a living one. `patience` is the policy's limit in seconds: what it ends is a failure, also where whole
    streams take longer."""
    usual = running.slot.route.health.percentile(0.5)
    return usual is not None and running.until - running.started < min(usual, patience) - _ROUNDING
