"""Batches as the frameworks hand them over (pandas, Arrow, NumPy arrays by name): cells out, new columns in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from shim.embed.columns import ACCOUNT, check_into
from shim.embed.errors import SourceError
from shim.embed.frames import with_vectors
from shim.embed.segments import Vectors
from shim.embed.sources import Source, open_source

PIECE = 16_384
"""Rows of a window within a batch."""


def opened(batch: object, column: str, into: str) -> Source:
    """The texts of a batch. Raises SourceError for another kind of batch, one without the column, or one where the
    new columns would take the place of others."""
    if isinstance(batch, Mapping):
        if column not in batch:
            raise SourceError(f"the batch has no column {column!r}; it has: {', '.join(map(str, batch)) or 'none'}")
        check_into(batch, column, into, has_account=True)
        return open_source(batch[column], None, PIECE, keep_tables=False)
    module = type(batch).__module__.split(".", 1)[0]
    if type(batch).__name__ == "RecordBatch":
        import pyarrow as pa

        batch = pa.Table.from_batches([batch])
    if module not in ("pandas", "pyarrow") or not hasattr(batch, "columns"):
        raise SourceError(
            f"cannot embed a batch that is a {type(batch).__name__}: pandas frames, Arrow tables and mappings of NumPy "
            "arrays are known (Ray: batch_format='pandas', 'pyarrow' or 'numpy')"
        )
    check_into(batch, column, into, has_account=True)
    return open_source(batch, column, PIECE, keep_tables=False)


def joined(batch: Any, source: Source, into: str, vectors: Vectors, account: Mapping[str, Any]) -> Any:
    """The batch with its new columns, in the kind that it came in; the one that was given is not changed."""
    if isinstance(batch, Mapping):
        words = {name: column.to_numpy(zero_copy_only=False) for name, column in account.items()}
        return {**batch, into: vectors, **words}
    if hasattr(source.whole, "column_names"):
        table = _arrow_vectors(source, into, vectors)
        for name, column in account.items():
            if name in table.column_names:
                table = table.drop_columns([name])
            table = table.append_column(name, column)
        return table
    frame = with_vectors(source, into, vectors)
    return frame.assign(**{name: _series(column, frame.index) for name, column in account.items()})


def _arrow_vectors(source: Source, into: str, vectors: Vectors) -> Any:
    """Nulls of no type where no vector was ever seen, so that its length is unknown: they go with any other part."""
    if vectors.shape[1]:
        return with_vectors(source, into, vectors)
    import pyarrow as pa

    table = source.whole.drop_columns([into]) if into in source.whole.column_names else source.whole
    return table.append_column(into, pa.nulls(len(vectors)))


def _series(column: Any, index: Any) -> Any:
    series = column.to_pandas()
    series.index = index
    return series


def no_rows(into: str, width: int, dtype: str) -> tuple[Vectors, Mapping[str, Any]]:
    """The new columns of a batch without rows: what frameworks want to know in advance."""
    import pyarrow as pa

    columns = {f"{into}_{name}": pa.array([], pa.string()) for name in ACCOUNT}
    return np.empty((0, width), dtype=dtype), columns


def spark_schema(before: Any, into: str) -> Any:
    """The type of a Spark frame with the new columns; `before` is the frame or its `.schema`."""
    from pyspark.sql.types import ArrayType, FloatType, StringType, StructField, StructType

    fields = getattr(before, "schema", before).fields
    added = [StructField(into, ArrayType(FloatType(), False), True)]
    added += [StructField(f"{into}_{name}", StringType(), True) for name in ACCOUNT]
    names = {field.name for field in added}
    return StructType([field for field in fields if field.name not in names] + added)
