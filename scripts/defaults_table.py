"""Prints the Markdown table of defaults, made from the schema: the one table that the documentation holds."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from shim.config import (
    FIRST_CHUNK,
    FIRST_CHUNK_PRIVATE,
    QUICK_ATTEMPT,
    SLOW_ATTEMPT,
    SLOW_KINDS,
    PolicyConfig,
    RouteConfig,
)

SLOW = ", ".join(sorted(kind.value for kind in SLOW_KINDS))
IN_WORDS = {
    "policy.attempt_timeout": f"{SLOW_ATTEMPT:g} for {SLOW}; {QUICK_ATTEMPT:g} for the rest",
    "policy.first_chunk_timeout": f"{FIRST_CHUNK:g}; {FIRST_CHUNK_PRIVATE:g} where the base URL is loopback or private",
}
ROUTE_KEYS = ("priority", "weight", "enabled")


def rows(model: type[BaseModel], path: str) -> Iterator[tuple[str, str]]:
    """Each key with its default, tables inside unfolded."""
    for name, field in model.model_fields.items():
        key, default = f"{path}.{name}", field.get_default(call_default_factory=False)
        if isinstance(default, BaseModel):
            yield from rows(type(default), key)
        else:
            yield key, IN_WORDS.get(key) or shown(default)


def shown(value: object) -> str:
    """A default as TOML writes it."""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f'`"{value}"`' if isinstance(value, str) else f"`{value}`"


def table() -> str:
    """The whole table."""
    route = [row for row in rows(RouteConfig, "route") if row[0].rpartition(".")[2] in ROUTE_KEYS]
    lines = [f"| `{key}` | {default} |" for key, default in [*rows(PolicyConfig, "policy"), *route]]
    return "\n".join(["| key | default |", "|---|---|", *lines])


if __name__ == "__main__":
    print(table())
