"""Reads the vector-space references that routers keep on disk: who set a space, and how near the others are to it."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

from shim.config import Config, FamilyConfig, RouteConfig


@dataclass(frozen=True, slots=True)
class KeptSpace:
    """One kept reference. `figures` are noise over separation by route; 0 for the one that set the space.

    `name` is family, length and input type. `set_by` is a route, or the endpoint where no route of today is it.
    """

    name: str
    set_by: str
    figures: dict[str, float]


def folder() -> Path | None:
    """Where routers of this environment keep their references; None where they keep them in memory alone."""
    named = os.environ.get("SHIM_CACHE_DIR")
    if named is not None:
        return Path(named) / "spaces" if named else None
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "shim" / "spaces"


def kept_spaces(config: Config, family: FamilyConfig) -> list[KeptSpace]:
    """The kept spaces of a family that hold at least one of its routes. A file that cannot be read is passed over."""
    place = folder()
    if place is None or not place.is_dir():
        return []
    routes = {route.route: _endpoint(config, route) for route in family.routes}
    slug = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{family.name} ")
    found = []
    for path in sorted(place.glob("*.json")):
        kept = _read(path, routes) if path.name.startswith(slug) else None
        if kept is not None and kept.figures:
            found.append(kept)
    return found


def figure_of(spaces: list[KeptSpace], route: str) -> tuple[float, bool] | None:
    """The worst figure of a route over its spaces, and whether it set all of them; None where it is in none."""
    known = [space for space in spaces if route in space.figures]
    if not known:
        return None
    return max(space.figures[route] for space in known), all(space.set_by == route for space in known)


def _endpoint(config: Config, route: RouteConfig) -> str:
    return f"{config.providers[route.provider].base_url} {route.model}"


def _read(path: Path, routes: dict[str, str]) -> KeptSpace | None:
    try:
        document = json.loads(path.read_bytes())
        members = {str(endpoint): float(figure) for endpoint, figure in document["members"].items()}
        set_by = str(document["set_by"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    figures = {route: members[endpoint] for route, endpoint in routes.items() if endpoint in members}
    setter = next((route for route, endpoint in routes.items() if endpoint == set_by), set_by)
    return KeptSpace(path.name.removesuffix(".json").rpartition(".")[0], setter, figures)
