"""What a finished job hands out: vectors, errors, provenance, summary. From memory, or from the file it has written."""

from __future__ import annotations

import tempfile
from collections import Counter
from functools import cached_property
from typing import Any

import numpy as np

from shim._run.system import Clock
from shim.embed.cells import ErrorKind, RowError
from shim.embed.frames import error_columns, frame, in_dtype
from shim.embed.ledger import AT_ONCE, MOST_IN_MEMORY, Ledger
from shim.embed.plan import Setup
from shim.embed.run import Run
from shim.embed.segments import Vectors
from shim.embed.sinks import NOT_REACHED, FileSink, note_of
from shim.embed.sources import Source
from shim.embed.store import Store
from shim.embed.summary import Summary
from shim.events import JobState


class Results:
    """The results of one run. The store is opened when something is asked of it, and closed again."""

    source: Source
    summary: Summary

    def __init__(
        self,
        setup: Setup,
        source: Source,
        store: Store,
        sink: Ledger | FileSink,
        run: Run,
        state: JobState,
        message: str,
        began: float,
        clock: Clock,
    ) -> None:
        self.source, self._setup, self._folder, self._sink = source, setup, store.folder, sink
        self._token = store.token
        self._width = store.width or setup.space.dimensions or setup.family.dimensions or 0
        self.summary = _summary(setup, store, sink, run, state, message, clock.now() - began)
        self._rows = source.rows if source.rows is not None else sink.rows

    def vectors(self, dtype: str) -> Any:
        """n x d in the order of the input."""
        if isinstance(self._sink, FileSink):
            return _from_file(self._sink, dtype)
        return in_dtype(self._from_store, dtype)

    @cached_property
    def _from_store(self) -> Vectors:
        assert isinstance(self._sink, Ledger)
        places = self._sink.places()
        whole = self._sink.fill(None, self._width) if self._sink.is_whole else None
        if whole is not None:
            return whole  # also when the store is gone by now
        with self._opened() as store:
            kept = self._sink.fill(store, self._width)
            if kept is not None:
                return kept
            out = _room(self._rows, self._width)
            for begin in range(0, len(places), AT_ONCE):
                store.read(places[begin : begin + AT_ONCE], out[begin : min(begin + AT_ONCE, len(places))])
        out[len(places) :] = np.nan
        return out

    def _opened(self) -> Store:
        return Store.reopened(self._folder, self._setup.space, self._token)

    def errors(self) -> Any:
        """The rows that failed."""
        sink = self._sink
        found = _errors_of_file(sink) if isinstance(sink, FileSink) else sorted(sink.errors.items())
        return frame(error_columns(found), self.source.container, self._labels([row for row, _ in found]))

    def _labels(self, rows: list[int]) -> Any:
        labels = self.source.labels
        return None if labels is None else labels.take(rows)

    def provenance(self) -> Any:
        """Who made each row."""
        if isinstance(self._sink, FileSink):
            return _provenance_of_file(self._sink, self.source.labels)
        known = self._sink.batches()
        batches = np.full(
            max(self._rows, len(known)), -1, dtype=np.int32
        )  # a job that was stopped has not read them all
        batches[: len(known)] = known
        numbers, inverse = np.unique(batches, return_inverse=True)
        with self._opened() as store:
            origins = store.origins([int(number) for number in numbers if number >= 0])
        columns: dict[str, Any] = {}
        for name in ("route", "model", "space", "call"):
            words = [getattr(origins[int(number)], name) if int(number) in origins else None for number in numbers]
            columns[name] = np.array(words, dtype=object)[inverse] if len(words) else []
        notes = np.full(len(batches), None, dtype=object)
        for row, shortened in self._sink.shortened.items():
            notes[row] = note_of(shortened)
        columns["note"] = notes
        return frame(
            columns, self.source.container, None if self.source.labels is None else self.source.labels[: len(batches)]
        )


