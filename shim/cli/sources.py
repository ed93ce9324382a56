"""Finds the configuration that a command is about."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shim import loading
from shim.cli.complaints import Complaint
from shim.config import Config, PolicyConfig

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", metavar="PATH", help="The configuration to read; without it the first one found."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for machines instead of tables.")]


def config_at(path: Path | None) -> Config:
    """The configuration in `path`, else the first one found. Raises Complaint where there is none."""
    if path is not None:
        return loading.load(path)
    found = loading.discover()
    if found is None:
        raise Complaint(
            "no configuration found ($SHIM_CONFIG, ./shim.toml, [tool.shim] in ./pyproject.toml, "
            "~/.config/shim/config.toml): write one with `shim init`, or name one with --config PATH"
        )
    return found


def differences(policy: PolicyConfig, usual: PolicyConfig) -> dict[str, object]:
    """The keys of a policy that are not as in `usual`, tables inside written with dots."""
    return dict(_differences(policy.model_dump(), usual.model_dump(), ""))


def _differences(values: dict[str, object], usual: dict[str, object], prefix: str) -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = []
    for name, value in values.items():
        other = usual[name]
        if isinstance(value, dict) and isinstance(other, dict):
            found += _differences(value, other, f"{prefix}{name}.")
        elif value != other:
            found.append((prefix + name, value))
    return found
