"""Looks at one cell of a column: a text to embed, or the reason why there is none. A bad cell is never sent."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum


class ErrorKind(str, Enum):
    """Why a row has no vector."""

    NULL = "null"
    EMPTY = "empty"
    OVERSIZE = "oversize"
    REJECTED = "rejected"
    """The row itself was refused: by us (not a text, characters that no text holds) or by the provider."""
    EXHAUSTED = "exhausted"
    """No route could serve it, however often it was tried."""
    BAD_VECTOR = "bad_vector"
    """What came back for it was no vector: null, zeros, not finite, of another length."""


@dataclass(frozen=True, slots=True)
class RowError:
    """Why a row has no vector. `route` is the last one asked, "" if it was never sent; `attempts` how often it was."""

    kind: ErrorKind
    message: str
    route: str = ""
    attempts: int = 0


_CONTROL = re.compile("[\x00-\x08\x0e-\x1f\x7f]")
_MISSING = frozenset({"NAType", "NaTType", "MaskedConstant"})  # pandas' and NumPy's, by name: they need not be there
_NUMBERS = re.compile(r"float|Decimal|datetime64|timedelta64")

NULL = RowError(ErrorKind.NULL, "the cell is null")
NAN = RowError(ErrorKind.NULL, "the cell is NaN")
EMPTY = RowError(ErrorKind.EMPTY, "the text is empty")
BLANK = RowError(ErrorKind.EMPTY, "the text is white space alone")


def look(cell: object) -> bytes | RowError:
    """The cell's text as UTF-8, or why it cannot be embedded."""
    if not isinstance(cell, str):
        return _not_a_text(cell)
    if not cell or cell.isspace():
        return BLANK if cell else EMPTY
    try:
        encoded = cell.encode()
    except UnicodeEncodeError as error:
        lone = cell[error.start]
        message = (
            f"character {error.start} is the lone surrogate U+{ord(lone):04X}, which is no text: repair or drop it"
        )
        return RowError(ErrorKind.REJECTED, message)
    found = _CONTROL.search(cell)
    if found:
        message = f"character {found.start()} is the control character U+{ord(found[0]):04X}: remove it"
        return RowError(ErrorKind.REJECTED, message)
    return encoded


def is_null(cell: object) -> bool:
    """Whether there is nothing in the cell: None, NaN, pandas' NA and NaT."""
    seen = look(cell)
    return isinstance(seen, RowError) and seen.kind is ErrorKind.NULL


def _not_a_text(cell: object) -> RowError:
    if cell is None:
        return NULL
    name = type(cell).__name__
    if name in _MISSING:
        return RowError(ErrorKind.NULL, f"the cell is {cell!s}")
    if (isinstance(cell, float) or _NUMBERS.match(name)) and bool(cell != cell):  # NumPy's have names of their own
        return NAN
    shown = f"{cell!s:.40}" if isinstance(cell, int | float) else "..."
    return RowError(ErrorKind.REJECTED, f"the cell is no text but {name} ({shown}): convert the column to texts")
