"""Expands `[families.*]`: known families, routes and their defaults, policies merged, into the schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from shim._config.presets import FamilyPreset, presets
from shim._config.problems import Problems, at, did_you_mean, nearest
from shim._config.variables import fill
from shim.config import FamilyConfig, OptionalCount, PolicyConfig, RouteConfig
from shim.events import Kind

_EMBEDDING_ALONE = ("dimensions", "matryoshka", "matryoshka_sizes", "normalised")


class _Written(BaseModel):
    """A family as it is written."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    kind: Kind | None = None
    dimensions: OptionalCount = None
    aliases: tuple[str, ...] = ()
    routes: object = None
    fallback: tuple[str, ...] = ()
    policy: object = None
    matryoshka: bool = False
    matryoshka_sizes: tuple[int, ...] = ()
    normalised: bool | None = None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a family is read against: provider names with their presets, the written [policy], variables, problems."""

    providers: Mapping[str, str]
    policy: Mapping[str, object]
    environ: Mapping[str, str]
    problems: Problems


def expand_family(name: str, raw: object, around: Surroundings) -> FamilyConfig | None:
    """The family in the schema, or None and what is wrong with it noted."""
    path, problems = at("families", name), around.problems
    if not name.strip() or name == "auto" or name != name.strip():
        problems.add(path, f"family name {name!r} is not allowed; 'auto' and \"\" mean the default family")
    if not isinstance(raw, Mapping):
        problems.add(path, "must be a table")
        return None
    filled = fill(raw, path, around.environ, problems.add)
    preset = presets().families.get(name)
    if preset is not None and raw.get("kind", Kind.EMBEDDING) != Kind.EMBEDDING:
        preset = None
    settings = preset.settings if preset else {}
    values = {**settings, **filled} if isinstance(filled, dict) else settings
    written = problems.build(_Written, values, path, raw)
    if written is None:
        return None
    if written.kind is None:
        kinds = ", ".join(kind.value for kind in Kind)
        hint = did_you_mean(name, presets().families)
        problems.add(at(path, "kind"), f"is missing and '{name}' is no known family{hint or ';'} allowed: {kinds}")
        return None
    return _assemble(name, written, written.kind, raw, preset, around)


def _assemble(
    name: str,
    written: _Written,
    kind: Kind,
    raw: Mapping[str, object],
    preset: FamilyPreset | None,
    around: Surroundings,
) -> FamilyConfig | None:
    path, problems = at("families", name), around.problems
    if kind is not Kind.EMBEDDING:
        for key in _EMBEDDING_ALONE:
            if key in raw:
                problems.add(at(path, key), f"is for embedding families alone; this one is of kind {kind.value}")
    routes = _routes(written, kind, raw, path, preset, around)
    policy = _policy(written.policy, path, raw, around)
    if routes is None or policy is None:
        return None
    values = written.model_dump(exclude={"routes", "policy", "aliases", "kind"})
    aliases = dict.fromkeys([*(preset.aliases if preset else ()), *written.aliases])
    return FamilyConfig.model_validate(
        {**values, "name": name, "kind": kind, "routes": routes, "policy": policy, "aliases": tuple(aliases)}
    )


def _policy(written: object, path: str, raw: Mapping[str, object], around: Surroundings) -> PolicyConfig | None:
    if written is not None and not isinstance(written, Mapping):
        around.problems.add(at(path, "policy"), "must be a table")
        return None
    return around.problems.build(
        PolicyConfig, merge(around.policy, written or {}), at(path, "policy"), merge(around.policy, raw.get("policy"))
    )


def merge(below: object, above: object) -> dict[str, object]:
    """Two tables as one: keys of the upper one win, tables inside are merged alike."""
    merged = dict(below) if isinstance(below, Mapping) else {}
    for key, value in above.items() if isinstance(above, Mapping) else ():
        merged[key] = merge(merged.get(key), value) if isinstance(value, Mapping) else value
    return merged


def _routes(
    written: _Written,
    kind: Kind,
    raw: Mapping[str, object],
    path: str,
    preset: FamilyPreset | None,
    around: Surroundings,
) -> tuple[RouteConfig, ...] | None:
    entries, raw_entries = written.routes, raw.get("routes")
    if entries is None and preset is not None:
        entries = raw_entries = _known_routes(preset, around.providers)
        if not entries:
            known = ", ".join(name for name, route in preset.routes.items() if "model" in route)
            around.problems.add(at(path, "routes"), f"no configured provider is known to serve it; known: {known}")
            return None
    if not isinstance(entries, list | tuple) or not entries:
        around.problems.add(at(path, "routes"), "must be a list of at least one route")
        return None
    shown = raw_entries if isinstance(raw_entries, list | tuple) else entries
    built = [
        _route(entry, shown[index], kind, at(path, "routes", index), preset, around)
        for index, entry in enumerate(entries)
    ]
    routes = [route for route in built if route is not None]
    _check_routes(built, path, preset, around)
    return tuple(routes) if len(routes) == len(built) else None


def _known_routes(preset: FamilyPreset, providers: Mapping[str, str]) -> list[object]:
    """A route for each configured provider that is known to serve the family, in the order they are configured."""
    known = [
        (provider, preset.routes[of]["model"])
        for provider, of in providers.items()
        if "model" in preset.routes.get(of, {})
    ]
    return [
        {"provider": provider, "model": model, "priority": priority}
        for priority, (provider, model) in enumerate(known, start=1)
    ]


def _route(
    entry: object, raw: object, kind: Kind, path: str, preset: FamilyPreset | None, around: Surroundings
) -> RouteConfig | None:
    problems = around.problems
    if isinstance(entry, str):
        provider, slash, model = entry.partition("/")
        if not slash or not provider or not model:
            problems.add(path, f"{raw!r} is not of the form 'provider/model'")
            return None
        entry = raw = {"provider": provider, "model": model}
    if not isinstance(entry, Mapping):
        problems.add(path, "must be 'provider/model' or a table")
        return None
    name = str(entry.get("provider", ""))
    defaults = _route_defaults(kind, around.providers.get(name, ""), preset)
    route = problems.build(RouteConfig, {**defaults, **entry}, path, raw)
    if name and name not in around.providers:
        problems.add(at(path, "provider"), _unknown_provider(name, around.providers))
        return None
    return route


def _unknown_provider(name: str, configured: Mapping[str, str]) -> str:
    if name in presets().providers:
        return f"provider '{name}' is not configured; add [providers.{at('', name)}]"
    return f"unknown provider '{name}'" + nearest(name, configured, "configured")


def _route_defaults(kind: Kind, provider: str, family: FamilyPreset | None) -> dict[str, object]:
    if kind is not Kind.EMBEDDING:
        return {}
    of_provider = presets().providers[provider].embedding if provider else {}
    of_family = family.route if family else {}
    # A provider says how it takes a shorter length; a known family that takes none must not be sent one.
    known = family.routes.get(provider, {}) if family else {}
    defaults = {**of_provider, **of_family, **known}
    if family and not family.settings.get("matryoshka"):
        defaults["dimensions_param"] = None
    return defaults


def _check_routes(
    routes: list[RouteConfig | None], path: str, preset: FamilyPreset | None, around: Surroundings
) -> None:
    seen: dict[str, int] = {}
    space = preset.name if preset else ""
    for index, route in enumerate(routes):
        if route is None:
            continue
        where = at(path, "routes", index)
        if route.route in seen:
            around.problems.add(where, f"'{route.route}' is routes[{seen[route.route]}] already; remove one")
        seen.setdefault(route.route, index)
        other = presets().family_for(around.providers.get(route.provider, ""), route.model)
        if other and space and other != space:
            around.problems.add(
                where,
                f"'{route.route}' is a model of '{other}', another vector space than '{space}'; give it its own family",
            )
        space = space or other
