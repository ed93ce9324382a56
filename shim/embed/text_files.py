"""Reads CSV, JSON Lines and plain text, also gzipped or in UTF-16, as Arrow tables of a given number of rows."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from shim.embed.errors import SourceError

Read = Callable[[Sequence[str] | None], Iterator[Any]]


@dataclass(frozen=True, slots=True)
class File:
    """A file of rows. `tables(columns)` yields Arrow tables of those columns (None: all); `rows` None is unknown.

    `cells(column)`, where there is one, yields lists of one column's cells as they are: a table has one type for all.
    """

    columns: list[str]
    rows: int | None
    tables: Read
    cells: Callable[[str], Iterator[list[Any]]] | None = None
    all_columns: Callable[[], list[str]] | None = None
    """Reads all rows for their names, where `columns` are those of the first rows alone."""


def sliced(batches: Callable[[], Iterator[Any]], size: int) -> Read:
    import pyarrow as pa

    def tables(columns: Sequence[str] | None) -> Iterator[Any]:
        for batch in batches():
            for at in range(0, batch.num_rows, size):
                table = pa.Table.from_batches([batch.slice(at, size)])
                yield table if columns is None else table.select(list(columns))

    return tables


_LONGEST_CSV_ROW = 32 << 20
"""Bytes: a row must fit into the block that is read at once."""
_BOM = b"\xef\xbb\xbf"


def _encoding(path: Path) -> str:
    """UTF-16 where the file begins so, as spreadsheets write it; else UTF-8."""
    with _plain(path) as file:
        return "utf-16" if file.read(2) in (b"\xff\xfe", b"\xfe\xff") else "utf-8"


def _plain(path: Path) -> IO[bytes]:
    return cast("IO[bytes]", gzip.open(path, "rb")) if path.suffix.lower() == ".gz" else path.open("rb")


def _lines(path: Path) -> Iterator[bytes]:
    """Lines as UTF-8; only a line feed ends one."""
    encoding = _encoding(path)
    with _plain(path) as file:
        if encoding == "utf-8":
            yield from file
            return
        with io.TextIOWrapper(file, encoding, errors="surrogatepass", newline="\n") as text:
            for line in text:
                yield line.encode("utf-8", "replace")


def _delimiter(path: Path) -> str:
    """A tab in a .tsv; else a comma, or what stands in a header without one (spreadsheets write semicolons)."""
    if ".tsv" in [suffix.lower() for suffix in path.suffixes[-2:]]:
        return "\t"
    header = next(_lines(path), b"")
    return next((one for one in ",;\t" if one.encode() in header), ",")


def open_csv(path: Path, size: int) -> File:
    import pyarrow as pa
    from pyarrow import csv

    read = csv.ReadOptions(block_size=_LONGEST_CSV_ROW, encoding=_encoding(path))
    parse = csv.ParseOptions(delimiter=_delimiter(path), newlines_in_values=True)
    header = csv.open_csv(path, read, parse).schema.names
    # Empty cells of a text column are empty texts, and numbers in it are texts: nothing is guessed.
    convert = csv.ConvertOptions(column_types=dict.fromkeys(header, pa.string()), strings_can_be_null=False)
    return File(
        list(header),
        None,
        sliced(lambda: iter(csv.open_csv(path, read, parse, convert)), size),
    )


def open_lines(path: Path, size: int) -> File:
    import pyarrow as pa

    def parts() -> Iterator[list[dict[str, Any]]]:
        rows: list[dict[str, Any]] = []
        for number, line in enumerate(_lines(path), 1):
            if line.strip():
                rows.append(_json_row(path, number, line))
            if len(rows) >= size:
                yield rows
                rows = []
        if rows:
            yield rows

    def names(some: Iterable[list[dict[str, Any]]]) -> list[str]:
        return list(dict.fromkeys(name for rows in some for row in rows for name in row))

    def tables(wanted: Sequence[str] | None) -> Iterator[Any]:
        # What is written out needs the same columns and types from the first row to the last: the file is read twice.
        types = _types(parts()) if wanted is None else {}
        for rows in parts():
            told = types if wanted is None else wanted
            yield pa.table({name: _column([row.get(name) for row in rows], types.get(name)) for name in told})

    def cells(column: str) -> Iterator[list[Any]]:
        return ([row.get(column) for row in rows] for rows in parts())

    return File(names([next(parts(), [])]), None, tables, cells, lambda: names(parts()))


def _types(parts: Iterator[list[dict[str, Any]]]) -> dict[str, Any]:
    """The Arrow type of each column over all rows; text where cells are of several types."""
    import pyarrow as pa

    found: dict[str, Any] = {}
    for rows in parts:
        for name in dict.fromkeys(name for row in rows for name in row):
            here = _column([row.get(name) for row in rows], None).type
            found[name] = _common(found.get(name, pa.null()), here)
    return found


def _common(one: Any, other: Any) -> Any:
    import pyarrow as pa

    try:
        fields = [pa.schema([("cell", kind)]) for kind in (one, other)]
        return pa.unify_schemas(fields, promote_options="permissive").field("cell").type
    except pa.ArrowException:
        return pa.string()


def _column(cells: list[Any], kind: Any) -> Any:
    """The cells as Arrow has them; where they are of several types, as JSON, which says what they are."""
    import pyarrow as pa

    try:
        return pa.array(cells, kind)
    except (pa.ArrowException, OverflowError, UnicodeError):
        return pa.array([_as_text(cell) for cell in cells], pa.string())


def _as_text(cell: Any) -> str | None:
    if cell is None:
        return None
    return (cell if isinstance(cell, str) else json.dumps(cell)).encode("utf-8", "replace").decode()


def _json_row(path: Path, number: int, line: bytes) -> dict[str, Any]:
    """The object of a line. What is no strict JSON and yet often written is read: NaN, lone surrogates, bytes that are
    no UTF-8 (as lone surrogates, which are seen in the cell where they matter)."""
    import msgspec

    line = line.removeprefix(_BOM) if number == 1 else line
    try:
        row = msgspec.json.decode(line)
    except msgspec.DecodeError as error:
        try:
            row = json.loads(line.decode("utf-8", "surrogateescape"))
        except (ValueError, RecursionError):
            raise SourceError(
                f"{path.name}, line {number}: no JSON ({error}); one whole object is needed on each line"
            ) from error
    if not isinstance(row, dict):
        raise SourceError(f'{path.name}, line {number}: an object is needed on each line, as {{"text": "..."}}')
    return row


def open_text(path: Path, size: int) -> File:
    import pyarrow as pa

    def tables(_: Sequence[str] | None) -> Iterator[Any]:
        lines: list[str] = []
        for number, line in enumerate(_lines(path)):
            text = (line if number else line.removeprefix(_BOM)).rstrip(b"\r\n")
            lines.append(text.decode("utf-8", "replace"))  # bytes that are no UTF-8 become U+FFFD
            if len(lines) >= size:
                yield pa.table({"text": pa.array(lines, pa.string())})
                lines = []
        if lines:
            yield pa.table({"text": pa.array(lines, pa.string())})

    return File(["text"], None, tables)
