"""What a route costs: its configured price, else the bundled table, which names its date and source."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from shim.config import ProviderConfig, RouteConfig


@dataclass(frozen=True, slots=True)
class RoutePrice:
    """US dollars per million tokens, and who says so. 0 for what runs on one's own machines."""

    per_million: float
    source: str

    @property
    def per_token(self) -> float:
        return self.per_million / 1e6


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("prices.toml").read_text())


def price_of(route: RouteConfig, provider: ProviderConfig) -> RoutePrice | None:
    """The price of a route; None where nobody knows it."""
    if route.price is not None:
        return RoutePrice(route.price.input, "the configuration")
    table = _table()
    known = table.get(provider.preset)
    if isinstance(known, dict) and route.model in known:
        return RoutePrice(float(known[route.model]), f"{table['source']}, {table['date']}")
    if provider.is_private or provider.base_url.startswith("local:"):
        return RoutePrice(0.0, "nothing is paid for what runs here or at a private address")
    return None
