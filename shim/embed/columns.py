"""Sees to it that new columns take no column's place but that of an earlier run."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from shim.embed.cells import is_null
from shim.embed.errors import SourceError
from shim.embed.sources import columns_of, open_source

ACCOUNT = ("route", "model", "space", "call", "note", "error")
"""What is told of each row, in columns named after that of the vectors."""
_PEEK = 1024


def check_into(given: object, column: str | None, into: str, *, has_account: bool) -> None:
    """Raises SourceError where a column that is there would be lost.

    A column `into` of vectors may be replaced, since a cell is run twice; where the account of each row stands beside
    it (`has_account`), as in files, only together with the account of an earlier run.
    """
    names = list(given) if isinstance(given, Mapping) else columns_of(given)
    if into in names and into == (column if column is not None else names[0]):
        raise SourceError(f"into: {into!r} is the column of texts itself: give another name for the vectors")
    beside = [f"{into}_{name}" for name in ACCOUNT] if has_account else []
    if into in names and all(name in names for name in beside) and _holds_vectors(given, into):
        return
    taken = next((name for name in (into, *beside) if name in names), None)
    if taken is not None:
        made = f" (a column {into!r} brings {beside[0]!r} and others)" if taken != into else ""
        raise SourceError(
            f"into: there is a column {taken!r} already, which no earlier run has made{made}: give another name than "
            f"{into!r}, or drop that column first"
        )


def _holds_vectors(given: object, name: str) -> bool:
    """Whether the first cell that is no null is a vector; true where all are null."""
    if isinstance(given, Mapping):
        return all(map(_is_vector, given[name][:1]))
    pieces = open_source(given, name, _PEEK, keep_tables=False).pieces
    cells = (cell for piece in pieces for cell in piece.cells if not is_null(cell))
    return all(map(_is_vector, itertools.islice(cells, 1)))


def _is_vector(cell: Any) -> bool:
    numbers = list(cell[:1]) if hasattr(cell, "__len__") and not isinstance(cell, str | bytes | dict) else []
    return "float" in "".join(type(number).__name__ for number in numbers)
