"""Reads what a user calls a column of texts: lists, frames, arrays, datasets, files. In pieces, never all at once."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from shim.embed.errors import SourceError
from shim.embed.files import open_file
from shim.embed.typed import typed


class Container(str, Enum):
    """What was given, so that the same can be given back."""

    SEQUENCE = "sequence"
    PANDAS = "pandas"
    POLARS = "polars"
    ARROW = "arrow"
    DATASET = "datasets"
    FILE = "file"


@dataclass(slots=True)
class Piece:
    """Some rows in order: the cells of the column, and the table they stand in where it is to be written out."""

    cells: list[Any]
    table: Any = None


@dataclass(slots=True)
class Source:
    """A column of texts. `rows` None is an unknown length; `whole` is the frame that was given, `labels` its index."""

    container: Container
    rows: int | None
    pieces: Iterator[Piece]
    whole: Any = None
    labels: Any = None
    name: str = "texts"


def open_source(given: object, column: str | None, size: int, *, keep_tables: bool) -> Source:
    """The column to embed, in pieces of `size` rows. Raises SourceError, which names what would do."""
    module = type(given).__module__.split(".", 1)[0]
    if isinstance(given, str | os.PathLike):
        return _of_file(given, column, size, keep_tables=keep_tables)
    if module == "pandas":
        return _of_pandas(given, column, size, keep_tables=keep_tables)
    if module == "polars":
        return _of_polars(given, column, size, keep_tables=keep_tables)
    if module == "pyarrow":
        return _of_arrow(given, column, size, keep_tables=keep_tables)
    if module == "datasets":
        return _of_dataset(given, column, size, keep_tables=keep_tables)
    if isinstance(given, bytes | dict):
        raise SourceError(
            f"cannot embed a {type(given).__name__}: give a list of texts, a frame with `column`, or a path"
        )
    if not isinstance(given, Iterable):
        raise SourceError(
            f"cannot embed a {type(given).__name__}: give a list of texts, a Series, a frame with `column`, or a path"
        )
    if column is not None and not isinstance(given, list | tuple):
        raise SourceError(f"`column` is for frames and files; this is a {type(given).__name__}")
    if isinstance(given, list):
        given = given.copy()  # it may grow while the job runs
    return Source(Container.SEQUENCE, _length(given), _chunks(_cells(given, column), size))


def columns_of(given: object) -> list[str]:
    """The names of the columns of a frame, table, dataset or file; none of what has no columns."""
    if isinstance(given, str | os.PathLike):
        return open_file(Path(given), 1).columns
    is_frame = type(given).__module__.split(".", 1)[0] in ("pandas", "polars")
    names = getattr(given, "columns" if is_frame else "column_names", ())
    return [str(name) for name in names]


def _length(given: object) -> int | None:
    return len(given) if hasattr(given, "__len__") else None


def _cells(given: Iterable[Any], column: str | None) -> Iterable[Any]:
    dimensions = getattr(given, "ndim", 1)
    if dimensions != 1:
        raise SourceError(f"cannot embed an array of {dimensions} dimensions: give one column of it")
    if column is None:
        return given
    return (row.get(column) if isinstance(row, dict) else row for row in given)


def _chunks(cells: Iterable[Any], size: int) -> Iterator[Piece]:
    source = iter(cells)
    while chunk := list(itertools.islice(source, size)):
        yield Piece(chunk)


def _chosen(names: list[str], column: str | None, what: str) -> str:
    if column is None:
        if len(names) == 1:
            return names[0]
        raise SourceError(f"which column of the {what}? Give `column`, one of: {_shown(names)}")
    column = str(column)  # a frame may number its columns
    if names.count(column) > 1:
        raise SourceError(f"the {what} has {names.count(column)} columns named {column!r}: rename them")
    if column not in names:
        raise SourceError(f"the {what} has no column {column!r}; it has: {_shown(names)}")
    return column


def _shown(names: list[str]) -> str:
    return ", ".join(names[:20]) + (", ..." if len(names) > 20 else "") if names else "none"


def _of_pandas(given: Any, column: str | None, size: int, *, keep_tables: bool) -> Source:
    if not hasattr(given, "iloc"):  # an Index, a Categorical, an extension array
        if getattr(given, "ndim", 0) != 1:
            raise SourceError(f"cannot embed a pandas {type(given).__name__}: give a Series, or a frame with `column`")
        import pandas

        given = pandas.Series(given)
    series = given
    if hasattr(given, "columns"):
        names = [str(name) for name in given.columns]
        chosen = _chosen(names, column, "frame")
        series = given.iloc[:, names.index(chosen)]
    rows = len(series)
    frame, schema = typed(given) if keep_tables and hasattr(given, "columns") else (None, None)

    def pieces() -> Iterator[Piece]:
        for at in _begins(rows, size, keep_tables):
            table = None
            if frame is not None:
                table = _arrow().Table.from_pandas(frame.iloc[at : at + size], schema)
            yield Piece(series.iloc[at : at + size].tolist(), table)

    return Source(Container.PANDAS, rows, pieces(), given, series.index, str(series.name or "texts"))


def _of_polars(given: Any, column: str | None, size: int, *, keep_tables: bool) -> Source:
    if hasattr(given, "collect"):
        raise SourceError("a LazyFrame has no rows yet: call .collect() first, or give the path of the file")
    series = given
    if hasattr(given, "columns"):
        series = given.get_column(_chosen(list(given.columns), column, "frame"))
    rows = len(series)
    keep_tables = keep_tables and hasattr(given, "columns")
    pieces = (
        Piece(series.slice(at, size).to_list(), given.slice(at, size).to_arrow() if keep_tables else None)
        for at in _begins(rows, size, keep_tables)
    )
    return Source(Container.POLARS, rows, pieces, given, None, series.name or "texts")


def _begins(rows: int, size: int, keep_tables: bool) -> range:
    """Where the pieces begin. A table without rows is a piece as well, where it is to be written: it has columns."""
    return range(0, max(rows, 1) if keep_tables else rows, size)


def _of_arrow(given: Any, column: str | None, size: int, *, keep_tables: bool) -> Source:
    if hasattr(given, "schema") and not hasattr(given, "column_names"):
        return _of_batches(given, column, size, keep_tables=keep_tables)
    array = given
    if not hasattr(given, "__len__"):
        raise SourceError(f"cannot embed a {type(given).__name__}: read it into a table, or give the path of the file")
    if hasattr(given, "column_names"):
        array = given.column(_chosen(list(given.column_names), column, "table"))
    rows = len(array)
    keep_tables = keep_tables and hasattr(given, "column_names")
    table = _arrow().Table.from_batches([given]) if type(given).__name__ == "RecordBatch" else given
    pieces = (
        Piece(array.slice(at, size).to_pylist(), table.slice(at, size) if keep_tables else None)
        for at in _begins(rows, size, keep_tables)
    )
    return Source(Container.ARROW, rows, pieces, given)


def _of_batches(given: Any, column: str | None, size: int, *, keep_tables: bool) -> Source:
    """An Arrow dataset, or a reader of batches, which is read once."""
    chosen = _chosen(list(given.schema.names), column, type(given).__name__)

    def pieces() -> Iterator[Piece]:
        columns = None if keep_tables else [chosen]
        for batch in given.to_batches(columns=columns) if hasattr(given, "to_batches") else given:
            for at in range(0, batch.num_rows, size):
                part = batch.slice(at, size)
                table = _arrow().Table.from_batches([part]) if keep_tables else None
                yield Piece(part.column(chosen).to_pylist(), table)

    return Source(Container.ARROW, given.count_rows() if hasattr(given, "count_rows") else None, pieces())


def _of_dataset(given: Any, column: str | None, size: int, *, keep_tables: bool) -> Source:
    """A Hugging Face dataset, or a column of one (which is a sequence of its own kind)."""
    names = getattr(given, "column_names", None)
    if names is None:
        return Source(Container.SEQUENCE, _length(given), _chunks(given, size))
    if isinstance(names, dict):
        raise SourceError(f"this is a set of splits: give one of them, as dataset[{next(iter(names))!r}]")
    chosen = _chosen(list(names), column, "dataset")
    schema = getattr(getattr(given, "features", None), "arrow_schema", None)  # the same for all rows
    if _length(given) is None:
        return Source(Container.SEQUENCE, None, _streamed(given, chosen, size, schema if keep_tables else None))
    rows = len(given)
    plain = given.with_format(None) if hasattr(given, "with_format") else given  # not as tables, frames or tensors

    def pieces() -> Iterator[Piece]:
        for at in _begins(rows, size, keep_tables):
            some = plain[at : at + size]
            yield Piece(list(some[chosen]), _arrow().table(dict(some), schema=schema) if keep_tables else None)

    return Source(Container.DATASET, rows, pieces(), given)


def _streamed(rows: Any, chosen: str, size: int, schema: Any) -> Iterator[Piece]:
    """Pieces of a dataset that has no length; with its columns where their types are known."""
    source = iter(rows)
    while some := list(itertools.islice(source, size)):
        table = None if schema is None else _arrow().Table.from_pylist(some, schema=schema)
        yield Piece([row[chosen] for row in some], table)


def _arrow() -> Any:
    import pyarrow

    return pyarrow


def _of_file(given: str | os.PathLike[str], column: str | None, size: int, *, keep_tables: bool) -> Source:
    path = Path(given).expanduser()
    if not path.exists():
        hint = ": to embed one text, give it as a list" if isinstance(given, str) and " " in given.strip() else ""
        raise SourceError(f"there is no file {str(path)[:200]!r}{hint}")
    file = open_file(path, size)
    names = file.columns
    if file.all_columns is not None and (column is None or column not in names):
        names = file.all_columns()
    chosen = _chosen(names, column, f"file {path.name}")

    def pieces() -> Iterator[Piece]:
        if file.cells is not None:
            tables = file.tables(None) if keep_tables else itertools.repeat(None)
            yield from (Piece(cells, table) for cells, table in zip(file.cells(chosen), tables, strict=False))
            return
        for table in file.tables(None if keep_tables else [chosen]):
            yield Piece(table.column(chosen).to_pylist(), table if keep_tables else None)

    return Source(Container.FILE, file.rows, pieces(), path, None, chosen)
