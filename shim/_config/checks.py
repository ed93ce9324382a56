"""What must hold between the parts of a configuration: defaults, fallbacks, and one meaning for every word."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from shim._config.problems import Problems, at, nearest
from shim.config import FamilyConfig, ProviderConfig
from shim.events import Kind


def check_defaults(
    defaults: Mapping[Kind, str | None], families: Mapping[str, FamilyConfig], names: list[str], problems: Problems
) -> None:
    """The default families exist and are of their kind."""
    for kind, name in defaults.items():
        path = f"default_{kind.value}"
        if name is None:
            continue
        if name not in names:
            problems.add(path, f"unknown family '{name}'" + nearest(name, names, "configured"))
        elif name in families and families[name].kind is not kind:
            problems.add(path, f"family '{name}' is of kind {families[name].kind.value}; must be of kind {kind.value}")


def check_fallbacks(families: Mapping[str, FamilyConfig], names: list[str], problems: Problems) -> None:
    """Only chat families fall back, to known chat families, and never in a circle."""
    for name, family in families.items():
        path = at("families", name, "fallback")
        if family.fallback and family.kind is Kind.EMBEDDING:
            problems.add(
                path, "an embedding family may not fall back: another family is another vector space; remove it"
            )
            continue
        if family.fallback and family.kind is not Kind.CHAT:
            problems.add(path, f"only chat families may fall back; this one is of kind {family.kind.value}; remove it")
            continue
        for index, other in enumerate(family.fallback):
            where = at(path, index)
            if other not in names:
                problems.add(where, f"unknown family '{other}'" + nearest(other, names, "configured"))
            elif other in families and families[other].kind is not Kind.CHAT:
                problems.add(where, f"family '{other}' is of kind {families[other].kind.value}; must be of kind chat")
        circle = _circle(name, families)
        if circle:
            problems.add(path, f"goes in a circle: {' -> '.join(circle)}; remove one of them")


def _circle(start: str, families: Mapping[str, FamilyConfig]) -> list[str]:
    """The way from a family back to itself; told once, for the first of its names in the alphabet."""
    paths = [[start]]
    seen: set[str] = set()
    while paths:
        path = paths.pop()
        for after in families[path[-1]].fallback if path[-1] in families else ():
            if after == start:
                return [*path, start] if start == min(path) else []
            if after not in seen:
                seen.add(after)
                paths.append([*path, after])
    return []


def check_wires(
    families: Mapping[str, FamilyConfig], providers: Mapping[str, ProviderConfig], problems: Problems
) -> None:
    """What speaks an embedding API of its own serves embedding families alone."""
    for name, family in families.items():
        for index, route in enumerate(family.routes):
            wire = providers[route.provider].wire if route.provider in providers else "openai"
            if wire in {"cohere", "huggingface"} and family.kind is not Kind.EMBEDDING:
                problems.add(
                    at("families", name, "routes", index, "provider"),
                    f"'{route.provider}' has wire = '{wire}', which is for embeddings alone; "
                    f"this family is of kind {family.kind.value}: use preset '{wire}-chat'",
                )


def check_words(families: Mapping[str, FamilyConfig], problems: Problems) -> None:
    """In one kind, a name, alias, model id or `family/provider` means one family alone."""
    owners: dict[tuple[Kind, str], tuple[str, str]] = {}
    for name, family in families.items():
        for word, role in _words(family):
            owner, as_what = owners.setdefault((family.kind, word), (name, role))
            if owner != name:
                problems.add(
                    at("families", name),
                    f"'{word}' ({role}) also means family '{owner}' ({as_what}); "
                    f"of kind {family.kind.value} it may mean one alone: remove it from one, or join the two",
                )


def _words(family: FamilyConfig) -> Iterator[tuple[str, str]]:
    yield family.name, "its name"
    for alias in family.aliases:
        yield alias, "an alias"
    for model in dict.fromkeys(route.model for route in family.routes):
        yield model, "a model id"
    for provider in dict.fromkeys(route.provider for route in family.routes):
        yield f"{family.name}/{provider}", "family/provider"
