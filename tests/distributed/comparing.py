"""Puts the rows of a distributed run beside those of a local one: all must be the same, but for the names of calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import shim


def local(config: dict[str, Any], frame: Any, folder: Path, **choices: Any) -> dict[str, list[Any]]:
    """The columns that `client.embed` writes to a file for a pandas frame, in the order of its rows."""
    path, out = folder / "in.parquet", folder / "out.parquet"
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), path)
    with shim.OpenAI(router=config) as client:
        client.embed(path, column="text", into="embedding", out=out, store=folder / "local", progress=False, **choices)
    return rows_of(pq.read_table(out))


def rows_of(batch: Any) -> dict[str, list[Any]]:
    """The columns as plain values: bytes for a vector, None for what is missing, True for a call's name."""
    table = batch if isinstance(batch, pa.Table) else pa.Table.from_pandas(batch, preserve_index=False)
    columns = {name: table.column(name).to_pylist() for name in table.column_names if not name.startswith("__")}
    columns["embedding"] = [None if one is None else _packed(one) for one in columns["embedding"]]
    columns["embedding_call"] = [None if call is None else True for call in columns["embedding_call"]]
    return columns


def _packed(vector: list[float]) -> bytes:
    import numpy as np

    return np.array(vector, dtype="<f4").tobytes()
