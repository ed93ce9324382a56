"""One process of a distributed job: its client, made at first use and kept, and what its routes have taught it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shim._config.variables import resolve
from shim._run.system import Clock, SystemClock
from shim.client import OpenAI
from shim.embed import plan
from shim.embed.assignment import Assignment
from shim.embed.cells import ErrorKind, RowError
from shim.embed.errors import BatchStoppedError, SourceError, StoreError
from shim.embed.intake import Intake
from shim.embed.lanes import Lane
from shim.embed.machine import Machine, Rules
from shim.embed.observed import Observed
from shim.embed.pace import Pace
from shim.embed.port import Post, ThreadPort
from shim.embed.redis_sharing import RedisSharing, through_redis
from shim.embed.run import Run
from shim.embed.segments import Vectors
from shim.embed.settings import settings
from shim.embed.sinks import account
from shim.embed.sources import Piece
from shim.embed.store import Store
from shim.embed.windows import Window
from shim.events import JobState
from shim.router import Router


@dataclass(frozen=True, slots=True)
class Embedded:
    """A batch's vectors, NaN where a row has none, and the Arrow columns that account for each row."""

    vectors: Vectors
    account: Mapping[str, Any]


@dataclass(slots=True)
class _Windows:
    """The sink of a batch: its windows, to be read from the store when all are there."""

    windows: list[Window] = field(default_factory=list)

    def accept(self, rows: Sequence[int], vectors: Vectors) -> None:
        """Nothing: what another process has put first counts, so all is read from the store."""

    def write(self, window: Window) -> None:
        self.windows.append(window)

    def abandon(self, window: Window) -> None:
        """Nothing: an interrupted batch gives nothing back, and is run again."""


