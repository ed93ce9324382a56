"""Reads Parquet, Arrow, CSV, JSON Lines and text files as Arrow tables of a given number of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from shim.embed.errors import SourceError

Read = Callable[[Sequence[str] | None], Iterator[Any]]
SUFFIXES = {
    ".parquet": "parquet", ".pq": "parquet", ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow", ".csv": "csv",
    ".tsv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".txt": "text",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class File:
    """A file of rows. `tables(columns)` yields Arrow tables of those columns (None: all); `rows` None is unknown.

    `cells(column)`, where there is one, yields lists of one column's cells as they are: a table has one type for all.
    """

    columns: list[str]
    rows: int | None
    tables: Read
    cells: Callable[[str], Iterator[list[Any]]] | None = None


def open_file(path: Path, size: int) -> File:
    """The file, to be read in tables of at most `size` rows. Raises SourceError."""
    kind = SUFFIXES.get(path.suffix.lower())
    if kind is None:
        raise SourceError(
            f"{path.name}: cannot tell what a {path.suffix or 'file without suffix'} is; known: {_known()}"
        )
    _arrow()
    try:
        file = _OPENERS[kind](path, size)
    except (OSError, ValueError) as error:
        raise _unreadable(path, kind, error) from error

    def tables(columns: Sequence[str] | None) -> Iterator[Any]:
        try:
            yield from file.tables(columns)
        except (OSError, ValueError) as error:
            raise _unreadable(path, kind, error) from error

    return replace(file, tables=tables)


def _unreadable(path: Path, kind: str, error: Exception) -> SourceError:
    return error if isinstance(error, SourceError) else SourceError(f"{path.name} cannot be read as {kind}: {error}")


def _known() -> str:
    return ", ".join(SUFFIXES)


def _arrow() -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise SourceError("reading and writing files needs pyarrow: pip install 'openai-shim[embed]'") from error
    return pyarrow


def _parquet(path: Path, size: int) -> File:
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path)

    def tables(columns: Sequence[str] | None) -> Iterator[Any]:
        names = None if columns is None else list(columns)
        for batch in file.iter_batches(batch_size=size, columns=names):
            yield pa.Table.from_batches([batch])

    return File(list(file.schema_arrow.names), file.metadata.num_rows, tables)


def _ipc(path: Path, size: int) -> File:
    import pyarrow as pa

    def batches() -> Iterator[Any]:
        source = pa.memory_map(str(path))
        try:
            reader = pa.ipc.open_file(source)
        except pa.ArrowInvalid:
            yield from pa.ipc.open_stream(source)
            return
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)

    first = next(batches(), None)
    columns = [] if first is None else list(first.schema.names)
    return File(columns, None, _sliced(batches, size))


def _sliced(batches: Callable[[], Iterator[Any]], size: int) -> Read:
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


def _csv(path: Path, size: int) -> File:
    import pyarrow as pa
    from pyarrow import csv

    parse = csv.ParseOptions(delimiter="\t" if path.suffix.lower() == ".tsv" else ",", newlines_in_values=True)
    read = csv.ReadOptions(block_size=_LONGEST_CSV_ROW)
    header = csv.open_csv(path, read, parse).schema.names
    # Empty cells of a text column are empty texts, and numbers in it are texts: nothing is guessed.
    convert = csv.ConvertOptions(column_types=dict.fromkeys(header, pa.string()), strings_can_be_null=False)
    return File(
        list(header),
        None,
        _sliced(lambda: iter(csv.open_csv(path, read, parse, convert)), size),
    )


def _jsonl(path: Path, size: int) -> File:
    import pyarrow as pa

    def parts() -> Iterator[list[dict[str, Any]]]:
        rows: list[dict[str, Any]] = []
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    rows.append(_json_row(path, number, line))
                if len(rows) >= size:
                    yield rows
                    rows = []
        if rows:
            yield rows

    columns = list(dict.fromkeys(name for row in next(parts(), []) for name in row))

    def tables(wanted: Sequence[str] | None) -> Iterator[Any]:
        # What is written out needs the same columns and types from the first row to the last: the file is read twice.
        types = _types(parts()) if wanted is None else {}
        for rows in parts():
            names = types if wanted is None else wanted
            yield pa.table({name: _column([row.get(name) for row in rows], types.get(name)) for name in names})

    def cells(column: str) -> Iterator[list[Any]]:
        return ([row.get(column) for row in rows] for rows in parts())

    return File(columns, None, tables, cells)


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
    except (pa.ArrowException, OverflowError):
        return pa.array([_as_text(cell) for cell in cells], pa.string())


def _as_text(cell: Any) -> str | None:
    import msgspec

    return cell if cell is None or isinstance(cell, str) else msgspec.json.encode(cell).decode()


def _json_row(path: Path, number: int, line: bytes) -> dict[str, Any]:
    import msgspec

    try:
        row = msgspec.json.decode(line.removeprefix(_BOM) if number == 1 else line)
    except msgspec.DecodeError as error:
        raise SourceError(f"{path.name}, line {number}: no JSON ({error})") from error
    if not isinstance(row, dict):
        raise SourceError(f'{path.name}, line {number}: an object is needed on each line, as {{"text": "..."}}')
    return row


def _text(path: Path, size: int) -> File:
    import pyarrow as pa

    def tables(_: Sequence[str] | None) -> Iterator[Any]:
        lines: list[str] = []
        with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="\n") as file:
            for line in file:
                lines.append(line.rstrip("\r\n"))
                if len(lines) >= size:
                    yield pa.table({"text": pa.array(_clean(lines), pa.string())})
                    lines = []
        if lines:
            yield pa.table({"text": pa.array(_clean(lines), pa.string())})

    return File(["text"], None, tables)


def _clean(lines: list[str]) -> list[str]:
    """Bytes that are no UTF-8 become U+FFFD, the replacement character."""
    return [line.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for line in lines]


_OPENERS: dict[str, Callable[[Path, int], File]] = {
    "parquet": _parquet,
    "arrow": _ipc,
    "csv": _csv,
    "jsonl": _jsonl,
    "text": _text,
}
