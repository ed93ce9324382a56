"""Runs a job: reads, asks, keeps, and tells, until all rows have their vector or their error. Decides nothing itself.

One thread runs it: the caller's own for a sync client, another one for an async client, whose loop stays free.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from queue import Empty
from typing import Protocol

import numpy as np

from shim._run.system import Clock
from shim.embed.cells import RowError
from shim.embed.errors import StoreError
from shim.embed.intake import Intake
from shim.embed.machine import Machine, Send, StopReason
from shim.embed.port import Arrival, Crash, Port, Reply, Request
from shim.embed.segments import Vectors
from shim.embed.settings import Settings
from shim.embed.sharing import Sharing, heed, tell, tell_pace
from shim.embed.sources import Piece
from shim.embed.store import Origin, Place, Store
from shim.embed.trouble import Failure
from shim.embed.windows import Mean, Window, weighted_mean
from shim.events import Attempt, JobState, Purpose

OPEN_WINDOWS = 3
_TELL_EVERY = 0.25
_GRACE = 5.0
"""Seconds that an interrupted job waits for the requests in flight: they are paid for."""


class Sink(Protocol):
    """Takes complete windows, in order."""

    def accept(self, rows: Sequence[int], vectors: Vectors) -> None:
        """Vectors of rows of the job, as they come; the sink need not look at them."""

    def write(self, window: Window) -> None:
        """A window whose rows all have their vector or their error."""

    def abandon(self, window: Window) -> None:
        """What is known of a window when the job is interrupted."""


@dataclass(slots=True)
class Tallies:
    """What a run did, for its summary."""

    done: int = 0
    failed: int = 0
    tokens: int = 0
    hedges: int = 0
    space_checks: int = 0
    shares: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=dict)


class Cancelled(Exception):
    """The job was asked to stop."""


class Run:
    """`space_of` names the space of a route that has served, or refuses it; `tell` is called a few times a second;
    `sharing` is how it knows of other workers, None where it is alone."""

    intake: Intake
    machine: Machine
    store: Store
    port: Port
    tallies: Tallies
    rows: int | None
    is_cancelled: bool

    def __init__(
        self,
        pieces: Iterator[Piece],
        intake: Intake,
        machine: Machine,
        store: Store,
        port: Port,
        sink: Sink,
        settings: Settings,
        clock: Clock,
        rows: int | None,
        space_of: Callable[[str], str],
        tell: Callable[[JobState], None],
        sharing: Sharing | None = None,
    ) -> None:
        self.intake, self.machine, self.store, self.port = intake, machine, store, port
        self.tallies = Tallies()
        self.rows = rows
        self._pieces, self._sink, self._settings, self._clock = pieces, sink, settings, clock
        self._space_of, self._tell, self._sharing = space_of, tell, sharing
        self._windows: deque[Window] = deque()
        self._has_more = True
        self._told_at = 0.0
        self._sends: dict[int, Send] = {}
        self._settling: Arrival = None
        self.is_cancelled = False

    def go(self) -> None:
        """Run to the end, or to the machine's stop. Raises what the store or a broken source raises."""
        try:
            while not self._is_over():
                self._start()
                self._report()
                self._wait()
        except StoreError:
            raise  # nothing can be kept
        except BaseException:  # interrupted, cancelled, or the source broke: what is in flight is paid for
            try:
                self._land_the_rest()
            finally:
                self._abandon_windows()
            raise
        finally:
            self.port.close()
        self._close_windows()

    def cancel(self) -> None:
        """End soon, from any thread."""
        self.is_cancelled = True
        self.port.arrivals.put(None)

    # -- one turn

    def _is_over(self) -> bool:
        if self.is_cancelled:
            raise Cancelled
        self._refill()
        return self.machine.is_idle and (not self._has_more or self.machine.stopped is not None)

    def _refill(self) -> None:
        """Read on while there is less to send than all routes can take at once, and few windows are open."""
        machine = self.machine
        room = sum(lane.most * lane.limits.inputs for lane in machine.lanes if not lane.is_out)
        while self._has_more and machine.stopped is None:
            if len(self._windows) >= OPEN_WINDOWS or len(machine.backlog) >= room:
                return
            piece = next(self._pieces, None)
            if piece is None:
                self._has_more = False
                self.rows = self.intake.tally.rows
                self._check_errors()
                return
            window, items, suspects = self.intake.take(piece)
            machine.add(items, suspects)
            self.tallies.done += int((window.places >= 0).sum())
            self.tallies.failed += len(window.errors)
            self._windows.append(window)
            while self.intake.complete:
                self._average(self.intake.complete.pop())
            self._check_errors()
            self._write_complete()

    def _start(self) -> None:
        fields, now = self._fields(), self._clock.now()
        if self._sharing is not None:
            heed(self._sharing, self.machine.lanes, now)
        for send in self.machine.dispatch(now):
            self._sends[send.number] = send
            texts = [item.text for item in send.batch.items]
            self.port.submit(Request(send.number, send.route, texts, fields))

    def _fields(self) -> dict[str, object]:
        fields: dict[str, object] = {"model": self.intake.space.family}
        if self._settings.dimensions is not None:
            fields["dimensions"] = self._settings.dimensions
        if self._settings.input_type:
            fields["input_type"] = self._settings.input_type
        return fields

    def _wait(self) -> None:
        """Take in what has arrived; wait for it, or for a route to be back, while there is nothing."""
        now = self._clock.now()
        if self.machine.is_idle:
            return
        wake_at = self.machine.wake_at(now)
        seconds = _TELL_EVERY if wake_at is None else min(_TELL_EVERY, max(0.0, wake_at - now))
        try:
            self._settle(self.port.arrivals.get(timeout=seconds or 1e-4))
            while True:
                self._settle(self.port.arrivals.get_nowait())
        except Empty:
            if self.port.is_gone:
                raise Cancelled from None

    def _report(self) -> None:
        now = self._clock.now()
        if now - self._told_at >= _TELL_EVERY:
            self._told_at = now
            self._tell(JobState.RUNNING if self.machine.waits_for(now) is None else JobState.WAITING)

    # -- how requests ended

    def _settle(self, arrival: Arrival) -> None:
        if arrival is None:
            if self.is_cancelled:
                raise Cancelled
            return
        number, result = arrival
        send = self._sends[number]
        self._settling = arrival
        self._take_in(send, result)
        self._settling = None
        self._sends.pop(number, None)

    def _take_in(self, send: Send, result: Reply | Failure | Crash) -> None:
        self.port.landed()
        match result:
            case Crash(error):
                raise error
            case Reply():
                self._count(result.attempts)
                self._keep(send, result)
            case Failure():
                self._count(result.attempts)
                self._fail(send, result)

    def _keep(self, send: Send, reply: Reply) -> None:
        now = self._clock.now()
        keys = [item.key for item in send.batch.items]
        origin = Origin(
            send.route, reply.model, self._space_of(send.route), reply.call, reply.tokens, self._clock.wall()
        )
        vectors = reply.vectors
        if self._settings.normalise:
            vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        places = self.store.put(keys, vectors, origin)
        self.machine.succeeded(send, reply.tokens, reply.cost, now)
        self.machine.paced(send, reply.allowance, now)
        if self._sharing is not None:
            tell_pace(self._sharing, self.machine.lanes, send.route, now)
        self.tallies.tokens += reply.tokens if reply.tokens is not None else send.batch.tokens
        rows: list[int] = []
        sources: list[int] = []
        for number, (key, place) in enumerate(zip(keys, places, strict=True)):
            self._landed(key, place, number, rows, sources)
        if rows:
            in_order = len(rows) == len(keys) and sources == list(range(len(keys)))
            self._sink.accept(rows, vectors if in_order else vectors[sources])
        self._note_shortened(keys)
        self._write_complete()

    def _fail(self, send: Send, failure: Failure) -> None:
        if failure.trouble.value != "barred":
            self.tallies.reasons[failure.reason] = self.tallies.reasons.get(failure.reason, 0) + 1
        now = self._clock.now()
        lost = self.machine.failed(send, failure, now, self._clock.jitter())
        if self._sharing is not None:
            tell(self._sharing, self.machine.lanes, send.route, failure, now)
        if lost:
            self.store.suspect({one.item.key: one.error for one in lost if one.error.attempts})
            for one in lost:
                self._lost(one.item.key, one.error)
            self._check_errors()
            self._write_complete()

    def _count(self, attempts: tuple[Attempt, ...]) -> None:
        for attempt in attempts:
            self.tallies.hedges += attempt.purpose in (Purpose.HEDGE, Purpose.RACE)
            self.tallies.space_checks += attempt.purpose is Purpose.SPACE_CHECK

    # -- what became of texts

    def _landed(self, key: bytes, place: Place, number: int, rows: list[int], sources: list[int]) -> None:
        """Everyone who waits for a text gets it: `rows` of the job, from the vector of that `number` in its batch."""
        for waiting in self.intake.waiting.pop(key, ()):
            if isinstance(waiting, Mean):
                waiting.places[key] = place
                if waiting.is_complete:
                    self._average(waiting)
            else:
                window, row = waiting
                window.landed(row, place)
                if place[1] == self.store.put_number:
                    rows.append(window.start + row)
                    sources.append(number)
                self.tallies.done += 1

    def _average(self, mean: Mean) -> None:
        parts = self._vectors_at([mean.places[key] for key in mean.parts])
        origins = self.store.origins(list({place[1] for place in mean.places.values()}))
        first = next(iter(origins.values()))
        origin = Origin(first.route, first.model, first.space, first.call, 0, self._clock.wall())
        (place,) = self.store.put([mean.key], weighted_mean(parts, mean.weights), origin)
        self._note_shortened([mean.key])
        self._landed(mean.key, place, 0, [], [])

    def _vectors_at(self, places: list[Place]) -> Vectors:
        width = self.store.width
        assert width is not None
        out = np.empty((len(places), width), dtype=np.float32)
        self.store.read(np.array([place for place, _ in places], dtype=np.int64), out)
        return out

    def _note_shortened(self, keys: list[bytes]) -> None:
        if self.intake.shortened:
            noted = {key: self.intake.shortened.pop(key) for key in keys if key in self.intake.shortened}
            if noted:
                self.store.put_shortened(noted)

    def _lost(self, key: bytes, error: RowError) -> None:
        for waiting in self.intake.waiting.pop(key, ()):
            if isinstance(waiting, Mean):
                self._lost(waiting.key, error)
            else:
                waiting[0].lost(waiting[1], error)
                self.tallies.failed += 1

    def _check_errors(self) -> None:
        """Stop when more rows have failed than the caller allows."""
        most = self._settings.max_error_rate
        if most is None or not self.tallies.failed:
            return
        total = self.rows if self.rows is not None else max(self.intake.tally.rows, 1000)
        share = self.tallies.failed / total
        if share > most:  # divided, not multiplied: 29 of 100 are no more than 0.29
            self.machine.stop(
                StopReason.TOO_MANY_ERRORS,
                f"{self.tallies.failed:,} of {total:,} rows failed ({share:.1%}), more than the {most:.1%} allowed",
            )

    # -- windows

    def _write_complete(self) -> None:
        while self._windows and not self._windows[0].open_rows:
            self._sink.write(self._windows.popleft())

    def _close_windows(self) -> None:
        """At a stop: what is read is written as far as it is known."""
        while self._windows:
            self._sink.write(self._windows.popleft())

    def _abandon_windows(self) -> None:
        while self._windows:
            self._sink.abandon(self._windows.popleft())

    def _land_the_rest(self) -> None:
        """Interrupted: keep what is paid for and arrives soon. A second interruption ends that too."""
        self.is_cancelled = False
        if self._settling is not None:
            self._settle_again(self._settling)
        until = self._clock.now() + _GRACE
        while self._sends and not self.port.is_gone and (left := until - self._clock.now()) > 0:
            try:
                arrival = self.port.arrivals.get(timeout=left)
            except Empty:
                return
            if arrival is not None and isinstance(arrival[1], Reply):
                self._settle(arrival)
            elif arrival is not None:
                self._sends.pop(arrival[0], None)

    def _settle_again(self, arrival: tuple[int, Reply | Failure | Crash]) -> None:
        """The interruption came while a reply was taken in: unless it was in the store already, it is put there now."""
        number, result = arrival
        send = self._sends.pop(number)
        if isinstance(result, Reply) and self.machine.is_flying(send):
            self._keep(send, result)
