"""Prints the Markdown table of provider presets, made from shim/presets.toml: the one that docs/providers.md holds."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from shim._config.presets import ProviderPreset, presets


def row(name: str, preset: ProviderPreset) -> str:
    """One preset: its name, where its key is looked for, and its base URL."""
    key = " or ".join(f"`{variable}`" for variable in preset.key_variables) or "none needed"
    base = f"`{preset.base_url}`" if preset.base_url else f"must be given, such as `{preset.example}`"
    return f"| `{name}` | {key} | {base} |"


def table() -> str:
    """The whole table, in the order of the file."""
    lines = [row(name, preset) for name, preset in presets().providers.items()]
    return "\n".join(["| preset | key from | base URL |", "|---|---|---|", *lines])


if __name__ == "__main__":
    print(table())
