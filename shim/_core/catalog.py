"""Which family and routes a model name means. Built once from a configuration; pure and read-only after that."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches

from shim.config import Config, FamilyConfig, ProviderConfig, RouteConfig
from shim.events import Kind


@dataclass(frozen=True, slots=True)
class Resolution:
    """A family, and the one provider that a name such as `family/provider` pins (None: any)."""

    family: FamilyConfig
    pinned: str | None = None


class Catalog:
    """`resolve` answers from a table that holds every name a configuration gives to a family or a route."""

    __slots__ = ("_names", "config")

    def __init__(self, config: Config) -> None:
        self.config = config
        self._names: dict[tuple[Kind, str], Resolution] = {}
        for family in config.families.values():
            for name in self._names_of(family):
                self._names.setdefault((family.kind, name), Resolution(family))
            for route in family.routes:
                pin = Resolution(family, route.provider)
                self._names.setdefault((family.kind, f"{family.name}/{route.provider}"), pin)
        for kind, default in ((Kind.CHAT, config.default_chat), (Kind.EMBEDDING, config.default_embedding)):
            if default is not None:
                for name in ("", "auto"):
                    self._names[kind, name] = Resolution(config.families[default])

    @staticmethod
    def _names_of(family: FamilyConfig) -> list[str]:
        return [family.name, *family.aliases, *(route.model for route in family.routes)]

    def resolve(self, model: str, kind: Kind) -> Resolution | None:
        """The family that `model` belongs to for calls of this kind, None when it is none of ours."""
        return self._names.get((kind, model))

    def provider(self, route: RouteConfig) -> ProviderConfig:
        return self.config.providers[route.provider]

    def closest(self, model: str, kind: Kind) -> list[str]:
        """Names of this kind that are nearest to `model`, for messages."""
        return get_close_matches(model, [name for its_kind, name in self._names if its_kind is kind], n=3)

    @property
    def is_empty(self) -> bool:
        return not self._names
