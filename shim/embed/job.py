"""A dataset job: what the user holds. A sync client's is finished when one gets it."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from shim._run.system import Clock, SystemClock
from shim.embed import frames, plan
from shim.embed.bar import bar_for
from shim.embed.columns import check_into
from shim.embed.errors import EmbeddingStoppedError, RowsFailedError, SourceError
from shim.embed.intake import Intake
from shim.embed.ledger import Ledger
from shim.embed.machine import Machine, Rules
from shim.embed.observed import Observed
from shim.embed.port import LoopPort, Port, ThreadPort
from shim.embed.results import Results
from shim.embed.run import Cancelled, Run
from shim.embed.settings import OnError, Settings, settings
from shim.embed.sinks import FileSink
from shim.embed.sources import Source, open_source
from shim.embed.store import Store
from shim.embed.summary import Estimate, Summary, counted
from shim.embed.telling import Teller
from shim.events import JobProgress, JobState

PIECE = 16_384
"""Rows of a window: at 1,536 numbers each, 100 MB of vectors when it is written out."""


def finished(client: Any, data: object, **given: Any) -> Any:
    """What a sync client's `embed` returns."""
    return Job(client, data, **settled(given))._start(None)


_OF_THE_JOB = ("family", "column", "into", "out", "dry_run")


def settled(given: dict[str, Any]) -> dict[str, Any]:
    """What `embed` was called with, as a job takes it. Raises ValueError for a choice that cannot be."""
    own = {name: given.pop(name, None) for name in _OF_THE_JOB}
    own["out"] = None if own["out"] is None else Path(own["out"]).expanduser()
    return {**own, "dry_run": bool(own["dry_run"]), "settings": settings(**given)}


