"""Rows on their way through a job: each window of rows is complete when every row has its vector or its error. Pure
but for NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shim.embed.cells import RowError
from shim.embed.index import Place

NOWHERE = -1


@dataclass(slots=True)
class Window:
    """Consecutive rows. `places` and `batches` are -1 until known; `table` is what the sink writes beside them."""

    start: int
    keys: list[bytes | None]
    table: Any
    errors: dict[int, RowError] = field(default_factory=dict)
    places: NDArray[np.int64] = field(init=False)
    batches: NDArray[np.int64] = field(init=False)
    open_rows: int = 0

    def __post_init__(self) -> None:
        self.places = np.full(len(self.keys), NOWHERE, dtype=np.int64)
        self.batches = np.full(len(self.keys), NOWHERE, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.keys)

    def found(self, row: int, place: Place) -> None:
        """A row's vector is known."""
        self.places[row], self.batches[row] = place

    def landed(self, row: int, place: Place) -> None:
        """A row that was waited for has its vector."""
        self.found(row, place)
        self.open_rows -= 1

    def lost(self, row: int, error: RowError) -> None:
        """A row that was waited for will have none."""
        self.errors[row] = error
        self.open_rows -= 1


@dataclass(slots=True)
class Mean:
    """A long text that is embedded in parts: its vector is their mean, weighted by tokens."""

    key: bytes
    parts: Sequence[bytes]
    weights: Sequence[int]
    places: dict[bytes, Place] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        return len(self.places) == len(set(self.parts))


def weighted_mean(vectors: NDArray[np.float32], weights: Sequence[int]) -> NDArray[np.float32]:
    """One row: the mean, at length 1 where the parts are (as for OpenAI's long inputs: normalise after averaging)."""
    mean = np.average(vectors.astype(np.float64), axis=0, weights=weights)
    norms = np.linalg.norm(vectors, axis=1)
    if bool(np.all(np.abs(norms - 1) < 1e-3)):
        norm = float(np.linalg.norm(mean))
        mean = mean / norm if norm > 0 else mean
    return mean.astype(np.float32).reshape(1, -1)
