"""What became of each row, in memory: 12 bytes a row, and its error where it has one. The sink without an `out`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from shim.embed.cells import RowError
from shim.embed.store import Shortened, Store
from shim.embed.windows import Window

AT_ONCE = 16_384
MOST_IN_MEMORY = 1 << 30
"""Bytes of vectors beyond which they are mapped from a temporary file."""
_WHOLE: NDArray[np.int64] = np.empty(0, dtype=np.int64)


@dataclass(slots=True)
class Ledger:
    """Windows as they were completed, in order."""

    store: Store
    notes_shortened: bool
    errors: dict[int, RowError] = field(default_factory=dict)
    shortened: dict[int, Shortened] = field(default_factory=dict)
    room: int = MOST_IN_MEMORY
    """Bytes of vectors that may be kept as they come; a larger result is read from the store."""
    total: int | None = None
    """Rows that there will be, None if unknown."""
    matrix: NDArray[np.float32] | None = None
    _is_kept: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, dtype=np.bool_))
    _places: list[NDArray[np.int64]] = field(default_factory=list)
    _batches: list[NDArray[np.int32]] = field(default_factory=list)
    rows: int = 0

    def write(self, window: Window) -> None:
        """Take in a complete window, or at a stop what is known of one."""
        self._places.append(window.places)
        self._batches.append(window.batches.astype(np.int32))
        for row, error in window.errors.items():
            self.errors[window.start + row] = error
        if self.notes_shortened:
            known = self.store.shortened([key for key in window.keys if key is not None])
            if known:
                rows = ((row, known.get(key)) for row, key in enumerate(window.keys) if key is not None)
                self.shortened.update((window.start + row, one) for row, one in rows if one is not None)
        self.rows += len(window)

    def abandon(self, window: Window) -> None:
        """As much as is known of a window."""
        self.write(window)

    def accept(self, rows: Sequence[int], vectors: NDArray[np.float32]) -> None:
        """Keep vectors of rows as they come, where all of them will fit: they need not be read again."""
        if self.matrix is None:
            if self.total is None or self.total * vectors.shape[1] * 4 > self.room:
                return
            self.matrix = np.empty((self.total, vectors.shape[1]), dtype=np.float32)
            self._is_kept = np.zeros(self.total, dtype=np.bool_)
        at = np.asarray(rows, dtype=np.int64)
        self.matrix[at] = vectors
        self._is_kept[at] = True

    @property
    def is_whole(self) -> bool:
        """Whether every row that has a vector came by `accept`: nothing need be read."""
        if self.matrix is None:
            return False
        places = self.places()
        return bool(self._is_kept[: len(places)][places >= 0].all())

    def fill(self, store: Store | None, width: int) -> NDArray[np.float32] | None:
        """The whole matrix, with what was not kept read from the store; None where it was too large to keep.

        Without a store, what was not kept has no vector."""
        if self.matrix is None:
            return None
        places = np.full(len(self.matrix), -1, dtype=np.int64)
        places[: self.rows] = self.places()
        missing = np.flatnonzero(~self._is_kept)
        for begin in range(0, len(missing), AT_ONCE):
            rows = missing[begin : begin + AT_ONCE]
            part = np.empty((len(rows), width), dtype=np.float32)
            if store is None:
                part[:] = np.nan
            else:
                store.read(places[rows], part)
            self.matrix[rows] = part
        self._is_kept[:] = True
        return self.matrix

    def places(self) -> NDArray[np.int64]:
        """Where each row's vector lies in the store, -1 for none."""
        self._places = [np.concatenate(self._places)] if self._places else []
        return self._places[0] if self._places else _WHOLE

    def batches(self) -> NDArray[np.int32]:
        """The number of each row's batch in the store, -1 for none."""
        self._batches = [np.concatenate(self._batches)] if self._batches else []
        return self._batches[0] if self._batches else _WHOLE.astype(np.int32)
