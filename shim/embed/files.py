"""Reads Parquet, Arrow, CSV, JSON Lines and text files as Arrow tables of a given number of rows."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from shim.embed.errors import SourceError
from shim.embed.text_files import File, open_csv, open_lines, open_text, sliced

SUFFIXES = {
    ".parquet": "parquet", ".pq": "parquet", ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow", ".csv": "csv",
    ".tsv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".txt": "text",
}  # fmt: skip


def open_file(path: Path, size: int) -> File:
    """The file, to be read in tables of at most `size` rows. Raises SourceError."""
    kind = _kind_of(path)
    _arrow()
    with _told_of(path, kind):
        file = _OPENERS[kind](path, size)

    def tables(columns: Sequence[str] | None) -> Iterator[Any]:
        with _told_of(path, kind):
            yield from file.tables(columns)

    def cells(column: str) -> Iterator[list[Any]]:
        assert file.cells is not None
        with _told_of(path, kind):
            yield from file.cells(column)

    return replace(file, tables=tables, cells=None if file.cells is None else cells)


@contextmanager
def _told_of(path: Path, kind: str) -> Iterator[None]:
    """What goes wrong in reading names the file."""
    try:
        yield
    except (OSError, ValueError, EOFError, zlib.error) as error:  # the last two are of a gzipped file that is cut off
        raise _unreadable(path, kind, error) from error


def _kind_of(path: Path) -> str:
    name = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    kind = SUFFIXES.get(name.suffix.lower())
    if path.is_dir() and kind in (None, "parquet"):
        return "folder"
    if kind is None or (name != path and kind not in ("csv", "jsonl", "text")):
        raise SourceError(
            f"{path.name}: cannot tell what a {path.suffix or 'file without suffix'} is; known: {_known()}"
        )
    return kind


def _unreadable(path: Path, kind: str, error: Exception) -> SourceError:
    if isinstance(error, SourceError):
        return error
    way_out = ": save it as UTF-8" if "UTF8" in str(error) else ""
    return SourceError(f"{path.name} cannot be read as {kind}: {error}{way_out}")


def _known() -> str:
    return ", ".join(SUFFIXES) + ", with .gz those of text"


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


def _folder(path: Path, size: int) -> File:
    """The Parquet files of a folder, as Spark and Dask write them, in the order of their names."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    parts = [one for one in sorted(path.glob("*.parquet")) if one.is_file() and one.name[0] not in "_."]
    if not parts:
        raise SourceError(f"{path.name} is a folder without Parquet files: give one file, or a frame of what is in it")
    schema = pa.unify_schemas([pq.read_schema(part) for part in parts], promote_options="permissive")

    def tables(columns: Sequence[str] | None) -> Iterator[Any]:
        for part in parts:
            for table in _parquet(part, size).tables(columns):
                yield table.cast(pa.schema([schema.field(name) for name in table.column_names]))

    return File(list(schema.names), sum(pq.read_metadata(part).num_rows for part in parts), tables)


def _ipc(path: Path, size: int) -> File:
    import pyarrow as pa

    def opened() -> Any:
        source = pa.memory_map(str(path))
        try:
            return pa.ipc.open_file(source)
        except pa.ArrowInvalid:
            return pa.ipc.open_stream(source)

    def batches() -> Iterator[Any]:
        reader = opened()
        if not hasattr(reader, "num_record_batches"):
            yield from reader
            return
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)

    return File(list(opened().schema.names), None, sliced(batches, size))


_OPENERS: dict[str, Callable[[Path, int], File]] = {
    "parquet": _parquet,
    "arrow": _ipc,
    "csv": open_csv,
    "jsonl": open_lines,
    "text": open_text,
    "folder": _folder,
}
