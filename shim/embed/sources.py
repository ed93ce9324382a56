"""Reads what a user calls a column of texts: lists, frames, arrays, datasets, files. In pieces, never all at once."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from shim.embed.cells import ErrorKind, RowError, look
from shim.embed.errors import SourceError
from shim.embed.files import open_file


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
    return Source(Container.SEQUENCE, _length(given), _chunks(_cells(given, column), size))


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
    series = given
    if hasattr(given, "columns"):
        names = [str(name) for name in given.columns]
        chosen = _chosen(names, column, "frame")
        series = given.iloc[:, names.index(chosen)]
    rows = len(series)
    frame, schema = _typed(given) if keep_tables and hasattr(given, "columns") else (None, None)

    def pieces() -> Iterator[Piece]:
        for at in range(0, rows, size):
            table = None
            if frame is not None:
                table = _arrow().Table.from_pandas(frame.iloc[at : at + size], schema, preserve_index=False)
            yield Piece(series.iloc[at : at + size].tolist(), table)

    return Source(Container.PANDAS, rows, pieces(), given, series.index, str(series.name or "texts"))


def _typed(frame: Any) -> tuple[Any, Any]:
    """The frame as it can be written, and its Arrow schema, which is the same for all of its rows.

    Columns that Arrow has no type for (cells of several types, torn characters) become texts.
    """
    arrow = _arrow()
    frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
    for place, name in enumerate(frame.columns):
        try:
            arrow.array(frame.iloc[:, place], from_pandas=True)
        except (arrow.ArrowException, UnicodeError, OverflowError):
            texts = [None if _is_null(cell) else _text(cell) for cell in frame.iloc[:, place]]
            frame = frame.assign(**{name: texts})
    try:
        return frame, arrow.Schema.from_pandas(frame, preserve_index=False)
    except (arrow.ArrowException, ValueError) as error:
        raise SourceError(f"out: the frame cannot be written: {error}") from error


def _is_null(cell: Any) -> bool:
    seen = look(cell)
    return isinstance(seen, RowError) and seen.kind is ErrorKind.NULL


def _text(cell: Any) -> str:
    return str(cell).encode("utf-8", "replace").decode()


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
        for at in range(0, rows, size)
    )
    return Source(Container.POLARS, rows, pieces, given, None, series.name or "texts")


def _of_arrow(given: Any, column: str | None, size: int, *, keep_tables: bool) -> Source:
    array = given
    if not hasattr(given, "__len__"):
        raise SourceError(f"cannot embed a {type(given).__name__}: read it into a table, or give the path of the file")
    if hasattr(given, "column_names"):
        array = given.column(_chosen(list(given.column_names), column, "table"))
    rows = len(array)
    keep_tables = keep_tables and hasattr(given, "column_names")
    pieces = (
        Piece(array.slice(at, size).to_pylist(), given.slice(at, size) if keep_tables else None)
        for at in range(0, rows, size)
    )
    return Source(Container.ARROW, rows, pieces, given)


def _of_dataset(given: Any, column: str | None, size: int, *, keep_tables: bool) -> Source:
    """A Hugging Face dataset, or a column of one (which is a sequence of its own kind)."""
    names = getattr(given, "column_names", None)
    if names is None:
        return Source(Container.SEQUENCE, _length(given), _chunks(given, size))
    if isinstance(names, dict):
        raise SourceError(f"this is a set of splits: give one of them, as dataset[{next(iter(names))!r}]")
    chosen = _chosen(list(names), column, "dataset")
    if _length(given) is None:
        return Source(Container.SEQUENCE, None, _chunks((row[chosen] for row in given), size))
    rows = len(given)
    schema = getattr(getattr(given, "features", None), "arrow_schema", None)  # the same for all rows

    def pieces() -> Iterator[Piece]:
        for at in range(0, rows, size):
            some = given[at : at + size]
            yield Piece(list(some[chosen]), _arrow().table(dict(some), schema=schema) if keep_tables else None)

    return Source(Container.DATASET, rows, pieces(), given)


def _arrow() -> Any:
    import pyarrow

    return pyarrow


def _of_file(given: str | os.PathLike[str], column: str | None, size: int, *, keep_tables: bool) -> Source:
    path = Path(given)
    if not path.is_file():
        hint = ": to embed one text, give it as a list" if isinstance(given, str) and " " in given.strip() else ""
        raise SourceError(f"there is no file {str(path)[:200]!r}{hint}")
    file = open_file(path, size)
    chosen = _chosen(file.columns, column, f"file {path.name}")

    def pieces() -> Iterator[Piece]:
        if file.cells is not None:
            tables = file.tables(None) if keep_tables else itertools.repeat(None)
            yield from (Piece(cells, table) for cells, table in zip(file.cells(chosen), tables, strict=False))
            return
        for table in file.tables(None if keep_tables else [chosen]):
            yield Piece(table.column(chosen).to_pylist(), table if keep_tables else None)

    return Source(Container.FILE, file.rows, pieces(), path, None, chosen)
