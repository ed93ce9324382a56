"""What the caller of a job chose, checked when the job is made: every mistake names the argument and what it takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TypeVar

from shim.embed.identity import Oversize
from shim.events import JobProgress

Choice = TypeVar("Choice", bound=Enum)
INPUT_TYPES = ("document", "query", "")
DTYPES = ("float32", "float16")


class OnError(str, Enum):
    """What failed rows mean for the caller."""

    NULL = "null"
    RAISE = "raise"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Arguments of `client.embed`, which documents them."""

    dimensions: int | None = None
    input_type: str = "document"
    oversize: Oversize = Oversize.ERROR
    normalise: bool = False
    batch_size: int | None = None
    concurrency: int = 8
    patience: float = 300.0
    on_error: OnError = OnError.NULL
    max_error_rate: float | None = None
    limit_usd: float | None = None
    limit_rows: int | None = None
    dtype: str = "float32"
    store: Path | None = None
    fresh: bool = False
    progress: bool | Callable[[JobProgress], Any] | None = None


def settings(**given: Any) -> Settings:
    """The settings of a job. Raises ValueError, which names the argument, the value and what is allowed."""
    values = {name: value for name, value in given.items() if value is not None}
    for name in ("dimensions", "batch_size", "concurrency", "limit_rows"):
        _whole(name, values)
    for name in ("patience", "limit_usd", "max_error_rate"):
        _number(name, values)
    if values.get("max_error_rate", 0) > 1:
        raise ValueError(f"max_error_rate: a share from 0 to 1, not {values['max_error_rate']!r}")
    values["oversize"] = _one_of(Oversize, "oversize", values.get("oversize", Oversize.ERROR))
    values["on_error"] = _one_of(OnError, "on_error", values.get("on_error", OnError.NULL))
    _member("input_type", values, INPUT_TYPES)
    _member("dtype", values, DTYPES)
    if "store" in values:
        values["store"] = Path(values["store"]).expanduser()
    return Settings(**values)


def _whole(name: str, values: dict[str, Any]) -> None:
    value = values.get(name, 1)
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:  # NumPy's as well
        raise ValueError(f"{name}: a whole number of at least 1, not {value!r}")
    if name in values:
        values[name] = int(value)


def _number(name: str, values: dict[str, Any]) -> None:
    value = values.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) < float("inf"):
        raise ValueError(f"{name}: a number of at least 0, not {value!r}")
    if name in values:
        values[name] = float(value)


def _one_of(kind: type[Choice], name: str, value: object) -> Choice:
    try:
        return kind(value)
    except ValueError:
        raise ValueError(f"{name}: one of {', '.join(repr(one.value) for one in kind)}, not {value!r}") from None


def _member(name: str, values: dict[str, Any], allowed: tuple[str, ...]) -> None:
    if name in values and values[name] not in allowed:
        raise ValueError(f"{name}: one of {', '.join(map(repr, allowed))}, not {values[name]!r}")
