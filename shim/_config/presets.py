"""Reads `presets.toml`, once and only when asked: the providers and families that need no explaining."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderPreset:
    """A known provider. `base_url` "" means that it must be given; `embedding` are defaults of its embedding routes."""

    name: str
    base_url: str = ""
    key_variables: tuple[str, ...] = ()
    auth: str = "bearer"
    wire: str = "openai"
    needs_key: bool = True
    example: str = ""
    """What a base URL looks like, for providers where it must be given."""
    embedding: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyPreset:
    """A known family: `settings` as a user would write them, defaults of every `route`, and `routes` by preset."""

    name: str
    settings: Mapping[str, object]
    aliases: tuple[str, ...]
    route: Mapping[str, object]
    routes: Mapping[str, Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class Presets:
    """Everything that ships with the package."""

    providers: Mapping[str, ProviderPreset]
    families: Mapping[str, FamilyPreset]
    family_of: Mapping[tuple[str, str], str]
    """Which family a model belongs to: (provider preset, model) → family."""
    named: Mapping[str, str]
    """The same by a model's bare name, wherever it is served: no owner, lower case."""

    def family_for(self, preset: str, model: str) -> str:
        """The known family of a model, "" for one that is not known: as this provider calls it, else by its name.

        A name may have an owner (`BAAI/`), and a tag (`:latest`, or a size as in `:0.6b`).
        """
        bare = _bare(model)
        names = (bare, bare.replace(":", "-"), bare.partition(":")[0])
        found = (self.named[name] for name in names if name in self.named)
        return self.family_of.get((preset, model)) or next(found, "")


def _bare(model: str) -> str:
    return model.lower().rpartition("/")[2]


@lru_cache(maxsize=1)
def presets() -> Presets:
    """The presets, read from the file beside this module on the first call."""
    with Path(__file__).parent.with_name("presets.toml").open("rb") as file:
        document = tomllib.load(file)
    providers = {name: _provider(name, table) for name, table in document["providers"].items()}
    families = {name: _family(name, table) for name, table in document["families"].items()}
    family_of = {
        (provider, str(route["model"])): family.name
        for family in families.values()
        for provider, route in family.routes.items()
        if "model" in route
    }
    named = {
        _bare(name): family.name
        for family in families.values()
        for name in (family.name, *family.aliases, *(str(route.get("model", "")) for route in family.routes.values()))
        if name
    }
    return Presets(providers, families, family_of, named)


def _provider(name: str, table: dict[str, Any]) -> ProviderPreset:
    variables = tuple(table.pop("key_variables", ()))
    return ProviderPreset(name=name, key_variables=variables, **table)


def _family(name: str, table: dict[str, Any]) -> FamilyPreset:
    route, routes, aliases = table.pop("route", {}), table.pop("routes", {}), tuple(table.pop("aliases", ()))
    settings = {"kind": "embedding", **table}
    return FamilyPreset(name=name, settings=settings, aliases=aliases, route=route, routes=routes)