def _room(rows: int, width: int) -> Vectors:
    """An array of that shape; a map of a file without a name where it would be large."""
    if rows * width * 4 <= MOST_IN_MEMORY:
        return np.empty((rows, width), dtype=np.float32)
    with tempfile.TemporaryFile(prefix="shim-vectors-") as file:
        return np.memmap(file, dtype=np.float32, mode="w+", shape=(rows, width))


def _summary(
    setup: Setup, store: Store, sink: Ledger | FileSink, run: Run, state: JobState, message: str, seconds: float
) -> Summary:
    tallies, tally, machine = run.tallies, run.intake.tally, run.machine
    rows = run.rows if run.rows is not None else tally.rows
    embedded = sum(lane.rows for lane in machine.lanes)
    priced = [price for price in setup.prices.values() if price is not None]
    used = [lane for lane in machine.lanes if lane.rows]
    known = all(setup.prices[lane.route] is not None for lane in used)
    return Summary(
        state=state.value,
        family=setup.family.name,
        rows=rows,
        done=tallies.done,
        failed=tallies.failed,
        not_reached=max(0, rows - tallies.done - tallies.failed),
        duplicates=tally.duplicates,
        cached=tally.cached,
        embedded=embedded,
        requests=machine.requests,
        retries=machine.retries,
        splits=machine.splits,
        hedges=tallies.hedges,
        space_checks=tallies.space_checks,
        tokens=tallies.tokens,
        cost=machine.spent if known else None,
        price_source="; ".join(dict.fromkeys(price.source for price in priced)),
        seconds=seconds,
        rows_per_second=tallies.done / seconds if seconds > 0 else 0.0,
        shares={lane.route: lane.rows / embedded for lane in machine.lanes if lane.rows},
        errors=_kinds(sink),
        store=str(store.folder),
        message=message,
    )


def _kinds(sink: Ledger | FileSink) -> dict[str, int]:
    return (
        dict(sink.kinds)
        if isinstance(sink, FileSink)
        else dict(Counter(error.kind.value for error in sink.errors.values()))
    )


# -- from the file that was written


def _table(sink: FileSink, columns: list[str]) -> Any:
    if not sink.path.exists():
        raise RuntimeError(f"{sink.path.name} was not written: {sink.rows:,} rows are in the store, run it again")
    if sink.path.suffix.lower() == ".parquet":
        import pyarrow.parquet as pq

        return pq.read_table(sink.path, columns=columns)
    import pyarrow as pa

    from shim.embed.files import open_file

    tables = list(open_file(sink.path, AT_ONCE).tables(columns)) or [pa.table({name: pa.nulls(0) for name in columns})]
    return pa.concat_tables(tables, promote_options="permissive")


def _from_file(sink: FileSink, dtype: str) -> Any:
    if sink.path.suffix.lower() == ".npy":
        return np.load(sink.path, mmap_mode="r")
    column = _table(sink, [sink.into]).column(sink.into)
    width = sink.width or 0
    out = _room(len(column), width)
    at = 0
    for chunk in column.chunks:
        for row, vector in enumerate(chunk.to_numpy(zero_copy_only=False)):
            out[at + row] = np.nan if vector is None else vector
        at += len(chunk)
    return in_dtype(out, dtype)


def _errors_of_file(sink: FileSink) -> list[tuple[int, RowError]]:
    if sink.path.suffix.lower() == ".npy":
        raise RuntimeError("a .npy file holds vectors alone: write .parquet to keep errors and provenance")
    column = _table(sink, [f"{sink.into}_error"]).column(0)
    found = []
    for row, text in enumerate(column.to_pylist()):
        if text and text != NOT_REACHED:
            kind, _, message = text.partition(": ")
            found.append((row, sink.asked.get(row) or RowError(ErrorKind(kind), message)))
    return found


def _provenance_of_file(sink: FileSink, labels: Any) -> Any:
    names = ["route", "model", "space", "call", "note"]
    table = _table(sink, [f"{sink.into}_{name}" for name in names])
    try:
        import pandas  # noqa: F401
    except ImportError:
        return table.rename_columns(names)
    told = table.rename_columns(names).to_pandas()
    return told if labels is None else told.set_index(labels[: len(told)])
