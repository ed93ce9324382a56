"""Expands `[providers.*]`: presets, base URLs and keys, into the schema."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field

from shim._addresses import LOCAL, check_base_url
from shim._config.keys import Keys, preset_keys, written_keys
from shim._config.presets import ProviderPreset, presets
from shim._config.problems import Problems, at, did_you_mean, nearest, show
from shim._config.variables import fill, of_another_tool, resolve
from shim.config import Auth, ProviderConfig, Wire

_NAME = re.compile(r"[A-Za-z0-9._-]+")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110 section 5.6.2
_SECRET = ("api_key", "api_keys", "headers", "query")
_CUSTOM = ProviderPreset(name="", needs_key=False)


class _Written(BaseModel):
    """A provider as it is written."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, coerce_numbers_to_str=True)

    preset: str | None = None
    base_url: str = ""
    api_key: object = Field(default=None, repr=False)
    api_keys: object = Field(default=None, repr=False)
    headers: dict[str, str] = Field(default_factory=dict, repr=False)
    query: dict[str, str] = Field(default_factory=dict, repr=False)
    enabled: bool = True
    auth: Auth | None = None
    wire: Wire | None = None
    forward_headers: tuple[str, ...] = ()
    allow_insecure: bool = False
    needs_key: bool | None = None


def preset_of(name: str, raw: object) -> str:
    """The preset that a provider is made from: the one it names, else the one of its own name, else ""."""
    named = raw.get("preset") if isinstance(raw, Mapping) else None
    chosen = named if isinstance(named, str) else name
    return chosen if chosen in presets().providers else ""


def expand_provider(name: str, raw: object, environ: Mapping[str, str], problems: Problems) -> ProviderConfig | None:
    """The provider in the schema, or None and what is wrong with it noted."""
    path = at("providers", name)
    if not _NAME.fullmatch(name):
        problems.add(path, f"provider name {name!r} may hold letters, digits, '.', '_' and '-' alone")
    if not isinstance(raw, Mapping):
        problems.add(path, "must be a table")
        return None
    # A disabled provider may lie there without the variables that it would need.
    report = problems.add if raw.get("enabled") is not False else _ignore
    rest = {key: value for key, value in raw.items() if key not in {"api_key", "api_keys"}}
    filled = fill(rest, path, environ, report)
    if not isinstance(filled, dict):  # pragma: no cover - fill keeps the shape
        return None
    written = problems.build(_Written, filled, path, raw, secret=_SECRET)
    if written is None:
        return None
    if written.preset and written.preset not in presets().providers:
        word = f"unknown preset {show(written.preset)}"
        problems.add(at(path, "preset"), word + nearest(written.preset, presets().providers, "available"))
        return None
    _check_headers(written, path, problems)
    return _assemble(name, written, raw, environ, problems)


def _ignore(_path: str, _text: str) -> None:
    """Stands in for noting a problem."""


def _assemble(
    name: str, written: _Written, raw: Mapping[str, object], environ: Mapping[str, str], problems: Problems
) -> ProviderConfig:
    path = at("providers", name)
    preset = presets().providers.get(preset_of(name, raw), _CUSTOM)
    auth, wire = written.auth or preset.auth, written.wire or preset.wire
    base_url = _base_url(name, written, preset, raw, environ, problems)
    keys = _keys(written, preset, base_url, raw, path, environ, problems)
    needs_key = keys.is_written or preset.needs_key if written.needs_key is None else written.needs_key
    if auth == "none":
        needs_key = False
    if auth == "none" and keys.is_written:
        problems.add(at(path, "auth"), "is 'none' but a key is written; remove one of the two")
    if written.auth not in {None, "none"} and not needs_key and not preset.name:
        problems.add(at(path, "api_key"), f"is missing; auth = '{written.auth}' sends one")
    values = written.model_dump(include={"enabled", "forward_headers", "allow_insecure", "headers", "query"})
    return ProviderConfig.model_validate(
        {
            **values,
            "name": name,
            "preset": preset.name,
            "base_url": base_url,
            "keys": keys.usable,
            "auth": auth,
            "wire": wire,
            "needs_key": needs_key,
            "missing": keys.missing if needs_key and not keys.usable else "",
        }
    )


def _base_url(
    name: str,
    written: _Written,
    preset: ProviderPreset,
    raw: Mapping[str, object],
    environ: Mapping[str, str],
    problems: Problems,
) -> str:
    path = at("providers", name, "base_url")
    if not written.base_url and "base_url" not in raw and preset.base_url:
        if written.enabled:
            return str(fill(preset.base_url, path, environ, problems.add))
        return resolve(preset.base_url, environ).text
    as_written = resolve(str(raw.get("base_url", "")), environ)
    if as_written.missing or as_written.is_malformed:
        return ""  # told already, or disabled
    if not written.base_url:
        way_out = f"'{name}' is no preset{did_you_mean(name, presets().providers)}"
        if preset.name:
            way_out = f"preset '{preset.name}' needs it, such as {preset.example or preset.base_url}"
        problems.add(path, f"is missing; {way_out}")
        return ""
    if written.base_url == LOCAL and preset.name == "local":
        return LOCAL
    return _checked_url(written, written.wire or preset.wire, path, problems)


def _checked_url(written: _Written, wire: str, path: str, problems: Problems) -> str:
    placeholders = frozenset({"model"}) if wire == "azure" else frozenset[str]()
    url, wrong = check_base_url(written.base_url, allow_insecure=written.allow_insecure, placeholders=placeholders)
    if wrong:
        problems.add(path, wrong)
        return ""
    # Azure's console shows the bare resource; its OpenAI-shaped API lies under /openai/v1.
    return url + "/openai/v1" if wire == "azure" and not urlsplit(url).path else url


def _keys(
    written: _Written,
    preset: ProviderPreset,
    base_url: str,
    raw: Mapping[str, object],
    path: str,
    environ: Mapping[str, str],
    problems: Problems,
) -> Keys:
    keys = written_keys(raw, path, environ, problems)
    if keys.is_written or not preset.key_variables or not written.enabled or written.auth == "none":
        return keys
    elsewhere = bool(preset.base_url and base_url) and urlsplit(base_url).netloc != urlsplit(preset.base_url).netloc
    if elsewhere and written.needs_key is not False:
        variable = preset.key_variables[0]
        problems.add(
            at(path, "api_key"),
            f"is missing; base_url is not {preset.name}'s own, so {variable} is not sent there unasked: "
            f'write api_key = "${{{variable}}}", or auth = "none"',
        )
    return keys if elsewhere else preset_keys(preset.key_variables, path, environ, problems)


def _check_headers(written: _Written, path: str, problems: Problems) -> None:
    for key, value in written.headers.items():
        if not _TOKEN.fullmatch(key):
            problems.add(at(path, "headers", key), "is not a header name (RFC 9110 section 5.6.2)")
        if any((ord(char) < 0x20 and char != "\t") or ord(char) == 0x7F or ord(char) > 0xFF for char in value):
            problems.add(at(path, "headers", key), "'***' holds characters that no header can carry")
    for table, values in (("headers", written.headers), ("query", written.query)):
        for key, value in values.items():
            if wrong := of_another_tool(value):
                problems.add(at(path, table, key), f"'***' {wrong}")
    for index, key in enumerate(written.forward_headers):
        if not _TOKEN.fullmatch(key):
            problems.add(at(path, "forward_headers", index), f"{key!r} is not a header name (RFC 9110 section 5.6.2)")
