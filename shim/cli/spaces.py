"""Tells of the vector spaces that routers keep on disk: who set a space, and how near the others are to it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from shim import Router
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
        return Path(named).expanduser() / "spaces" if named else None
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "shim" / "spaces"


def kept_spaces(config: Config, family: FamilyConfig) -> list[KeptSpace]:
    """The kept spaces of a family that hold at least one of its routes. A file that cannot be read is passed over."""
    routes = {_endpoint(config, route): route.route for route in family.routes}
    found = []
    for space in Router(config).spaces():
        figures = {route: space.members[endpoint] for endpoint, route in routes.items() if endpoint in space.members}
        if figures and space.key.startswith(f"{family.name} "):
            found.append(KeptSpace(space.key.replace(" ", "-"), routes.get(space.set_by, space.set_by), figures))
    return found


def figure_of(spaces: list[KeptSpace], route: str) -> tuple[float, bool] | None:
    """The worst figure of a route over its spaces, and whether it set all of them; None where it is in none."""
    known = [space for space in spaces if route in space.figures]
    if not known:
        return None
    return max(space.figures[route] for space in known), all(space.set_by == route for space in known)


def _endpoint(config: Config, route: RouteConfig) -> str:
    return f"{config.providers[route.provider].base_url} {route.model}"
