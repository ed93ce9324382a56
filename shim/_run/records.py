"""Writes down what an attempt was, as a record and as a log line. No bodies, no keys."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from shim._core import vectors
from shim._core.health import Permits
from shim._core.outcome import Judgement
from shim._core.plan import Slot
from shim._core.stream import StreamWatch
from shim._run.exchange import Reply
from shim.events import Attempt, BreakerChanged, BreakerState, Kind, Purpose, Verdict

log = logging.getLogger("shim")
FOREVER = float("inf")


@dataclass(slots=True)
class Running:
    """An attempt that has begun and not been settled. `started` is on the machine's clock, `wall` unix seconds."""

    number: int
    slot: Slot
    purpose: Purpose
    permits: Permits
    until: float
    started: float
    wall: float
    watch: StreamWatch | None = None
    dropped: tuple[str, ...] = ()
    is_rehearsal: bool = False
    """It met a fault that no provider made."""


def record_of(
    running: Running,
    judgement: Judgement | None,
    reply: Reply,
    now: float,
    embedded: vectors.Embedded | None = None,
) -> Attempt:
    """The record of an attempt; without a judgement it was cancelled."""
    slot = running.slot
    health = slot.route.health
    input_tokens, output_tokens = _tokens(running, reply, embedded)
    status = reply.outcome.status
    if judgement is not None and judgement.status is not None:
        status = judgement.status
    is_ok = judgement is None or judgement.verdict is Verdict.OK
    benched = now if is_ok else health.ready_at(slot.key, now)
    return Attempt(
        number=running.number,
        family=slot.family.config.name,
        provider=slot.route.provider.name,
        model=slot.route.config.model,
        key=slot.key_alias,
        purpose=running.purpose,
        verdict=judgement.verdict if judgement is not None else None,
        scope=judgement.scope if judgement is not None else None,
        reason=judgement.reason if judgement is not None else "cancelled",
        message=judgement.message if judgement is not None else "",
        status=status,
        started_at=running.wall,
        duration=now - running.started,
        first_byte=None if reply.first_byte_at is None else reply.first_byte_at - running.started,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cost=_cost(slot, input_tokens, output_tokens),
        breaker=health.breaker.state,
        retry_at=running.wall + (benched - running.started) if now < benched < FOREVER else None,
        is_rehearsal=running.is_rehearsal,
        is_told=judgement is not None and judgement.told,
    )


def _tokens(running: Running, reply: Reply, embedded: vectors.Embedded | None) -> tuple[int | None, int | None]:
    if embedded is not None:
        return embedded.input_tokens, None
    if reply.answer is not None:
        return reply.answer.input_tokens, reply.answer.output_tokens
    if running.watch is not None:
        return running.watch.input_tokens, running.watch.output_tokens
    return None, None


def _cost(slot: Slot, input_tokens: int | None, output_tokens: int | None) -> float | None:
    price = slot.route.config.price
    if price is None or (input_tokens is None and output_tokens is None):
        return None
    return ((input_tokens or 0) * price.input + (output_tokens or 0) * price.output) / 1e6


def tell_attempt(kind: Kind, record: Attempt, then: str) -> None:
    """One log line for an attempt: who, what, how long, what next."""
    log.log(
        logging.WARNING if record.verdict is Verdict.BROKEN else logging.INFO,
        "%s%s family %s: attempt %d on %s: %s (%s%s) after %.3f s: %s",
        "rehearsal: " if record.is_rehearsal else "",
        kind.value,
        record.family,
        record.number,
        record.route,
        record.verdict.value if record.verdict else "cancelled",
        record.reason,
        f", HTTP {record.status}" if record.status else "",
        record.duration,
        then,
    )


def tell_breaker(change: BreakerChanged) -> None:
    """One log line for a breaker that moved."""
    level = logging.INFO if change.after is BreakerState.CLOSED else logging.WARNING
    rehearsal = "rehearsal: " if change.is_rehearsal else ""
    log.log(level, "%sbreaker of %s: %s -> %s", rehearsal, change.subject, change.before.value, change.after.value)
