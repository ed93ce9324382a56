"""The text of a first configuration: the providers found, the families that several of them serve, comments."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from shim import ConfigError, loading
from shim._config.presets import FamilyPreset, ProviderPreset, presets
from shim.local.models import WORDLLAMA

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_MOST_FAMILIES = 12

_HEAD = """\
# How shim routes the calls of `from shim import OpenAI`. Written by `shim init`; yours to change.
# Keys stay in the environment: only the names of their variables stand here.
# After a change: `shim check` asks every route, `shim explain MODEL` shows the plan for a call.
"""

_POLICY = """\
# ---- policy: the defaults, to be changed here or in [families.<name>.policy] ------------------------

# [policy]
# mode = "sequential"        # sequential | hedged | race
# order = "priority"         # priority | round_robin | weighted | fastest | least_busy
# attempt_timeout = 30.0     # seconds for one attempt, body included; unset: 120 for chat, 30 for embeddings
# deadline = 600.0           # seconds for a call, all attempts and waits
# max_retries = 2
"""


@dataclass(frozen=True, slots=True)
class Found:
    """A known provider whose key variable is set. `lacks` says what else it needs, "" when it can be used."""

    name: str
    variable: str
    lacks: str

    @property
    def is_usable(self) -> bool:
        return not self.lacks


def found_providers(environ: Mapping[str, str]) -> list[Found]:
    """The known providers with a key in the environment, in the order of the presets. Keys are checked, never kept."""
    found = []
    for preset in presets().providers.values():
        variable = next((name for name in preset.key_variables if environ.get(name)), None)
        if variable is not None:
            found.append(Found(preset.name, variable, _lacks(preset, environ)))
    return found


def _lacks(preset: ProviderPreset, environ: Mapping[str, str]) -> str:
    if not preset.base_url:
        return f"its base_url must be written by hand, such as {preset.example}"
    missing = [name for name in re.findall(r"\$\{(\w+)\}", preset.base_url) if not environ.get(name)]
    if missing:
        return f"{' and '.join(missing)} must be set too"
    try:
        loading.load({"providers": {preset.name: {}}}, environ=environ)
    except ConfigError as wrong:
        return str(wrong).splitlines()[-1].strip()
    return ""


def toml_for(chosen: list[Found], lacking: list[Found], *, with_local: bool) -> str:
    """The whole file. It loads in the environment that the providers were found in.

    `lacking` are providers that need more than their key: they stand there as comments.
    """
    families = _served(chosen)
    if with_local:
        families[WORDLLAMA.name] = [f"local/{WORDLLAMA.name}"]
    parts = [
        _HEAD,
        _default(families),
        _providers(chosen, lacking, with_local),
        _families(families),
        _chat(chosen),
        _POLICY,
    ]
    return "\n".join(parts)


def _served(chosen: list[Found]) -> dict[str, list[str]]:
    """The known families that at least two of the providers serve, with their routes; most routes first."""
    names = {one.name for one in chosen}
    served = {name: _routes(preset, names) for name, preset in presets().families.items()}
    kept = sorted((name for name in served if len(served[name]) > 1), key=lambda name: -len(served[name]))
    return {name: served[name] for name in kept[:_MOST_FAMILIES]}


def _default(families: dict[str, list[str]]) -> str:
    first = next(iter(families), "")
    return f'default_embedding = {json.dumps(first)}  # what model="auto" means for embeddings\n' if first else ""


def _providers(chosen: list[Found], lacking: list[Found], with_local: bool) -> str:
    lines = [
        "# ---- providers: names of presets, so that base URL, key variable and limits are known ---------------",
        "",
    ]
    for one in chosen:
        preset = presets().providers[one.name]
        use = "" if preset.wire in ("openai", "azure") else "; embeddings alone"
        lines += [f"[providers.{_name(one.name)}]  # key from ${one.variable}{use}"]
    if with_local:
        lines += ["[providers.local]  # a small model in this process: no key, nothing is sent"]
    for one in lacking:
        lines += ["", f"# {one.variable} is set, but {one.lacks}:", f"# [providers.{_name(one.name)}]"]
    lines += [
        "",
        "# Any other OpenAI-compatible service:",
        "# [providers.lab]",
        '# base_url = "http://10.0.0.5:8000/v1"',
        '# api_key = "${LAB_KEY}"',
        "",
    ]
    return "\n".join(lines)


def _families(families: dict[str, list[str]]) -> str:
    lines = [
        "# ---- embedding families: one vector space each; a call never leaves its family ----------------------",
        "",
    ]
    if not any(len(routes) > 1 for routes in families.values()):
        lines += [
            "# No known embedding model is served by two of these providers, so none could stand in for another.",
            "",
        ]
    for name, routes in families.items():
        lines += _family(presets().families[name], routes)
    return "\n".join(lines)


def _family(preset: FamilyPreset, routes: list[str]) -> list[str]:
    length = preset.settings.get("dimensions")
    lines = [f"[families.{_name(preset.name)}]" + (f"  # {length} dimensions" if length else ""), "routes = ["]
    return [*lines, *(f"  {json.dumps(route)}," for route in routes), "]", ""]


def _routes(preset: FamilyPreset, providers: set[str]) -> list[str]:
    return [
        f"{name}/{route['model']}" for name, route in preset.routes.items() if name in providers and "model" in route
    ]


def _chat(chosen: list[Found]) -> str:
    speaking = [one.name for one in chosen if presets().providers[one.name].wire in ("openai", "azure")]
    examples = [f'"{name}/<model>"' for name in speaking[:3]] or ['"<provider>/<model>"']
    return "\n".join(
        [
            "# ---- chat families: models that may stand in for one another; you know best which --------------------",
            "",
            "# [families.fast]",
            '# kind = "chat"',
            f"# routes = [{', '.join(examples)}]   # tried in this order",
            "",
        ]
    )


def _name(name: str) -> str:
    """A TOML key, quoted where it must be."""
    return name if _BARE.fullmatch(name) else json.dumps(name)
