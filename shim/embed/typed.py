"""Gives a pandas frame one Arrow type for each of its columns, so that every window of it is written alike."""

from __future__ import annotations

from typing import Any

from shim.embed.cells import is_null
from shim.embed.errors import SourceError


def typed(frame: Any) -> tuple[Any, Any]:
    """The frame as it can be written, and its Arrow schema, which is the same for all of its rows.

    Columns that Arrow has no type for (cells of several types, torn characters) become texts. An index is kept as
    pandas itself keeps it in Parquet: rows that are merely numbered have none.
    """
    import pandas
    import pyarrow as arrow

    frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
    for place, name in enumerate(frame.columns):
        if not _has_type(frame.iloc[:, place]):
            frame = frame.assign(**{name: _texts(frame.iloc[:, place])})
    index = frame.index
    is_numbered = isinstance(index, pandas.RangeIndex) and index.equals(pandas.RangeIndex(len(index)))
    levels = [index.get_level_values(level).to_series() for level in range(index.nlevels)]
    if not is_numbered and not all(map(_has_type, levels)):
        frame = frame.set_axis(pandas.MultiIndex.from_arrays(map(_texts, levels), names=index.names), axis=0)
    try:
        return frame, arrow.Schema.from_pandas(frame, preserve_index=not is_numbered)
    except (arrow.ArrowException, ValueError) as error:
        raise SourceError(f"out: the frame cannot be written: {error}") from error


def _has_type(column: Any) -> bool:
    import pyarrow as arrow

    try:
        arrow.array(column, from_pandas=True)
    except (arrow.ArrowException, UnicodeError, OverflowError):
        return False
    return True


def _texts(column: Any) -> list[str | None]:
    return [None if is_null(cell) else _text(cell) for cell in column]


def _text(cell: Any) -> str:
    return str(cell).encode("utf-8", "replace").decode()
