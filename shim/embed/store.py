"""Keeps vectors under their texts' keys: raw float32 segments and an SQLite index of where each row lies.

Order of writing: the rows, then fdatasync, then the index in one transaction. So a killed process loses the batches it
had in flight and nothing else. Each writing process has a segment of its own, held by a file lock; the index is shared.
"""

from __future__ import annotations

import os
import sqlite3
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from shim.embed.cells import ErrorKind, RowError
from shim.embed.errors import StoreError, StoreFullError
from shim.embed.identity import SpaceIdentity
from shim.embed.segments import Segment, Vectors, gather

SCHEMA_VERSION = 1
SHIFT = 40
ROW = (1 << SHIFT) - 1
"""A place is the segment's number in the upper bits and the row in it in the lower forty."""
_ASKED_AT_ONCE = 900
_SCHEMA = """
create table if not exists meta(name text primary key, value text not null) without rowid;
create table if not exists segments(id integer primary key, name text unique not null, rows integer not null);
create table if not exists batches(id integer primary key, route text not null, model text not null,
  space text not null, call text not null, tokens integer, at real not null);
create table if not exists vectors(key blob primary key, place integer not null, batch integer not null) without rowid;
create table if not exists shortened(key blob primary key, tokens integer not null, kept integer not null,
  parts integer not null) without rowid;
create table if not exists suspects(key blob primary key, kind text not null, message text not null,
  route text not null, attempts integer not null) without rowid;
"""


@dataclass(frozen=True, slots=True)
class Origin:
    """Who made a batch of vectors, and when (unix seconds). `tokens` is what the provider counted for all of it."""

    route: str
    model: str
    space: str
    call: str
    tokens: int | None
    at: float


@dataclass(frozen=True, slots=True)
class Shortened:
    """A text longer than the model takes: `kept` of its `tokens` went in, in so many `parts` (1: it was cut)."""

    tokens: int
    kept: int
    parts: int


Place = tuple[int, int]
"""Where a vector lies, and the number of its batch."""


