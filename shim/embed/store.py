"""Keeps vectors under their texts' keys: raw float32 segments and an SQLite index of where each row lies.

Order of writing: the rows, then fdatasync, then the index in one transaction. So a killed process loses the batches it
had in flight and nothing else. Each writing process has a segment of its own, held by a file lock; the index is shared.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from shim.embed.cells import ErrorKind, RowError
from shim.embed.errors import StoreError
from shim.embed.identity import SpaceIdentity
from shim.embed.index import NAME, Index, Maker, Origin, Place
from shim.embed.segments import Segment, Vectors, gather

__all__ = ["ROW", "SHIFT", "Maker", "Origin", "Place", "Shortened", "Store", "cache_folder", "folder_for"]

SCHEMA_VERSION = 1
SHIFT = 40
ROW = (1 << SHIFT) - 1
"""A place is the segment's number in the upper bits and the row in it in the lower forty."""


@dataclass(frozen=True, slots=True)
class Shortened:
    """A text longer than the model takes: `kept` of its `tokens` went in, in so many `parts` (1: it was cut)."""

    tokens: int
    kept: int
    parts: int


class Store:
    """One folder for one space. Use from one thread; several processes may have the same folder open."""

    folder: Path
    space: SpaceIdentity
    token: str
    """32 hex digits of this very store: one that takes its place in the same folder has others."""
    put_number: int
    """The number of the batch that was put last: a place of another number is of a process that was quicker."""

    def __init__(self, folder: Path, space: SpaceIdentity) -> None:
        self.folder, self.space, self.put_number = folder, space, 0
        self._segment: Segment | None = None
        self._segment_id = 0
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(
                f"the store {folder} cannot be made ({error.strerror}): name another as `store`"
            ) from error
        self._index = Index(folder)
        try:
            with self._index.safely():
                self._check_meta()
                self._suspects = bool(self._index.value("select count(*) from suspects"))
        except BaseException:
            self._index.close()
            raise

    def _check_meta(self) -> None:
        about = {"version": str(SCHEMA_VERSION), "space": self.space.id, "about": str(self.space)}
        about["token"] = uuid.uuid4().hex
        connection = self._index.connection
        connection.executemany("insert or ignore into meta values(?, ?)", about.items())
        known = dict(connection.execute("select name, value from meta"))
        if known["version"] != about["version"] or known["space"] != about["space"]:
            raise StoreError(
                f"the store in {self.folder} holds {known['about']} (version {known['version']}), not "
                f"{about['about']}: give another folder as `store`"
            )
        self.token = known["token"]

    @property
    def width(self) -> int | None:
        """The length of every vector in it; None while there is none."""
        found = self._index.value("select value from meta where name = 'width'")
        return None if found is None else int(found)

    @property
    def reference(self) -> str | None:
        """The fingerprint of the observed space that its vectors belong to; None when it was never observed."""
        found = self._index.value("select value from meta where name = 'reference'")
        return None if found is None else str(found)

    def makers(self) -> list[Maker]:
        """Who made its vectors, in which spaces."""
        with self._index.safely():
            rows = self._index.connection.execute("select route, base_url, model, space from makers order by route")
            return [Maker(*row) for row in rows]

    def note_maker(self, maker: Maker) -> None:
        """Somebody is about to put vectors."""
        row = (maker.route, maker.base_url, maker.model, maker.space)
        query = "insert or ignore into makers(route, base_url, model, space) values(?, ?, ?, ?)"
        with self._index.safely():
            self._index.connection.execute(query, row)

    @property
    def last_batch(self) -> int:
        """The number of the last batch so far: later ones are of whoever writes after this."""
        return self._index.last_batch

    def observe(self, fingerprint: str) -> None:
        """Note the observed space, or raise StoreError when it is another one than the vectors here belong to."""
        with self._index.safely():
            self._index.connection.execute("insert or ignore into meta values('reference', ?)", (fingerprint,))
        if self.reference != fingerprint:
            raise StoreError(
                f"the vectors in {self.folder} belong to another vector space ({self.reference}) than the family's "
                f"routes give now ({fingerprint}): embed afresh with fresh=True, or in another `store`"
            )

    # -- reading

    def find(self, keys: Sequence[bytes]) -> dict[bytes, Place]:
        """The places of those of the keys that are here."""
        return self._index.find(keys)

    def read(self, places: NDArray[np.int64], out: Vectors) -> None:
        """Fill `out` with the vectors at `places`; rows of places below 0 become NaN."""
        out[places < 0] = np.nan
        here = np.flatnonzero(places >= 0)
        segments = places[here] >> SHIFT
        with self._index.safely():
            names = dict(self._index.connection.execute("select id, name from segments"))
            for segment in np.unique(segments).tolist():
                at = here[segments == segment]
                gather(self.folder / names[segment], out.shape[1], places[at] & ROW, out, at)

    def origins(self, batches: Sequence[int]) -> dict[int, Origin]:
        """Who made the batches, by number."""
        return self._index.origins(batches)

    def shortened(self, keys: Sequence[bytes]) -> dict[bytes, Shortened]:
        """Those of the keys whose texts were cut or averaged."""
        return {row[0]: Shortened(*row[1:]) for row in self._index.rows_for(keys, "shortened")}

    def suspects(self, keys: Sequence[bytes]) -> dict[bytes, RowError]:
        """Those of the keys whose texts a provider refused in an earlier run."""
        if not self._suspects:
            return {}
        return {row[0]: RowError(ErrorKind(row[1]), *row[2:]) for row in self._index.rows_for(keys, "suspects")}

    # -- writing

    def put(self, keys: Sequence[bytes], vectors: Vectors, origin: Origin) -> list[Place]:
        """Keep a batch. On return it is on the disk and in the index. Raises StoreFullError, StoreError."""
        with self._index.safely():
            segment = self._writable(vectors.shape[1])
            try:
                segment.append(vectors)
                first, rows = (self._segment_id << SHIFT) + segment.rows, segment.rows + len(keys)
                places = self._index.put(keys, first, origin, self._segment_id, rows)
                segment.accept(len(keys))
            except BaseException:
                self._let_go()  # whether the index has taken the rows is for the index to say, at the next opening
                raise
            self.put_number = self._index.last_put
            if self._suspects:
                self._index.connection.executemany("delete from suspects where key = ?", [(key,) for key in keys])
        return places

    def put_shortened(self, shortened: Mapping[bytes, Shortened]) -> None:
        """Note which texts were cut or averaged."""
        rows = [(key, one.tokens, one.kept, one.parts) for key, one in shortened.items()]
        with self._index.safely():
            self._index.connection.executemany("insert or replace into shortened values(?, ?, ?, ?)", rows)

    def suspect(self, refused: Mapping[bytes, RowError]) -> None:
        """Note texts that a provider refused: the next run sends each alone, so that it spoils no batch."""
        # Not the message: a provider may repeat the text in it, and texts are not kept.
        rows = [(key, one.kind.value, "", one.route, one.attempts) for key, one in refused.items()]
        with self._index.safely():
            self._index.connection.executemany("insert or replace into suspects values(?, ?, ?, ?, ?)", rows)
        self._suspects = True

    def _writable(self, width: int) -> Segment:
        if self._segment is None:
            self._index.connection.execute("insert or ignore into meta values('width', ?)", (str(width),))
        if self.width != width:  # seen before a file is opened: one of another width would be cut in the wrong place
            raise StoreError(
                f"vectors of {width} numbers do not belong in {self.folder}: it holds {self.width}; embed afresh with "
                "fresh=True, or in another `store`"
            )
        if self._segment is None:
            self._segment_id, self._segment = self._adopted(width) or self._fresh(width)
        return self._segment

    def _adopted(self, width: int) -> tuple[int, Segment] | None:
        """A segment that no living process is writing to."""
        known = self._index.connection.execute("select id, name from segments order by id").fetchall()
        for number, name in known:
            path = self.folder / name
            if path.exists():
                segment = Segment.lock(path, width, partial(self._rows_of, number))
                if segment is not None:
                    return number, segment
        return None

    def _rows_of(self, number: int) -> int:
        return int(self._index.value("select rows from segments where id = ?", number))

    def _fresh(self, width: int) -> tuple[int, Segment]:
        name = f"{uuid.uuid4().hex[:12]}.f32"
        segment = Segment.lock(self.folder / name, width, lambda: 0)
        assert segment is not None, "nobody else can have locked a file of that name"
        cursor = self._index.connection.execute("insert into segments(name, rows) values(?, 0)", (name,))
        assert cursor.lastrowid is not None
        return cursor.lastrowid, segment

    @classmethod
    def reopened(cls, folder: Path, space: SpaceIdentity, token: str) -> Store:
        """The very store of that token, also where `fresh` has set it aside. Raises StoreError when it is gone."""
        for place in (folder, *sorted(folder.parent.glob(f"{folder.name}.old-*"))):
            if (place / NAME).exists():
                store = cls(place, space)
                if store.token == token:
                    return store
                store.close()
        raise StoreError(f"the vectors are no longer in {folder}: the store was removed; run the job again")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the files; whoever opens the folder next appends where this one stopped."""
        self._let_go()
        self._index.close()

    def _let_go(self) -> None:
        if self._segment is not None:
            self._segment.close()
            self._segment = None


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