class Worker:
    """Embeds batches for one assignment, in as many threads as call it. Each has a seat while it does."""

    assignment: Assignment
    clock: Clock
    router: Router
    client: OpenAI
    setup: plan.Setup
    sharing: RedisSharing | None

    def __init__(self, assignment: Assignment, spaces: Mapping[str, bytes] | None = None) -> None:
        self.assignment, self.clock = assignment, SystemClock()
        router = Router(assignment.configuration)
        problems = router._board.references.take_over(spaces or {})
        if problems:
            raise StoreError(
                f"this machine knows the family in another vector space than where the job was made: {problems[0]}; "
                "remove the wrong reference (below $SHIM_CACHE_DIR), or give this machine another SHIM_CACHE_DIR"
            )
        self.router = router
        self.client = OpenAI(router=router)
        most = max(1, assignment.concurrency // assignment.workers)
        self.setup = plan.set_up(router, assignment.family, settings(**assignment.choices, concurrency=most))
        self.sharing = None if assignment.share is None else self._shared(assignment.share)
        self._seats: list[_Seat] = []

    def _shared(self, address: str) -> RedisSharing:
        found = resolve(address, os.environ)
        if found.missing:
            raise SourceError(f"share: environment variable {', '.join(found.missing)} is not set on this worker")
        told = self.assignment
        name = os.urandom(6).hex()
        return RedisSharing(through_redis(found.text, told.party), told.concurrency, told.workers, self.clock, name)

    def interval(self) -> float:
        """Seconds between two requests of one seat to one route."""
        rate = self.assignment.requests_per_second
        workers = self.assignment.workers if self.sharing is None else self.sharing.live
        return 0.0 if rate is None else workers / rate

    def embed(self, pieces: Iterator[Piece], rows: int) -> Embedded:
        """The vectors of a batch. Raises BatchStoppedError if it was asked to, and what the store raises."""
        try:
            seat = self._seats.pop()
        except IndexError:
            seat = _Seat(self)
        member = None if self.sharing is None else self.sharing.join()
        try:
            embedded = seat.embed(pieces, rows)
        except BaseException:
            seat.close()
            raise
        finally:
            if self.sharing is not None and member is not None:
                self.sharing.leave(member)
        if seat.store.width is None:
            seat.close()  # an empty store would not look for what others have put into it since
        else:
            self._seats.append(seat)
        return embedded

    def close(self) -> None:
        """Let go of connections, stores and threads."""
        for seat in self._seats:
            seat.close()
        self._seats.clear()
        if self.sharing is not None:
            self.sharing.close()
        self.client.close()


class _Seat:
    """What one batch at a time uses: a store open for writing, and the lanes as the last batch left them."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self.store: Store = worker.setup.open_store()
        self._lanes: list[Lane] = []
        post: Post = worker.client._post_for_vectors
        self._post = (
            post if worker.assignment.requests_per_second is None else Pace(post, worker.interval, worker.clock)
        )

    def embed(self, pieces: Iterator[Piece], rows: int) -> Embedded:
        worker, store = self._worker, self.store
        setup, clock = worker.setup, worker.clock
        self._lanes = carried_on(self._lanes, setup.lanes())
        intake = Intake(setup.space, setup.measure(is_counted=False), store)
        machine = Machine(self._lanes, Rules(patience=setup.settings.patience), clock.now())
        sink = _Windows()
        port = ThreadPort(self._post, clock.wall)
        Run(
            pieces,
            intake,
            machine,
            store,
            port,
            sink,
            setup.settings,
            clock,
            rows,
            Observed(worker.router, setup, store).of,
            _silent,
            worker.sharing,
        ).go()
        if machine.stopped is not None:
            if worker.assignment.raises:
                raise BatchStoppedError(f"{machine.stop_message}; what is done is kept, run the batch again to go on")
            sink.windows.extend(intake.take(piece)[0] for piece in pieces)  # null stays null, known vectors are known
            _give_up(sink.windows, machine.stop_message)
        return self._read(sink.windows, rows)

    def _read(self, windows: Sequence[Window], rows: int) -> Embedded:
        import pyarrow as pa

        setup = self._worker.setup
        width = self.store.width or setup.space.dimensions or setup.family.dimensions or 0
        vectors = np.empty((rows, width), dtype=np.float32)
        for window in windows:
            self.store.read(window.places, vectors[window.start : window.start + len(window)])
        told = [account(one, self.store, self._worker.assignment.into) for one in windows or [Window(0, [], None)]]
        joined = {name: pa.concat_arrays([one[name] for one in told]) for name in told[0]}
        return Embedded(vectors.astype(setup.settings.dtype, copy=False), joined)

    def close(self) -> None:
        self.store.close()


def carried_on(before: Sequence[Lane], fresh: list[Lane]) -> list[Lane]:
    """Fresh lanes that know what those of the last batch had learnt: limits, pauses, how much at a time goes well."""
    for old, new in zip(before, fresh, strict=False):
        new.limits, new.window = old.limits, old.window
        if old.pause_is_told:  # what the provider said holds; our own backing off begins anew
            new.paused_until, new.pause_is_told, new.trouble = old.paused_until, True, old.trouble
    return fresh


def _give_up(windows: Sequence[Window], message: str) -> None:
    """Every row without a vector or an error is one that no route could serve."""
    for window in windows:
        for row in np.flatnonzero(window.places < 0).tolist():
            window.errors.setdefault(row, RowError(ErrorKind.EXHAUSTED, message))


def _silent(state: JobState) -> None:
    """A worker's progress is told by the framework that runs it."""


# -- one worker for each assignment in a process

_workers: dict[str, Worker] = {}
_guard = threading.Lock()
_parents: list[Any] = []


def worker_for(assignment: Assignment, spaces: Mapping[str, bytes] | None = None) -> Worker:
    """The worker of this process, the same for every batch of an assignment. `spaces` have travelled with it."""
    with _guard:
        found = _workers.get(assignment.id)
        if found is None:
            found = _workers[assignment.id] = Worker(assignment, spaces)
        return found


def known_spaces(assignment: Assignment, family: str) -> dict[str, bytes]:
    """The observed spaces of the family as this process or machine knows them: the reference that all hold by."""
    found = _workers.get(assignment.id)
    router = Router(assignment.configuration) if found is None else found.client.router
    assert router is not None
    return router._board.references.exported(family)


def dismiss() -> None:
    """Let go of the workers of this process: their connections, stores and threads."""
    with _guard:
        workers = list(_workers.values())
        _workers.clear()
    for worker in workers:
        worker.close()


def _start_afresh() -> None:
    """In a forked child: its parent's sockets and open index are not its own, and must not be closed here either."""
    global _workers, _guard
    _parents.append(_workers)
    _workers, _guard = {}, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_afresh)
