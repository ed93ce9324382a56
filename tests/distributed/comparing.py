"""Puts the rows of a distributed run beside those of a local one: all must be the same, but for the names of calls."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import shim

Rows = list[dict[str, Any]]


def local(config: dict[str, Any], frame: Any, folder: Path, **choices: Any) -> Rows:
    """The rows that `client.embed` writes to a file for a pandas frame."""
    path, out = folder / "in.parquet", folder / "out.parquet"
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), path)
    with shim.OpenAI(router=config) as client:
        client.embed(path, column="text", into="embedding", out=out, store=folder / "local", progress=False, **choices)
    return rows_of(pq.read_table(out))


def rows_of(batch: Any) -> Rows:
    """Plain rows by their number: bytes for a vector, None for whatever is missing, True for a call's name."""
    if isinstance(batch, pd.DataFrame):
        batch = batch.to_dict("records")
    elif isinstance(batch, pa.Table):
        batch = batch.to_pylist()
    return sorted((_plain(row) for row in batch), key=lambda row: int(row["id"]))


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    plain = {name: None if _is_missing(value) else value for name, value in row.items()}
    vector = plain["embedding"]
    plain["embedding"] = None if vector is None else np.array(vector, dtype="<f4").tobytes()
    plain["embedding_call"] = True if plain["embedding_call"] else None
    return plain


def _is_missing(value: Any) -> bool:
    if isinstance(value, list | tuple | np.ndarray):
        return bool(np.isnan(np.asarray(value, dtype="f4")).all())
    return bool(pd.isna(value))


def errors_of(rows: Rows) -> list[str | None]:
    """The error of each row."""
    return [row["embedding_error"] for row in rows]