class Store:
    """One folder for one space. Use from one thread; several processes may have the same folder open."""

    def __init__(self, folder: Path, space: SpaceIdentity) -> None:
        self.folder, self.space = folder, space
        self.put_number = 0
        """The number of the batch that was put last: a place of another number is of a process that was quicker."""
        self._segment: Segment | None = None
        self._segment_id = 0
        folder.mkdir(parents=True, exist_ok=True)
        self._index = self._connect()
        with self._safely():
            self._index.executescript(_SCHEMA)
            self._check_meta()
            self._count = int(self._value("select count(*) from (select 1 from vectors limit 1)") or 0)
            self._suspects = bool(self._value("select count(*) from suspects"))

    # -- opening

    def _connect(self) -> sqlite3.Connection:
        with self._safely():
            index = sqlite3.connect(
                self.folder / "index.sqlite", timeout=60, isolation_level=None, check_same_thread=False
            )
            index.execute("pragma journal_mode=wal")
            index.execute("pragma synchronous=normal")
            index.execute("pragma cache_size=-65536")  # 64 MiB: keys are random, so inserts touch pages everywhere
            index.execute("pragma wal_autocheckpoint=4000")
            return index

    def _check_meta(self) -> None:
        about = {"version": str(SCHEMA_VERSION), "space": self.space.id, "about": str(self.space)}
        self._index.executemany("insert or ignore into meta values(?, ?)", about.items())
        known = dict(self._index.execute("select name, value from meta"))
        if known["version"] != about["version"] or known["space"] != about["space"]:
            raise StoreError(
                f"the store in {self.folder} holds {known['about']} (version {known['version']}), not "
                f"{about['about']}: give another folder as `store`"
            )

    @property
    def width(self) -> int | None:
        """The length of every vector in it; None while there is none."""
        found = self._value("select value from meta where name = 'width'")
        return None if found is None else int(found)

    @property
    def reference(self) -> str | None:
        """The fingerprint of the observed space that its vectors belong to; None when it was never observed."""
        found = self._value("select value from meta where name = 'reference'")
        return None if found is None else str(found)

    def observe(self, fingerprint: str) -> None:
        """Note the observed space, or raise StoreError when it is another one than the vectors here belong to."""
        with self._safely():
            self._index.execute("insert or ignore into meta values('reference', ?)", (fingerprint,))
        if self.reference != fingerprint:
            raise StoreError(
                f"the vectors in {self.folder} belong to another vector space ({self.reference}) than the family's "
                f"routes give now ({fingerprint}): embed afresh with fresh=True, or in another `store`"
            )

    # -- reading

    def find(self, keys: Sequence[bytes]) -> dict[bytes, Place]:
        """The places of those of the keys that are here."""
        if not self._count:
            return {}
        return {key: (place, batch) for key, place, batch in self._rows_for(keys, "vectors")}

    def _rows_for(self, keys: Sequence[bytes], table: str) -> Iterator[tuple[Any, ...]]:
        with self._safely():
            for begin in range(0, len(keys), _ASKED_AT_ONCE):
                some = keys[begin : begin + _ASKED_AT_ONCE]
                yield from self._index.execute(
                    f"select * from {table} where key in ({','.join('?' * len(some))})", some
                )

    def read(self, places: NDArray[np.int64], out: Vectors) -> None:
        """Fill `out` with the vectors at `places`; rows of places below 0 become NaN."""
        out[places < 0] = np.nan
        here = np.flatnonzero(places >= 0)
        segments = places[here] >> SHIFT
        names = dict(self._index.execute("select id, name from segments"))
        for segment in np.unique(segments).tolist():
            at = here[segments == segment]
            rows = places[at] & ROW
            gather(self.folder / names[segment], out.shape[1], rows, out, at)

    def origins(self, batches: Sequence[int] | None = None) -> dict[int, Origin]:
        """Who made the batches, by number; all of them for None."""
        found: dict[int, Origin] = {}
        columns = "select id, route, model, space, call, tokens, at from batches"
        if batches is None:
            return {row[0]: Origin(*row[1:]) for row in self._index.execute(columns)}
        for begin in range(0, len(batches), _ASKED_AT_ONCE):
            some = list(batches[begin : begin + _ASKED_AT_ONCE])
            rows = self._index.execute(f"{columns} where id in ({','.join('?' * len(some))})", some)
            found.update((row[0], Origin(*row[1:])) for row in rows)
        return found

    def shortened(self, keys: Sequence[bytes]) -> dict[bytes, Shortened]:
        """Those of the keys whose texts were cut or averaged."""
        return {row[0]: Shortened(*row[1:]) for row in self._rows_for(keys, "shortened")}

    def suspects(self, keys: Sequence[bytes]) -> dict[bytes, RowError]:
        """Those of the keys whose texts a provider refused in an earlier run."""
        if not self._suspects:
            return {}
        return {row[0]: RowError(ErrorKind(row[1]), *row[2:]) for row in self._rows_for(keys, "suspects")}

    @property
    def last_batch(self) -> int:
        """The number of the last batch so far: later ones are of whoever writes after this."""
        return int(self._value("select max(id) from batches") or 0)

    # -- writing

    def put(self, keys: Sequence[bytes], vectors: Vectors, origin: Origin) -> list[Place]:
        """Keep a batch. On return it is on the disk and in the index. Raises StoreFullError, StoreError."""
        with self._safely():
            segment = self._writable(vectors.shape[1])
            segment.append(vectors)
            first = (self._segment_id << SHIFT) + segment.rows
            with self._transaction():
                batch = self.put_number = self._insert(origin)
                rows = [(key, first + offset, batch) for offset, key in enumerate(keys)]
                added = self._index.executemany("insert or ignore into vectors values(?, ?, ?)", rows).rowcount
                self._index.execute(
                    "update segments set rows = ? where id = ?", (segment.rows + len(keys), self._segment_id)
                )
                if self._suspects:
                    self._index.executemany("delete from suspects where key = ?", [(key,) for key in keys])
            segment.accept(len(keys))
        self._count = 1
        if added == len(keys):
            return [(place, batch) for _, place, batch in rows]
        known = self.find(keys)  # another process was first with some: one text has one vector
        return [known[key] for key in keys]

    def put_shortened(self, shortened: Mapping[bytes, Shortened]) -> None:
        """Note which texts were cut or averaged."""
        rows = [(key, one.tokens, one.kept, one.parts) for key, one in shortened.items()]
        with self._safely():
            self._index.executemany("insert or replace into shortened values(?, ?, ?, ?)", rows)

    def suspect(self, refused: Mapping[bytes, RowError]) -> None:
        """Note texts that a provider refused: the next run sends each alone, so that it spoils no batch."""
        rows = [(key, one.kind.value, one.message, one.route, one.attempts) for key, one in refused.items()]
        with self._safely():
            self._index.executemany("insert or replace into suspects values(?, ?, ?, ?, ?)", rows)
        self._suspects = True

    def _insert(self, origin: Origin) -> int:
        cursor = self._index.execute(
            "insert into batches(route, model, space, call, tokens, at) values(?, ?, ?, ?, ?, ?)",
            (origin.route, origin.model, origin.space, origin.call, origin.tokens, origin.at),
        )
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def _writable(self, width: int) -> Segment:
        if self._segment is None:
            self._index.execute("insert or ignore into meta values('width', ?)", (str(width),))
            self._segment_id, self._segment = self._adopted(width) or self._fresh(width)
        if self.width != width:
            raise StoreError(f"vectors of {width} numbers do not belong in {self.folder}: it holds {self.width}")
        return self._segment

    def _adopted(self, width: int) -> tuple[int, Segment] | None:
        """A segment that no living process is writing to."""
        for number, name in self._index.execute("select id, name from segments order by id").fetchall():
            path = self.folder / name
            if path.exists():
                segment = Segment.lock(path, width, partial(self._rows_of, number))
                if segment is not None:
                    return number, segment
        return None

    def _rows_of(self, number: int) -> int:
        return int(self._value("select rows from segments where id = ?", number))

    def _fresh(self, width: int) -> tuple[int, Segment]:
        name = f"{uuid.uuid4().hex[:12]}.f32"
        segment = Segment.lock(self.folder / name, width, lambda: 0)
        assert segment is not None, "nobody else can have locked a file of that name"
        cursor = self._index.execute("insert into segments(name, rows) values(?, 0)", (name,))
        assert cursor.lastrowid is not None
        return cursor.lastrowid, segment

    # -- SQLite

    def _value(self, query: str, *arguments: object) -> Any:
        row = self._index.execute(query, arguments).fetchone()
        return None if row is None else row[0]

    @contextmanager
    def _transaction(self) -> Any:
        self._index.execute("begin immediate")
        try:
            yield
        except BaseException:
            self._index.execute("rollback")
            raise
        self._index.execute("commit")

    @contextmanager
    def _safely(self) -> Any:
        """Errors of the disk in words that say what to do."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            if "full" in str(error):
                raise StoreFullError(self.folder) from error
            raise StoreError(
                f"the index in {self.folder} cannot be used ({error}): `shim cache verify` tells its state"
            ) from error
        except OSError as error:
            if error.errno in _FULL:
                raise StoreFullError(self.folder) from error
            raise StoreError(f"the store in {self.folder} cannot be used: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the files; whoever opens the folder next appends where this one stopped."""
        if self._segment is not None:
            self._segment.close()
        self._index.close()


def _full_errors() -> frozenset[int]:
    import errno

    return frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


_FULL = _full_errors()


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where stores are kept when no folder is named: `$SHIM_CACHE_DIR`, else the user's cache directory."""
    named = environ.get("SHIM_CACHE_DIR")
    if named:
        return Path(named) / "embeddings"
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "shim" / "embeddings"


def folder_for(space: SpaceIdentity, base: Path | None) -> Path:
    """The folder of a space below `base` (None: the user's cache): no two spaces ever share one."""
    safe = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in space.family)
    return (base if base is not None else cache_folder()) / f"{safe}-{space.id[:12]}"
