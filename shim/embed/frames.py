"""Gives results in the kind of frame that the user works with: pandas, polars, Arrow, a dataset, or plain rows."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from shim.embed.errors import SourceError
from shim.embed.segments import Vectors
from shim.embed.sources import Container, Source


def frame(columns: Mapping[str, Any], like: Container, index: Any = None) -> Any:
    """A frame of the columns: polars or Arrow where the input was, else pandas, else Arrow, else a mapping of lists."""
    if like is Container.POLARS:
        import polars

        return polars.DataFrame({name: _listed(values) for name, values in columns.items()})
    if like is not Container.ARROW and importlib.util.find_spec("pandas") is not None:
        import pandas

        return pandas.DataFrame(dict(columns), index=index)
    if importlib.util.find_spec("pyarrow") is not None:
        import pyarrow

        return pyarrow.table({name: _listed(values) for name, values in columns.items()})
    return {name: _listed(values) for name, values in columns.items()}


def _listed(values: Any) -> list[Any]:
    return values.tolist() if hasattr(values, "tolist") else list(values)


def with_vectors(source: Source, into: str, vectors: Vectors) -> Any:
    """What was given, with a column `into` of the vectors (null where there is none). The original is not changed."""
    match source.container:
        case Container.PANDAS if hasattr(source.whole, "columns"):
            levels = source.whole.columns.nlevels
            frame = source.whole.copy(deep=False)
            frame[into if levels == 1 else (into, *[""] * (levels - 1))] = _objects(vectors)
            return frame
        case Container.POLARS if hasattr(source.whole, "columns"):
            import polars

            return source.whole.with_columns(polars.Series(into, polars.from_arrow(vector_column(vectors))))
        case Container.ARROW if hasattr(source.whole, "column_names"):
            return _replaced(source.whole, into, vector_column(vectors))
        case Container.DATASET:
            return _dataset(source.whole, into, vectors)
        case _:
            raise SourceError(
                "`into` needs a frame, an Arrow table or a dataset; of a plain column take job.vectors, of a file `out`"
            )


_MOST_FLOAT16 = 65_504


def in_dtype(vectors: Any, dtype: str) -> Any:
    """The vectors as float32 or float16. Raises SourceError where a number is too large for float16."""
    if vectors.dtype == dtype:
        return vectors
    most = float(np.nanmax(np.abs(vectors), initial=0.0))
    if most > _MOST_FLOAT16:
        raise SourceError(
            f"dtype: the vectors hold numbers as large as {most:,.0f}, and float16 ends at {_MOST_FLOAT16:,}: take "
            "float32, or normalise=True"
        )
    return vectors.astype(dtype)


def _objects(vectors: Vectors) -> Any:
    """One array a row, None where there is no vector: what pandas reads from a Parquet list column."""
    column = np.empty(len(vectors), dtype=object)
    missing = np.isnan(vectors[:, 0]) if vectors.shape[1] else np.ones(len(vectors), dtype=bool)
    for row, is_missing in enumerate(missing.tolist()):
        column[row] = None if is_missing else vectors[row]
    return column


def vector_column(vectors: Any) -> Any:
    """An Arrow fixed_size_list column of the vectors, null where a row is NaN; float32 or float16 as they are."""
    import pyarrow as pa

    rows, width = vectors.shape
    if not width:  # no vector was ever made: their length is not known
        return pa.nulls(rows, pa.list_(pa.from_numpy_dtype(vectors.dtype)))
    missing = np.isnan(vectors[:, 0])
    flat = pa.array(np.ascontiguousarray(vectors).reshape(-1))
    mask = pa.array(missing) if bool(missing.any()) else None
    return pa.FixedSizeListArray.from_arrays(flat, width, mask=mask)


def _replaced(table: Any, name: str, column: Any) -> Any:
    if name in table.column_names:
        return table.set_column(table.column_names.index(name), name, column)
    return table.append_column(name, column)


def _dataset(dataset: Any, into: str, vectors: Vectors) -> Any:
    column = [None if np.isnan(row[0]) else row for row in vectors] if vectors.shape[1] else [None] * len(vectors)
    if into in dataset.column_names:
        dataset = dataset.remove_columns(into)
    return dataset.add_column(into, column)


def error_columns(errors: Sequence[tuple[int, Any]]) -> dict[str, list[Any]]:
    """The columns of `job.errors`."""
    return {
        "index": [row for row, _ in errors],
        "kind": [error.kind.value for _, error in errors],
        "message": [error.message for _, error in errors],
        "route": [error.route for _, error in errors],
        "attempts": [error.attempts for _, error in errors],
    }
