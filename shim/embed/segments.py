"""Raw float32 files, each written by one process at a time: rows end to end, nothing else in them.

A row counts once the index says so. What a killed process wrote beyond that is cut off by whoever appends next.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

try:
    import fcntl
except ImportError:  # Windows: no two writers ever share a file there, see `lock`
    fcntl = None  # type: ignore[assignment]

Vectors = NDArray[np.float32]


class Segment:
    """A file open for writing at its end, unbuffered. `rows` is how many it holds for certain."""

    path: Path
    width: int
    rows: int

    def __init__(self, path: Path, width: int, file: Any, rows: int) -> None:
        self.path, self.width, self.rows = path, width, rows
        self._file = file
        self._drop_tail()

    @classmethod
    def lock(cls, path: Path, width: int, rows: Callable[[], int]) -> Segment | None:
        """The segment with its file locked for this process; None while another writer has it.

        `rows` is asked once the lock is held: the last owner may have committed just before it let go.
        """
        path.touch()
        file = path.open("r+b", buffering=0)
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                file.close()
                return None
        return cls(path, width, file, rows())

    def _drop_tail(self) -> None:
        self._file.truncate(self.rows * self.width * 4)

    def append(self, vectors: Vectors) -> None:
        """Write rows and see them on the disk. `rows` grows only when the caller commits them with `accept`."""
        try:
            self._file.seek(self.rows * self.width * 4)  # whatever an earlier failure left there
            rest = memoryview(np.ascontiguousarray(vectors, dtype="<f4").data).cast("B")
            while rest:
                rest = rest[self._file.write(rest) :]
            _sync(self._file.fileno())
        except BaseException:
            self._rewind()
            raise

    def accept(self, count: int) -> None:
        """The index knows of `count` more rows."""
        self.rows += count

    def _rewind(self) -> None:
        """Give back what a failed write left behind; what cannot be cut off now is cut off at the next opening."""
        with contextlib.suppress(OSError):
            self._drop_tail()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._file.close()


def _sync(descriptor: int) -> None:
    getattr(os, "fdatasync", os.fsync)(descriptor)


STRETCH = 512
"""Rows that are read at once."""
RUN_GAP = 16
"""Rows that are read and thrown away rather than reading on elsewhere."""


def gather(path: Path, width: int, rows: NDArray[np.int64], out: Vectors, at: NDArray[np.int64]) -> None:
    """Copy the file's `rows` into `out[at]`, in stretches: pages are read, not mapped, so memory stays small."""
    order = np.argsort(rows, kind="stable")
    wanted, targets = rows[order], at[order]
    buffer = np.empty((STRETCH, width), dtype="<f4")  # one for all: fresh memory costs more than the reading
    with path.open("rb", buffering=0) as file:
        for begin, end in _stretches(wanted):
            first, last = int(wanted[begin]), int(wanted[end - 1])
            block = buffer[: last - first + 1]
            file.seek(first * width * 4)
            if file.readinto(block.data.cast("B")) != block.nbytes:
                raise OSError(f"{path.name} is shorter than its index says")
            out[targets[begin:end]] = block[wanted[begin:end] - first]


def _stretches(rows: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Ranges of sorted row numbers that lie close together, none longer than STRETCH rows."""
    begin = 0
    breaks = np.flatnonzero(np.diff(rows) > RUN_GAP) + 1
    for end in [*breaks.tolist(), len(rows)]:
        while begin < end:
            limit = int(np.searchsorted(rows[begin:end], rows[begin] + STRETCH)) + begin
            yield begin, limit
            begin = limit
