"""Writes complete windows to a file: the input's columns, the vectors, who made each, and why some have none.

A file appears under its name when it is whole. What was embedded by then is in the store anyway.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from shim.embed.cells import RowError
from shim.embed.errors import SourceError, StoreFullError
from shim.embed.frames import in_dtype, vector_column
from shim.embed.index import FULL
from shim.embed.partial import partial_of
from shim.embed.segments import Vectors
from shim.embed.store import Store
from shim.embed.windows import Window

SUFFIXES = (".parquet", ".arrow", ".feather", ".jsonl", ".npy")
NOT_REACHED = "not reached"


class FileSink:
    """A file of a kind that its suffix names. `into` is the column of the vectors; others are named after it.

    `<into>_route`, `<into>_model`, `<into>_space` and `<into>_call` say who made a vector, `<into>_note` that its text
    was cut or averaged, `<into>_error` why there is none.
    """

    path: Path
    into: str
    rows: int

    def __init__(self, path: Path, store: Store, into: str, dtype: str, width: Callable[[], int | None]) -> None:
        self.path, self.into = path, into
        self.kinds: Counter[str] = Counter()
        self.asked: dict[int, RowError] = {}
        """The errors of rows that some route was asked for: the file has their words alone."""
        self._store, self._dtype, self._width = store, dtype, width
        self._known_width: int | None = None
        self._target = Path(os.path.realpath(path))  # a link stays one
        self._partial = partial_of(self._target)
        self._writer: Any = None
        self._held: list[Window] = []
        self.rows = 0

    @property
    def width(self) -> int | None:
        """The length of the vectors, None while none is known."""
        if self._known_width is None:
            self._known_width = self._width()
        return self._known_width

    @property
    def _is_parquet(self) -> bool:
        return self.path.suffix.lower() == ".parquet"

    @staticmethod
    def check(path: Path) -> None:
        """Raises SourceError for a file that cannot be written."""
        if path.suffix.lower() not in SUFFIXES:
            raise SourceError(
                f"out: cannot write a {path.suffix or 'file without suffix'}; known: {', '.join(SUFFIXES)}"
            )
        if not path.parent.is_dir():
            raise SourceError(f"out: there is no folder {str(path.parent)!r}")
        if path.is_dir():
            raise SourceError(f"out: {str(path)!r} is a folder: name a file in it")
        if not os.access(path.parent, os.W_OK):
            raise SourceError(f"out: nothing may be written to the folder {str(path.parent)!r}")

    def accept(self, rows: Sequence[int], vectors: Vectors) -> None:
        """Nothing: windows are written in order, from the store."""

    def write(self, window: Window) -> None:
        """Write a window, or hold it while the vectors' length is unknown: error rows may come first."""
        self._held.append(window)
        self.kinds.update(error.kind.value for error in window.errors.values())
        self.asked.update((window.start + row, error) for row, error in window.errors.items() if error.attempts)
        if self.width is not None:
            self._flush()

    def abandon(self, window: Window) -> None:
        """Nothing: an interrupted job leaves no file."""

    def _flush(self) -> None:
        with self._safely():
            for window in self._held:
                self._write(window)
        self._held.clear()

    @contextlib.contextmanager
    def _safely(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StoreFullError(self.path.parent) if error.errno in FULL else error from error

    def _write(self, window: Window) -> None:
        width = self.width or 0
        vectors = np.empty((len(window), width), dtype=np.float32)
        self._store.read(window.places, vectors)
        self.rows += len(window)
        if self.path.suffix.lower() == ".npy":
            self._npy(vectors)
            return
        table = self._table(window, in_dtype(vectors, self._dtype))
        if self.path.suffix.lower() == ".jsonl":
            self._lines(table)
            return
        if self._writer is None:
            self._writer = self._opened(table.schema)
        self._writer.write_table(table.cast(self._writer_schema))

    def _table(self, window: Window, vectors: Any) -> Any:
        import pyarrow as pa

        table = window.table if window.table is not None else pa.table({"index": _indices(window)})
        told = account(window, self._store, self.into, has_dictionaries=self._is_parquet)
        columns = {self.into: vector_column(vectors), **told}
        for name, column in columns.items():
            if name in table.column_names:
                table = table.drop_columns([name])
            table = table.append_column(name, column)
        return table if self._is_parquet else _plain(table)

    def _opened(self, schema: Any) -> Any:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self._writer_schema = schema
        if self._is_parquet:
            return pq.ParquetWriter(self._partial, schema, compression="zstd", use_dictionary=_texts(schema, self.into))
        return pa.ipc.new_file(str(self._partial), schema)

    def _npy(self, vectors: Any) -> None:
        """Rows end to end; the header, which tells how many, is written first and again at the end."""
        if self._writer is None:
            self._writer = self._partial.open("wb")
            self._writer.write(_npy_header(0, vectors.shape[1], self._dtype))
        self._writer.write(np.ascontiguousarray(in_dtype(vectors, self._dtype)).tobytes())
        self._npy_width = vectors.shape[1]

    def _lines(self, table: Any) -> None:
        if self._writer is None:
            self._writer = self._partial.open("wb")
        encoder = msgspec.json.Encoder(enc_hook=str)  # what JSON has no type for, pandas' instants among it
        self._writer.write(encoder.encode_lines(table.to_pylist()))

    def finish(self) -> None:
        """The file under its name."""
        if self._writer is None and not self._held:
            self._held.append(Window(0, [], None))  # an input without rows is a file without rows
        self._known_width = self.width or 0
        self._flush()
        with self._safely():
            if self.path.suffix.lower() == ".npy":
                self._writer.seek(0)
                self._writer.write(_npy_header(self.rows, self._npy_width, self._dtype))
            self._writer.close()
            self._partial.replace(self._target)

    def give_up(self) -> None:
        """No file: what it would have held is in the store."""
        if self._writer is not None:
            with contextlib.suppress(Exception):
                self._writer.close()
        self._partial.unlink(missing_ok=True)


def account(window: Window, store: Store, into: str, *, has_dictionaries: bool = False) -> Mapping[str, Any]:
    """Arrow columns, named after `into`: who made the vector of each row, what was done to its text, why it has none.

    With `has_dictionaries` the repeated words of provenance stay dictionary-encoded. An Arrow file has one dictionary
    for all its parts, and here each part has its own: so not there.
    """
    import pyarrow as pa

    numbers, inverse = np.unique(window.batches, return_inverse=True)
    origins = store.origins([int(number) for number in numbers if number >= 0])
    made = [origins.get(int(number)) for number in numbers]
    columns = {}
    for name in ("route", "model", "space", "call"):
        words = pa.array(["" if one is None else getattr(one, name) for one in made], pa.string())
        numbered = pa.array(inverse.astype(np.int32), mask=window.batches < 0)
        column = pa.DictionaryArray.from_arrays(numbered, words)
        columns[f"{into}_{name}"] = column if has_dictionaries else column.dictionary_decode()
    known = store.shortened([key for key in window.keys if key is not None])
    notes = [known.get(key) if key is not None else None for key in window.keys]
    columns[f"{into}_note"] = pa.array([None if one is None else note_of(one) for one in notes], pa.string())
    columns[f"{into}_error"] = pa.array([_error_of(window, row) for row in range(len(window))], pa.string())
    return columns


def note_of(shortened: Any) -> str:
    """What was done to a text that was too long."""
    if shortened.parts == 1:
        return f"cut to {shortened.kept:,} of about {shortened.tokens:,} tokens"
    return f"mean of {shortened.parts} parts, about {shortened.tokens:,} tokens"


def _error_of(window: Window, row: int) -> str | None:
    error = window.errors.get(row)
    if error is not None:
        return f"{error.kind.value}: {error.message}"
    return NOT_REACHED if window.places[row] < 0 else None


def _plain(table: Any) -> Any:
    """The table without dictionaries: an Arrow file has one for all its parts, here each part may have its own."""
    import pyarrow as pa

    for place, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(place, field.name, table.column(place).cast(field.type.value_type))
    return table


def _indices(window: Window) -> Any:
    return np.arange(window.start, window.start + len(window), dtype=np.int64)


def _texts(schema: Any, into: str) -> list[str]:
    """Columns worth a dictionary: all but the vectors, which repeat nothing."""
    return [name for name in schema.names if name != into]


def _npy_header(rows: int, width: int, dtype: str) -> bytes:
    """The header of NumPy's format 1.0, of the same length whatever the number of rows."""
    about = f"{{'descr': '<f{np.dtype(dtype).itemsize}', 'fortran_order': False, 'shape': ({rows}, {width}), }}"
    return b"\x93NUMPY\x01\x00" + (118).to_bytes(2, "little") + about.encode().ljust(117) + b"\n"
