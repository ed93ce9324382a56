"""What a job comes to, before (an estimate, nothing sent) and after (a summary): good to read, easy to take apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.4f}" if abs(value) < 1 else f"{value:,.2f}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_shown(one)}" for name, one in value.items()) or "none"
    if isinstance(value, tuple):
        return "; ".join(value)
    return "unknown" if value is None else str(value)


def counted(number: int, noun: str) -> str:
    """`1 row`, `2,000 rows`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


class _Report:
    """Fields one below the other."""

    def __str__(self) -> str:
        rows = [(one.name.replace("_", " "), getattr(self, one.name)) for one in fields(self)]  # type: ignore[arg-type]
        rows = [(name, value) for name, value in rows if value not in ("", ())]
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {_shown(value)}" for name, value in rows)

    __repr__ = __str__


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class Summary(_Report):
    """What a job did. Counts of rows, unless they say otherwise; `cost` is US dollars, None where a price is unknown;
    `retries` are batches that were sent again, `splits` batches that were halved to find a bad row."""

    state: str
    family: str
    rows: int
    done: int
    failed: int
    not_reached: int
    duplicates: int
    cached: int
    embedded: int
    requests: int
    retries: int
    splits: int
    hedges: int
    space_checks: int
    tokens: int
    cost: float | None
    price_source: str
    seconds: float
    rows_per_second: float
    shares: Mapping[str, float]
    errors: Mapping[str, int]
    store: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteEstimate:
    """What all of a job would take on one route alone. `seconds` None where its latency is not known yet."""

    route: str
    requests: int
    cost: float | None
    price_source: str
    seconds: float | None

    def __str__(self) -> str:
        cost = "price unknown" if self.cost is None else f"${self.cost:,.4f} ({self.price_source})"
        time = "time unknown" if self.seconds is None else f"about {self.seconds:,.0f} s"
        return f"{counted(self.requests, 'request')}, {cost}, {time}"


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class Estimate(_Report):
    """What a job would do. `to_embed` are distinct texts that the store does not have; tokens are counted where the
    vocabulary is installed, else bounded by bytes (`tokens_are` says which). `errors` are the bad rows by kind, and
    `reasons` the first of each kind: its row and what is wrong with it."""

    family: str
    rows: int
    bad: int
    errors: Mapping[str, int]
    duplicates: int
    cached: int
    oversize: int
    to_embed: int
    tokens: int
    tokens_are: str
    requests: int
    cost: float | None
    seconds: float | None
    routes: Mapping[str, RouteEstimate]
    store: str
    reasons: Sequence[str] = ()
