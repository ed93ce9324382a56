"""Looks after stores: lists them, checks them, removes them, writes them out. For `shim cache`."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from shim.embed.errors import StoreError
from shim.embed.store import ROW, SHIFT

INDEX = "index.sqlite"
_AT_ONCE = 4096


@dataclass(frozen=True, slots=True)
class Kept:
    """A store. `bytes` is all of its files; `used_at` unix seconds of the last batch, None for an empty one."""

    name: str
    folder: Path
    about: str
    vectors: int
    width: int | None
    bytes: int
    used_at: float | None


@dataclass(frozen=True, slots=True)
class Share:
    """How many batches and tokens of a store a route has made."""

    route: str
    model: str
    space: str
    batches: int
    vectors: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a store, in words."""

    where: str
    message: str


def stores(base: Path) -> list[Kept]:
    """The stores below a folder, by name."""
    found = sorted(path.parent for path in base.glob(f"*/{INDEX}")) if base.is_dir() else []
    return [look_at(folder) for folder in found]


def named(base: Path, name: str) -> Path:
    """The folder of one store: its name, or a beginning that only one has. Raises StoreError."""
    names = [folder.parent.name for folder in base.glob(f"*/{INDEX}")]
    matches = [one for one in names if one == name] or [one for one in names if one.startswith(name)]
    if len(matches) != 1:
        known = ", ".join(sorted(names)) or "none"
        raise StoreError(f"{'no store' if not matches else 'several stores'} named {name!r}; there are: {known}")
    return base / matches[0]


def _opened(folder: Path) -> sqlite3.Connection:
    try:
        return sqlite3.connect(f"{(folder / INDEX).absolute().as_uri()}?mode=ro", uri=True)
    except sqlite3.Error as error:
        raise StoreError(f"{folder.name}: the index cannot be read ({error})") from error


def _rows(folder: Path, query: str) -> list[tuple[Any, ...]]:
    index = _opened(folder)
    try:
        return index.execute(query).fetchall()
    except sqlite3.Error as error:
        raise StoreError(f"{folder.name}: the index cannot be read ({error})") from error
    finally:
        index.close()


def look_at(folder: Path) -> Kept:
    """What a store says of itself."""
    about = dict(_rows(folder, "select name, value from meta"))
    ((vectors,),) = _rows(folder, "select count(*) from vectors")
    ((used_at,),) = _rows(folder, "select max(at) from batches")
    size = sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
    width = int(about["width"]) if "width" in about else None
    return Kept(folder.name, folder, about.get("about", ""), vectors, width, size, used_at)


def shares(folder: Path) -> list[Share]:
    """Who made a store's vectors."""
    by_batch = _rows(folder, "select batch, count(*) from vectors group by batch")
    vectors = dict(by_batch)
    found: dict[tuple[str, str, str], list[int]] = {}
    for number, route, model, space, tokens in _rows(folder, "select id, route, model, space, tokens from batches"):
        counts = found.setdefault((route, model, space), [0, 0, 0])
        for place, count in enumerate((1, vectors.get(number, 0), tokens or 0)):
            counts[place] += count
    return [Share(*who, *counts) for who, counts in sorted(found.items())]


def verify(folder: Path) -> list[Fault]:
    """Everything that is wrong with a store: files that are missing or short, vectors that are none, a broken index."""
    faults = [Fault(INDEX, str(message)) for (message,) in _rows(folder, "pragma integrity_check") if message != "ok"]
    width = look_at(folder).width or 0
    for number, name, rows in _rows(folder, "select id, name, rows from segments"):
        path = folder / name
        if not path.exists():
            faults.append(Fault(name, f"is missing, with {rows:,} vectors"))
            continue
        whole = path.stat().st_size // max(1, width * 4)
        if whole < rows:
            faults.append(Fault(name, f"holds {whole:,} vectors where the index has {rows:,}"))
        faults += _bad_vectors(folder, path, number, width, min(rows, whole))
    return faults


def _bad_vectors(folder: Path, path: Path, number: int, width: int, rows: int) -> Iterator[Fault]:
    used = {place & ROW for (place,) in _rows(folder, f"select place from vectors where place >> {SHIFT} = {number}")}
    with path.open("rb") as file:
        for begin in range(0, rows, _AT_ONCE):
            block = np.fromfile(file, dtype="<f4", count=min(_AT_ONCE, rows - begin) * width).reshape(-1, width)
            norms = np.linalg.norm(block.astype(np.float64), axis=1)
            for row in np.flatnonzero(~(np.isfinite(norms) & (norms > 0))).tolist():
                if begin + row in used:
                    yield Fault(path.name, f"vector {begin + row} is zero or not finite")


def prune(folder: Path) -> None:
    """Remove a store and all that is in it."""
    if not (folder / INDEX).exists():
        raise StoreError(f"{folder} is no store: nothing was removed")
    shutil.rmtree(folder)


def export(folder: Path, out: Path) -> int:
    """Write a store to Parquet: key (hex), vector, route, model, space, call. Returns the number of vectors."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from shim.embed.frames import vector_column
    from shim.embed.segments import gather

    names = dict(_rows(folder, "select id, name from segments"))
    origins = {row[0]: row[1:] for row in _rows(folder, "select id, route, model, space, call from batches")}
    width = look_at(folder).width or 0
    writer, index, count = None, _opened(folder), 0
    try:
        cursor = index.execute("select key, place, batch from vectors order by place")
        while rows := cursor.fetchmany(_AT_ONCE):
            places = np.array([row[1] for row in rows], dtype=np.int64)
            vectors = np.empty((len(rows), width), dtype=np.float32)
            for segment in np.unique(places >> SHIFT).tolist():
                at = np.flatnonzero(places >> SHIFT == segment)
                gather(folder / names[segment], width, places[at] & ROW, vectors, at)
            made = [origins[row[2]] for row in rows]
            columns = {
                name: [one[place] for one in made] for place, name in enumerate(("route", "model", "space", "call"))
            }
            table = pa.table({"key": [row[0].hex() for row in rows], "embedding": vector_column(vectors), **columns})
            writer = writer or pq.ParquetWriter(out, table.schema, compression="zstd")
            writer.write_table(table)
            count += len(rows)
    finally:
        index.close()
        if writer is not None:
            writer.close()
    return count