class Job:
    """Vectors of a dataset, and where every one came from. Made by `client.embed`, which documents its arguments."""

    id: str
    state: JobState
    message: str
    progress: JobProgress | None

    def __init__(
        self,
        client: Any,
        given: object,
        *,
        family: str | None,
        column: str | None,
        into: str | None,
        out: Path | None,
        dry_run: bool,
        settings: Settings,
        clock: Clock | None = None,
    ) -> None:
        self.id = uuid.uuid4().hex[:12]
        self._client, self._given, self._column, self._into, self._out = client, given, column, into, out
        self._dry_run = dry_run
        self._clock = clock or SystemClock()
        self._setup = plan.set_up(client.router, family, settings)
        self._check_out()
        self._results: Results | None = None
        self._run: Run | None = None
        self.state = JobState.RUNNING
        self.message = ""
        self.progress: JobProgress | None = None
        self._is_cancelled = False

    def _check_out(self) -> None:
        """Raises SourceError for what could not be written in the end."""
        if self._out is not None:
            FileSink.check(self._out)
            if isinstance(self._given, str | Path) and self._out.resolve() == Path(self._given).expanduser().resolve():
                raise SourceError(f"out: {self._out.name} is the input itself: give another name")

    def _check_columns(self) -> None:
        if self._out is None and self._into is not None and not isinstance(self._given, str | Path):
            check_into(self._given, self._column, self._into, has_account=False)
        elif self._out is not None and self._out.suffix.lower() != ".npy":  # which holds the vectors alone
            check_into(self._given, self._column, self._into or "embedding", has_account=True)

    # -- results

    @property
    def family(self) -> str:
        """The family that the vectors belong to."""
        return self._setup.family.name

    @property
    def vectors(self) -> Any:
        """n x d float32 (float16 if asked for) in the order of the input; rows without a vector are NaN.

        Beyond 1 GiB it is a read-only memory map of a temporary file.
        """
        return self._finished().vectors(self._setup.settings.dtype)

    @property
    def errors(self) -> Any:
        """A frame of the rows without a vector: index (or the Series' own label in the frame's index), kind, message,
        route, attempts."""
        return self._finished().errors()

    @property
    def provenance(self) -> Any:
        """A frame with a row for each row: route, model, space, call, and a note where the text was cut or averaged."""
        return self._finished().provenance()

    def summary(self) -> Summary:
        """Rows, duplicates, cached, requests, tokens, cost, seconds, shares per route, retries, errors by kind."""
        return self._finished().summary

    @property
    def stopped_by(self) -> str:
        """Why it ended before its last row, in a few words; "" when it did not."""
        stopped = self._run.machine.stopped if self._run is not None else None
        return "" if stopped is None else stopped.value

    @property
    def frame(self) -> Any:
        """What was given, with the vectors in the column that `into` names."""
        into = self._into or "embedding"
        check_into(self._given, self._column, into, has_account=False)
        return frames.with_vectors(self._finished().source, into, self.vectors)

    def retry_failed(self) -> Any:
        """Go over the same input again: what has its vector is taken from the store, the rest is asked for anew.

        Returns this job, with results as they are now. Raises SourceError for an iterator, which cannot be read twice.
        """
        self._finished()
        if isinstance(self._given, Iterator):
            raise SourceError("retry_failed: the input was an iterator and is used up; run embed again with a new one")
        self._setup = replace(self._setup, settings=replace(self._setup.settings, fresh=False))
        return self._again()

    def _again(self) -> Any:
        self._start(None)
        return self

    def _finished(self) -> Results:
        if self._results is None:
            over = self.state is not JobState.RUNNING
            raise RuntimeError(
                f"the job has no results: {self.message}" if over else "the job has no results yet: await it first"
            )
        return self._results

    # -- running

    def _start(self, loop: asyncio.AbstractEventLoop | None) -> Any:
        """Run to the end in this thread; what the user gets of it: the job, a frame, or an estimate."""
        self.state, self.message = JobState.RUNNING, ""
        source = open_source(self._given, self._column, PIECE, keep_tables=self._out is not None and not self._dry_run)
        self._check_columns()
        if self._dry_run:
            return self._estimate(source)
        store = self._setup.open_store()
        try:
            spaces = Observed(self._client.router, self._setup, store)  # before there is anything to write to
            sink = self._sink(store, source.rows)
            run = self._run = self._made(source, store, spaces, sink, loop)
        except BaseException:
            store.close()
            raise
        run.is_cancelled = self._is_cancelled  # it may have come while the source was opened
        teller = self._teller(run, source)
        began = self._clock.now()
        problem: BaseException | None = None
        try:
            with teller:
                run.go()
        except BaseException as error:  # noqa: BLE001  raised again by `_outcome`, when what is done is settled
            problem = error
        self._settle(run, problem)
        try:
            self._close_sink(sink, run, problem)
        except BaseException as error:  # noqa: BLE001  as above
            problem = problem or error
            self.state, self.message = JobState.STOPPED, str(error)
        self._results = Results(self._setup, source, store, sink, run, self.state, self.message, began, self._clock)
        store.close()
        teller.end(self.state, self.message)
        return self._outcome(problem)

    def _made(
        self, source: Source, store: Store, spaces: Observed, sink: Any, loop: asyncio.AbstractEventLoop | None
    ) -> Run:
        setup, clock, settings = self._setup, self._clock, self._setup.settings
        intake = Intake(setup.space, setup.measure(is_counted=settings.limit_usd is not None), store)
        rules = Rules(patience=settings.patience, limit_cost=settings.limit_usd, limit_rows=settings.limit_rows)
        machine = Machine(setup.lanes(), rules, clock.now())
        post = self._client._post_for_vectors
        port: Port = ThreadPort(post, clock.wall) if loop is None else LoopPort(post, clock.wall, loop)
        return Run(
            source.pieces, intake, machine, store, port, sink, settings, clock, source.rows, spaces.of, self._tell
        )

    def _sink(self, store: Store, rows: int | None) -> Any:
        settings = self._setup.settings
        if self._out is None:
            return Ledger(store, notes_shortened=settings.oversize.value != "error", total=rows)
        into = self._into or "embedding"
        return FileSink(self._out, store, into, settings.dtype, lambda: store.width or self._setup.family.dimensions)

    def _close_sink(self, sink: Any, run: Run, problem: BaseException | None) -> None:
        if isinstance(sink, FileSink):
            if problem is None and (run.machine.stopped is None or run.machine.stopped.was_asked_for):
                try:
                    sink.finish()
                except BaseException:
                    sink.give_up()
                    raise
            else:
                sink.give_up()

    def _settle(self, run: Run, problem: BaseException | None) -> None:
        """How it ended, in a word and in words."""
        stopped = run.machine.stopped
        kept = (
            f"{run.tallies.done:,}{'' if run.rows is None else f' of {run.rows:,}'} rows have their vector and are kept"
        )
        if isinstance(problem, KeyboardInterrupt | Cancelled | asyncio.CancelledError):
            self.state, self.message = (
                JobState.CANCELLED,
                f"interrupted: {kept}; run the same again to go on from there",
            )
        elif problem is not None:
            self.state, self.message = JobState.STOPPED, f"{problem} ({kept})"
        elif stopped is not None:
            more = "run it again to go on from there"
            self.state, self.message = JobState.STOPPED, f"{run.machine.stop_message}; {kept}; {more}"
        else:
            self.state, self.message = JobState.DONE, ""

    def _outcome(self, problem: BaseException | None) -> Any:
        run = self._run
        assert run is not None
        if isinstance(problem, KeyboardInterrupt):
            raise KeyboardInterrupt(self.message) from None
        if isinstance(problem, Cancelled):
            raise asyncio.CancelledError(self.message) from None
        if problem is not None:
            raise problem
        stopped = run.machine.stopped
        if stopped is not None and not stopped.was_asked_for:
            raise EmbeddingStoppedError(f"{stopped.value}: {self.message}", self)
        if self._setup.settings.on_error is OnError.RAISE and run.tallies.failed:
            kinds = ", ".join(f"{count:,} {kind}" for kind, count in self.summary().errors.items())
            raise RowsFailedError(
                f"{counted(run.tallies.failed, 'row')} without a vector ({kinds}): see .job.errors", self
            )
        return self.frame if self._into is not None and self._out is None else self

    def _estimate(self, source: Source) -> Estimate:
        with contextlib.ExitStack() as stack:
            store = None if self._setup.settings.fresh else stack.enter_context(self._setup.open_store())
            if store is not None:
                Observed(self._client.router, self._setup, store)  # refuses a store of another model, as the job would
            intake = Intake(self._setup.space, self._setup.measure(is_counted=True), store)
            for piece in source.pieces:
                intake.take(piece)
                if self._is_cancelled:
                    raise Cancelled
        latencies = {route.route: route.p50 for route in self._client.router.status().routes}
        where = "" if store is None else str(store.folder)
        return plan.estimate(self._setup, intake, intake.tally.rows, latencies, where)

    # -- telling

    def _teller(self, run: Run, source: Source) -> Teller:
        settings = self._setup.settings
        bar = bar_for(settings.progress, source.rows, self.family)
        callback: Callable[[JobProgress], Any] | None = settings.progress if callable(settings.progress) else None
        self._told = Teller(self.id, self.family, run, self._client.router.publish, callback, bar, self._clock)
        return self._told

    def _tell(self, state: JobState) -> None:
        self.progress = self._told(state)

    def __reduce__(self) -> Any:
        raise TypeError("a job holds connections and cannot be pickled: keep its vectors, errors and provenance")

    def __repr__(self) -> str:
        if self._results is None:
            return f"<shim job {self.id}: {self.family}, {self.state.value}>"
        summary = self.summary()
        told = f", {summary.message}" if summary.message else ""
        return (
            f"<shim job {self.id}: {self.family}, {summary.state}, {summary.done:,} of {summary.rows:,} rows, "
            f"{summary.failed:,} failed{told}>"
        )
