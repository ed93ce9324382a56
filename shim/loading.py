"""Reads a configuration from a mapping, a TOML file, a LiteLLM YAML file or where one is expected to lie."""

from __future__ import annotations

import copy
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from shim._config.checks import check_defaults, check_fallbacks, check_wires, check_words
from shim._config.families import Surroundings, expand_family
from shim._config.problems import Problems
from shim._config.providers import expand_provider, preset_of
from shim._config.variables import fill
from shim.config import Config, PolicyConfig
from shim.config_error import ConfigError
from shim.discovery import find
from shim.events import Kind


class _Written(BaseModel):
    """A configuration as it is written."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    default_chat: str | None = None
    default_embedding: str | None = None
    providers: dict[str, object] = Field(default_factory=dict, repr=False)
    families: dict[str, object] = Field(default_factory=dict)
    policy: dict[str, object] = Field(default_factory=dict)


def load(source: Mapping[str, object] | str | os.PathLike[str], *, environ: Mapping[str, str] | None = None) -> Config:
    """The configuration in a mapping or a file (`.toml`, `pyproject.toml`, or a LiteLLM `.yaml`).

    `environ` is where `${VAR}` is read, by default the process's environment. Raises ConfigError with every problem
    found, a line each, and ImportError for YAML without PyYAML.
    """
    variables = os.environ if environ is None else environ
    if isinstance(source, Mapping):
        return _build(source, variables, "", ())
    path = Path(source).expanduser()
    mapping, notes = _read(path)
    return _build(mapping, variables, str(path), notes)


def discover(
    cwd: str | os.PathLike[str] | None = None,
    environ: Mapping[str, str] | None = None,
    home: str | os.PathLike[str] | None = None,
) -> Config | None:
    """The configuration of this place, or None where there is none.

    The first of: the file that `$SHIM_CONFIG` names, `shim.toml`, `[tool.shim]` in `pyproject.toml`,
    `$XDG_CONFIG_HOME/shim/config.toml`, `~/.config/shim/config.toml`. Raises ConfigError as `load` does.
    """
    path = find(cwd, environ, home)
    return None if path is None else load(path, environ=environ)


def _read(path: Path) -> tuple[Mapping[str, object], tuple[str, ...]]:
    try:
        text = path.read_text(encoding="utf-8-sig")  # some editors begin a file with a byte order mark
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is not UTF-8 text") from None
    match path.suffix.lower():
        case ".toml":
            return _toml(path, text), ()
        case ".yaml" | ".yml":
            from shim._config.litellm import convert_text

            mapping, notes = convert_text(text, str(path))
            return mapping, tuple(notes)
    raise ConfigError(f"{path}: unknown kind of file; allowed: .toml, and .yaml or .yml as LiteLLM writes them")


def _toml(path: Path, text: str) -> Mapping[str, object]:
    try:
        document: dict[str, object] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: is not TOML: {error}") from None
    if path.name != "pyproject.toml":
        return document
    tool = document.get("tool")
    table = tool.get("shim") if isinstance(tool, dict) else None
    if not isinstance(table, dict):
        raise ConfigError(f"{path}: has no table [tool.shim]")
    return table


def _build(mapping: Mapping[str, object], environ: Mapping[str, str], source: str, notes: tuple[str, ...]) -> Config:
    problems = Problems()
    raw = copy.deepcopy(dict(mapping))
    written = problems.build(_Written, raw, "", raw, secret=("providers",))
    config = _expand(written, raw, environ, problems) if written else None
    problems.raise_if_any(source)
    if config is None:  # pragma: no cover - whatever stops a build has been noted as a problem
        raise ConfigError(f"{source}: cannot be read")
    config = config.model_copy(update={"source": source or "a mapping", "notes": notes})
    config._raw = raw
    return config


def _expand(
    written: _Written, raw: Mapping[str, object], environ: Mapping[str, str], problems: Problems
) -> Config | None:
    providers = {
        name: provider
        for name, table in written.providers.items()
        if (provider := expand_provider(name, table, environ, problems)) is not None
    }
    filled = fill(written.policy, "policy", environ, problems.add)
    policy_table = filled if isinstance(filled, dict) else {}
    policy = problems.build(PolicyConfig, policy_table, "policy", raw.get("policy"))
    around = Surroundings(
        providers={name: preset_of(name, table) for name, table in written.providers.items()},
        policy=policy_table if policy else {},  # a broken [policy] is told once, not again for every family
        environ=environ,
        problems=problems,
    )
    families = {
        name: family
        for name, table in written.families.items()
        if (family := expand_family(name, table, around)) is not None
    }
    names = list(written.families)
    defaults = {Kind.CHAT: written.default_chat, Kind.EMBEDDING: written.default_embedding}
    check_defaults(defaults, families, names, problems)
    check_fallbacks(families, names, problems)
    check_wires(families, providers, problems)
    check_words(families, problems)
    return Config(
        default_chat=written.default_chat,
        default_embedding=written.default_embedding,
        providers=providers,
        families=families,
        policy=policy or PolicyConfig(),
    )
