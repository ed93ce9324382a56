"""Whether a failure is the batch's own doing or the route's. Pure.

A text that a server cannot embed looks like a sick server, and a sick server like a bad text. What tells them apart is
whether others are served meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass

from shim._core.vectors_faults import NO_VECTOR
from shim.embed.batches import Batch
from shim.embed.trouble import Failure, Trouble, is_outage

SUSPECT_AFTER = 2
"""Failures of a batch, with others succeeding meanwhile, after which the fault is taken to be in one of its rows."""
GIVE_UP_AFTER = 5
"""Failures of a single text, with others succeeding meanwhile, after which it is left as an error row."""
SURE_AFTER = 2
"""The same for one that was found by halving and gets no vector, zeros or what is not finite: no glitch does that."""
CRASHED_AFTER = 4
"""The same for one that looks like an outage each time: every try may cost a breaker's cooldown."""
HALVE_AFTER = 3
"""Failures of a batch, with answers and nobody served meanwhile, after which it is halved to see if a part goes."""
_NO_VECTOR = NO_VECTOR | {"implausible"}


@dataclass(frozen=True, slots=True)
class Scene:
    """What else there is when a batch fails. `served_at` is the instant at which any route last gave good vectors."""

    served_at: float | None
    is_alone: bool
    """Nothing else is in flight or waits."""
    has_others: bool
    """Something is to be done that has not failed yet."""

    def has_served_since(self, instant: float | None) -> bool:
        return instant is not None and self.served_at is not None and self.served_at >= instant


def is_old_news(batch: Batch, failure: Failure, scene: Scene) -> bool:
    """Whether a failure tells nothing new of the route: it has served others since this suspect last failed."""
    answers_come = failure.trouble is Trouble.DOWN and not is_outage(failure.status)
    return batch.is_suspect and answers_come and scene.has_served_since(batch.failed_last_at)


def is_at_fault(batch: Batch, failure: Failure, before: float | None, scene: Scene) -> bool:
    """Whether the batch is at fault, as far as can be told. `before` is the instant of its failure before this one."""
    if batch.tries < _tries_of(batch, failure):
        return False
    is_spoilt = failure.trouble is Trouble.SPOILT
    if is_spoilt or not is_outage(failure.status):
        if scene.is_alone or scene.has_served_since(batch.failed_at):
            return True
        # To halve costs little and may show that a part is served; to give a text up for a 500 takes that proof.
        return (is_spoilt or len(batch.items) > 1) and (batch.is_suspect or batch.tries >= HALVE_AFTER)
    # An outage may have begun since others were served: only where none are left to tell does that still count.
    return scene.has_served_since(before if scene.has_others else batch.failed_at)


def _tries_of(batch: Batch, failure: Failure) -> int:
    """How many failures it takes to put them down to the batch."""
    is_spoilt, is_down = failure.trouble is Trouble.SPOILT, is_outage(failure.status)
    if len(batch.items) > 1:
        return 1 if batch.is_suspect and (is_spoilt or not is_down) else SUSPECT_AFTER
    if batch.is_suspect and failure.reason in _NO_VECTOR:
        return SURE_AFTER
    return CRASHED_AFTER if batch.is_suspect and is_down and not is_spoilt else GIVE_UP_AFTER
