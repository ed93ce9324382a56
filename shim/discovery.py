"""Finds the configuration of this place. Stands alone: a client without one pays a few looks at the disk, no more."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def find(
    cwd: str | os.PathLike[str] | None = None,
    environ: Mapping[str, str] | None = None,
    home: str | os.PathLike[str] | None = None,
) -> Path | None:
    """The file to read, None where there is none.

    The first of: the file that `$SHIM_CONFIG` names (whether it exists or not), `shim.toml`, `pyproject.toml` with
    `[tool.shim]`, `$XDG_CONFIG_HOME/shim/config.toml`, `~/.config/shim/config.toml`.
    """
    variables = os.environ if environ is None else environ
    here = Path.cwd() if cwd is None else Path(cwd)
    named = variables.get("SHIM_CONFIG", "")
    if named:
        return here / Path(named).expanduser()
    if (here / "shim.toml").is_file():
        return here / "shim.toml"
    if _has_table(here / "pyproject.toml"):
        return here / "pyproject.toml"
    xdg = variables.get("XDG_CONFIG_HOME", "")
    at_home = (Path.home() if home is None else Path(home)) / ".config"
    for folder in ([Path(xdg)] if xdg else []) + [at_home]:
        if (folder / "shim" / "config.toml").is_file():
            return folder / "shim" / "config.toml"
    return None


def _has_table(pyproject: Path) -> bool:
    """Whether there is a [tool.shim]. A broken file that never speaks of it is not ours to complain about."""
    try:
        text = pyproject.read_bytes().decode("utf-8", "replace")
    except OSError:
        return False
    if "shim" not in text:
        return False
    import tomllib

    try:
        return "shim" in tomllib.loads(text).get("tool", {})
    except tomllib.TOMLDecodeError:
        return "[tool.shim" in text
