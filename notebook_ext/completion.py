"""What the tab key offers after `%shim`: commands, then families, routes, providers and faults of the newest router."""

from __future__ import annotations

from typing import Any

from notebook_ext import rehearsals, session

PATTERN = r"^\s*%?shim\b"
_OPTIONS = ("--router", "--family", "--mode", "--freeze", "--times", "--seconds")
_MODES = ("auto", "widget", "table", "text")


def complete(_: Any, event: Any) -> list[str]:
    """IPython's hook. Offers nothing rather than fail."""
    from notebook_ext.magics import COMMANDS

    words = event.line[: len(event.line)].split()
    given = words[1:] if event.line.endswith(" ") or not event.symbol else words[1:-1]
    if not given:
        return list(COMMANDS)
    if given[-1] in ("-m", "--mode"):
        return list(_MODES)
    try:
        router = session.router_of()
    except (ValueError, TypeError):
        return list(_OPTIONS)
    families = list(router.config.families)
    if given[-1] in ("-f", "--family"):
        return families
    routes = [route.route for family in router.config.families.values() for route in family.routes]
    names = list(dict.fromkeys([*routes, *router.config.providers]))
    match given[0]:
        case "explain":
            return ["auto", *families, *routes]
        case "unpin":
            return families
        case "rehearse":
            return list(rehearsals.FAULTS) if len(given) > 1 else [*names, "off"]
        case "reset" | "off" | "on" | "pin":
            return [*names, "--family"] if given[0] == "pin" else names
        case "asyncio":
            return ["on"]
        case _:
            return list(_OPTIONS)
