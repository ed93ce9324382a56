"""The SQLite index of a store: which key lies where, and who made it.

A batch is first noted whole, one row for all its keys, and folded into the table of single keys later, many batches at
once and sorted: that is several times quicker. Where another process writes to the same index, keys go in singly and
are looked up on the disk, so that one text has one vector whoever was first.
"""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shim._run.system import SystemClock
from shim.embed.errors import StoreError, StoreFullError

NAME = "index.sqlite"
FOLD_AT = 65_536
"""Keys that wait in memory before they are folded into the table."""
_KEY = 16
_ASKED_AT_ONCE = 900
_MOST_FILTERED = 4_000_000
_SHARE_TRIES, _SHARE_WAIT = 500, 0.02
_SLOTS = 1 << 24
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_SCHEMA = """
create table if not exists meta(name text primary key, value text not null) without rowid;
create table if not exists segments(id integer primary key, name text unique not null, rows integer not null);
create table if not exists batches(id integer primary key, route text not null, model text not null,
  space text not null, call text not null, tokens integer, at real not null);
create table if not exists makers(base_url text not null, model text not null, space text not null,
  route text not null, primary key(base_url, model, space)) without rowid;
create table if not exists vectors(key blob primary key, place integer not null, batch integer not null) without rowid;
create table if not exists unfolded(batch integer primary key, place integer not null, keys blob not null);
create table if not exists shortened(key blob primary key, tokens integer not null, kept integer not null,
  parts integer not null) without rowid;
create table if not exists suspects(key blob primary key, kind text not null, message text not null,
  route text not null, attempts integer not null) without rowid;
"""


@dataclass(frozen=True, slots=True)
class Maker:
    """Who made some of the vectors, and by which right they are here: `observed:…` or `declared:…`."""

    route: str
    base_url: str
    model: str
    space: str


@dataclass(frozen=True, slots=True)
class Origin:
    """Who made a batch of vectors, and when (unix seconds). `tokens` is what the provider counted for all of it."""

    route: str
    model: str
    space: str
    call: str
    tokens: int | None
    at: float


Place = tuple[int, int]
"""Where a vector lies, and the number of its batch."""


class _Filter:
    """Tells for certain that a key is not in the table, and of most others that they may be: a Bloom filter."""

    def __init__(self) -> None:
        self._slots: NDArray[np.bool_] = np.zeros(_SLOTS, dtype=np.bool_)

    @staticmethod
    def _places(keys: bytes) -> list[NDArray[np.uint64]]:
        halves = np.frombuffer(keys, dtype="<u8").reshape(-1, 2)
        mask = np.uint64(_SLOTS - 1)
        return [(halves[:, 0] + np.uint64(step) * halves[:, 1]) & mask for step in (0, 1, 2)]

    def add(self, keys: bytes) -> None:
        for places in self._places(keys):
            self._slots[places] = True

    def may_hold(self, keys: Sequence[bytes]) -> list[bytes]:
        """Those of the keys that may be in the table."""
        first, second, third = self._places(b"".join(keys))
        is_likely = self._slots[first] & self._slots[second] & self._slots[third]
        return [keys[place] for place in np.flatnonzero(is_likely).tolist()]


