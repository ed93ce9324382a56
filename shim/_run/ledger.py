"""The records of one call: its attempts and probes as they end, told to observers and to the log."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from shim._core import exhausted, vectors
from shim._core.outcome import Judgement
from shim._run.bus import Bus
from shim._run.exchange import Reply
from shim._run.judging import NOTHING, OK
from shim._run.records import Running, record_of, tell_attempt, tell_breaker
from shim.events import Attempt, AttemptFinished, AttemptStarted, BreakerChanged, Kind, Purpose, Verdict


@dataclass(slots=True)
class Won:
    """An attempt that was judged: its reply, and the vectors where it was an embedding."""

    running: Running
    reply: Reply
    judgement: Judgement
    embedded: vectors.Embedded | None = None
    record: Attempt | None = None


class Ledger:
    """Keeps an attempt's record under its number; a stream's is written again when it ends."""

    __slots__ = ("_bus", "_id", "_kept", "_kind", "_probes")

    def __init__(self, bus: Bus, call_id: str, kind: Kind) -> None:
        self._bus = bus
        self._id = call_id
        self._kind = kind
        self._kept: dict[int, Attempt] = {}
        self._probes: list[Attempt] = []

    @property
    def is_observed(self) -> bool:
        return bool(self._bus.observers)

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """The records so far, probes of the space check first."""
        kept = self._kept
        ordered = kept.values() if len(kept) < 2 else [kept[number] for number in sorted(kept)]
        return (*self._probes, *ordered)

    def begun(self, running: Running) -> None:
        """An attempt begins."""
        slot = running.slot
        names = slot.family.config.name, slot.route.config.route
        self._bus.emit(AttemptStarted(self._id, running.number, *names, running.purpose, running.wall))

    def write(self, won: Won, now: float) -> Attempt:
        """The record of an attempt that was judged."""
        record = record_of(won.running, won.judgement, won.reply, now, won.embedded)
        won.record = record
        self._kept[won.running.number] = record
        _count(record, won.running)
        return record

    def write_cancelled(self, running: Running, now: float) -> None:
        """The record of an attempt that was cancelled: it lost a race, or the caller went away."""
        record = record_of(running, None, Reply(NOTHING), now)
        self._kept[running.number] = record
        self._emit(record, "cancelled")

    def write_probe(
        self, running: Running, reply: Reply, read: Judgement | vectors.Embedded, started: float, now: float
    ) -> None:
        """Probes of the space check cost tokens: they stand in the records as what they are."""
        wall = running.wall + (started - running.started)
        probe = replace(running, purpose=Purpose.SPACE_CHECK, started=started, wall=wall)
        judgement = read if isinstance(read, Judgement) else OK
        embedded = read if isinstance(read, vectors.Embedded) else None
        record = record_of(probe, judgement, reply, now, embedded)
        self._probes.append(record)
        _count(record, running)
        self._emit(record, "space check")

    def tell(self, record: Attempt, then: str) -> None:
        """What an attempt brought and what comes next: an event for all, a log line for all but the first one of a call
        where that brought the answer."""
        if record.verdict is not Verdict.OK or record.number > 1:
            tell_attempt(self._kind, record, then)
        self._emit(record, then)

    def tell_breakers(self, changes: Iterable[BreakerChanged]) -> None:
        for change in changes:
            tell_breaker(change)
            self._bus.emit(change)

    def _emit(self, record: Attempt, then: str) -> None:
        if self._bus.observers:
            self._bus.emit(AttemptFinished(self._id, record, then))


def _count(record: Attempt, running: Running) -> None:
    health = running.slot.route.health
    is_late = running.is_rehearsal and health.kept is None  # its rehearsal has ended before it
    if record.verdict is not None and record.verdict is not Verdict.OK and not is_late:
        health.last_way = exhausted.way_of(record)
    health.input_tokens += record.input_tokens or 0
    health.output_tokens += record.output_tokens or 0
    health.cost += record.cost or 0.0
