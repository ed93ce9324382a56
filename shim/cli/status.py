"""`shim status`: what a configuration amounts to here and now, without sending anything."""

from __future__ import annotations

from dataclasses import dataclass

from shim.cli import tables
from shim.cli.sources import ConfigOption, JsonOption, config_at, differences
from shim.cli.spaces import KeptSpace, folder, kept_spaces
from shim.config import Config, FamilyConfig, PolicyConfig, ProviderConfig, RouteConfig
from shim.events import Kind

HEALTH = (
    "Health (breakers, cooldowns, latencies) belongs to each running process and is not shown here: "
    "ask router.status() there. `shim check` sends real calls."
)


@dataclass(frozen=True, slots=True)
class ProviderLine:
    """A provider: `state` is ready, no key or off; `keys` are aliases, never keys; `missing` the variable to set."""

    name: str
    state: str
    keys: tuple[str, ...]
    missing: str
    base_url: str


@dataclass(frozen=True, slots=True)
class RouteLine:
    """A route: `state` is ready, or why it cannot serve."""

    family: str
    kind: str
    dimensions: int | None
    route: str
    priority: int
    state: str


def status(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Show what is configured, here and now: providers, keys found or missing, families, routes, policy.

    Sends nothing. Health belongs to each running process and cannot be seen from here.
    """
    found = config_at(config)
    providers = [_provider(provider) for provider in found.providers.values()]
    routes = [_route(found, family, route) for family in found.families.values() for route in family.routes]
    policy = _policies(found)
    spaces = [space for family in _embedding(found) for space in kept_spaces(found, family)]
    if as_json:
        tables.print_json(
            {
                "source": found.source,
                "default_chat": found.default_chat,
                "default_embedding": found.default_embedding,
                "providers": providers,
                "routes": routes,
                "policy": policy,
                "spaces": spaces,
                "notes": found.notes,
            }
        )
        return
    _show(found, providers, routes, policy, spaces)


def _embedding(config: Config) -> list[FamilyConfig]:
    return [family for family in config.families.values() if family.kind is Kind.EMBEDDING]


def _provider(provider: ProviderConfig) -> ProviderLine:
    state = "off" if not provider.enabled else "ready" if provider.is_usable else "no key"
    aliases = tuple(key.alias for key in provider.keys)
    return ProviderLine(provider.name, state, aliases, provider.missing, provider.base_url)


def _route(config: Config, family: FamilyConfig, route: RouteConfig) -> RouteLine:
    provider = config.providers[route.provider]
    if not route.enabled:
        state = "off"
    elif not provider.enabled:
        state = "provider off"
    else:
        state = "ready" if provider.is_usable else "no key"
    return RouteLine(family.name, family.kind.value, family.dimensions, route.route, route.priority, state)


def _policies(config: Config) -> dict[str, object]:
    """What differs from the defaults, and for a family from the configuration's own [policy]."""
    found = {f"policy.{name}": value for name, value in differences(config.policy, PolicyConfig()).items()}
    for family in config.families.values():
        for name, value in differences(family.policy, config.policy).items():
            found[f"families.{family.name}.policy.{name}"] = value
    return found


def _show(
    config: Config,
    providers: list[ProviderLine],
    routes: list[RouteLine],
    policy: dict[str, object],
    spaces: list[KeptSpace],
) -> None:
    out = tables.console()
    out.print(f"Configuration: {config.source}")
    out.print(
        f"auto means: {config.default_embedding or 'nothing'} (embedding), {config.default_chat or 'nothing'} (chat)"
    )
    for note in config.notes:
        out.print(tables.styled(f"Note: {tables.printable(note)}", tables.DOUBT))
    out.print()
    lines = [(line.name, _state(line.state), _keys(line), line.base_url) for line in providers]
    out.print(tables.table(("provider", "state", "key", "base URL"), lines))
    out.print()
    out.print(tables.table(("family and route", "priority", "state"), _rows(routes), right=("priority",)))
    out.print()
    if policy:
        out.print("Policy that differs from the defaults:")
        for name, value in policy.items():
            out.print(f"  {name} = {value}")
    else:
        out.print("Policy: all defaults.")
    _show_spaces(spaces)
    out.print()
    out.print(tables.styled(HEALTH, tables.QUIET))


def _state(word: str) -> tables.Cell:
    return tables.styled(word, tables.GOOD if word == "ready" else tables.QUIET if "off" in word else tables.BAD)


def _keys(line: ProviderLine) -> str:
    if line.keys:
        return ", ".join(line.keys)
    return f"set {line.missing}" if line.missing else "none needed" if line.state != "off" else ""


def _rows(routes: list[RouteLine]) -> list[tuple[tables.Cell, ...]]:
    rows: list[tuple[tables.Cell, ...]] = []
    family = ""
    for line in routes:
        if line.family != family:
            family = line.family
            length = f", {line.dimensions} dimensions" if line.dimensions else ""
            rows.append((tables.styled(f"{family} ({line.kind}{length})", "bold"), "", ""))
        rows.append((f"  {line.route}", str(line.priority), _state(line.state)))
    return rows


def _show_spaces(spaces: list[KeptSpace]) -> None:
    out = tables.console()
    out.print()
    place = folder()
    if not spaces:
        out.print(f"Vector spaces: none kept in {place}." if place else "Vector spaces: kept in memory alone.")
        return
    out.print(f"Vector spaces kept in {place} (noise over separation; up to 0.05 is the same space):")
    out.print()
    rows = [
        (space.name if first else "", route, "set it" if route == space.set_by else f"{figure:.2g}")
        for space in spaces
        for first, (route, figure) in zip([True] + [False] * len(space.figures), space.figures.items(), strict=False)
    ]
    out.print(tables.table(("space", "route", "noise"), rows))