class Index:
    """Use from one thread at a time."""

    folder: Path
    connection: sqlite3.Connection
    last_put: int
    """The number of the batch that was put last."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.last_put = 0
        self._has_others = False
        self._waiting: dict[bytes, Place] = {}
        self._filter: _Filter | None = None
        with self.safely():
            self.connection = sqlite3.connect(folder / NAME, timeout=60, isolation_level=None, check_same_thread=False)
        try:
            self._prepare()
        except BaseException:
            self.connection.close()
            raise

    def _prepare(self) -> None:
        with self.safely():
            self._share()
            for pragma in ("synchronous=normal", "cache_size=-65536", "wal_autocheckpoint=4000"):
                self.connection.execute(f"pragma {pragma}")
            self.connection.executescript(_SCHEMA)
            self._last_batch = self.last_batch
            with self.transaction():
                self._fold()
            self._filter = self._filled()

    def _share(self) -> None:
        """Let several processes write in turns. SQLite waits for nobody here, so those who open at once would fail."""
        for tries_left in reversed(range(_SHARE_TRIES)):
            try:
                self.connection.execute("pragma journal_mode=wal")
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or not tries_left:
                    raise
                SystemClock().wait(_SHARE_WAIT)

    # -- plain questions

    def value(self, query: str, *arguments: object) -> Any:
        """The first value of the first row; None for no row."""
        row = self.connection.execute(query, arguments).fetchone()
        return None if row is None else row[0]

    def rows_for(self, keys: Sequence[bytes], table: str) -> Iterator[tuple[Any, ...]]:
        """The rows of a table that have one of the keys."""
        with self.safely():
            for begin in range(0, len(keys), _ASKED_AT_ONCE):
                some = keys[begin : begin + _ASKED_AT_ONCE]
                marks = ",".join("?" * len(some))
                yield from self.connection.execute(f"select * from {table} where key in ({marks})", some)

    @property
    def last_batch(self) -> int:
        """The number of the last batch so far: later ones are of whoever writes after this."""
        return int(self.value("select max(id) from batches") or 0)

    def origins(self, batches: Sequence[int]) -> dict[int, Origin]:
        """Who made the batches, by number."""
        found: dict[int, Origin] = {}
        for begin in range(0, len(batches), _ASKED_AT_ONCE):
            some = list(batches[begin : begin + _ASKED_AT_ONCE])
            marks = ",".join("?" * len(some))
            query = f"select id, route, model, space, call, tokens, at from batches where id in ({marks})"
            found.update((row[0], Origin(*row[1:])) for row in self.connection.execute(query, some))
        return found

    # -- keys

    def find(self, keys: Sequence[bytes]) -> dict[bytes, Place]:
        """The places of those of the keys that are here."""
        with self.safely():
            if self.last_batch != self._last_batch:
                self._join_others()
        waiting = self._waiting
        found = {key: waiting[key] for key in keys if key in waiting} if waiting else {}
        rest = [key for key in keys if key not in found] if found else list(keys)
        if self._filter is not None and rest:
            rest = self._filter.may_hold(rest)
        rest.sort()  # neighbours lie on one page
        found.update((key, (place, batch)) for key, place, batch in self.rows_for(rest, "vectors"))
        return found

    def put(self, keys: Sequence[bytes], first: int, origin: Origin, segment: int, rows: int) -> list[Place]:
        """Note a batch whose vectors lie from `first` on in a segment that has `rows` now. The places of its keys."""
        with self.transaction():
            batch = self._insert(origin)
            self.connection.execute("update segments set rows = ? where id = ?", (rows, segment))
            is_alone = batch == self._last_batch + 1 and not self._has_others
            if is_alone:
                self.connection.execute("insert into unfolded values(?, ?, ?)", (batch, first, b"".join(keys)))
            else:
                self._fold()
                self._add([(key, first + offset, batch) for offset, key in enumerate(keys)])
        self._last_batch = self.last_put = batch
        mine = [(first + offset, batch) for offset in range(len(keys))]
        if not is_alone:
            self._has_others, self._filter = True, None
            found = self.find(keys)
            return [found[key] for key in keys]
        self._waiting.update(zip(keys, mine, strict=True))
        if len(self._waiting) >= FOLD_AT:
            self.fold()
        return mine

    def _join_others(self) -> None:
        """Another process writes here: from now on the disk is asked."""
        self._has_others, self._filter = True, None
        self.fold()
        self._last_batch = self.last_batch

    def fold(self) -> None:
        """Bring all batches that wait, of whomever, into the table of single keys."""
        with self.safely(), self.transaction():
            self._fold()

    def _fold(self) -> None:
        rows: list[tuple[bytes, int, int]] = []
        batches = self.connection.execute("select batch, place, keys from unfolded order by batch").fetchall()
        for batch, place, keys in batches:
            rows += [(keys[at : at + _KEY], place + at // _KEY, batch) for at in range(0, len(keys), _KEY)]
            if self._filter is not None:
                self._filter.add(keys)
        rows.sort()
        self._add(rows)
        self.connection.executemany("delete from unfolded where batch = ?", [(batch[0],) for batch in batches])
        self._waiting.clear()

    def _add(self, rows: list[tuple[bytes, int, int]]) -> None:
        self.connection.executemany("insert or ignore into vectors values(?, ?, ?)", rows)

    def _filled(self) -> _Filter | None:
        if int(self.value("select count(*) from vectors")) > _MOST_FILTERED:
            return None
        made = _Filter()
        cursor = self.connection.execute("select key from vectors")
        while rows := cursor.fetchmany(FOLD_AT):
            made.add(b"".join(row[0] for row in rows))
        return made

    def _insert(self, origin: Origin) -> int:
        cursor = self.connection.execute(
            "insert into batches(route, model, space, call, tokens, at) values(?, ?, ?, ?, ?, ?)",
            (origin.route, origin.model, origin.space, origin.call, origin.tokens, origin.at),
        )
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    # -- errors and ends

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All of it or nothing."""
        try:
            self.connection.execute("begin immediate")
            yield
            self.connection.execute("commit")
        except BaseException:
            if self.connection.in_transaction:
                self.connection.execute("rollback")
            raise

    @contextmanager
    def safely(self) -> Iterator[None]:
        """Errors of the disk in words that say what to do."""
        try:
            yield
        except sqlite3.Error as error:
            if "full" in str(error):
                raise StoreFullError(self.folder) from error
            raise StoreError(
                f"the index in {self.folder} cannot be used ({error}): `shim cache verify` tells its state, fresh=True "
                "begins another"
            ) from error
        except OSError as error:
            if error.errno in FULL:
                raise StoreFullError(self.folder) from error
            raise StoreError(
                f"the store in {self.folder} cannot be used ({error}): `shim cache verify` tells its state, fresh=True "
                "begins another"
            ) from error

    def close(self) -> None:
        """Fold what waits, and let go. What cannot be folded now (a full disk) is left to the next opening."""
        try:
            if self._waiting:
                with suppress(StoreError):
                    self.fold()
        finally:
            self.connection.close()
