"""Reads the keys of a provider. A key is never part of a message."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import SecretStr

from shim._config.problems import Problems, at, nearest
from shim._config.variables import of_another_tool, resolve
from shim.config import KeyConfig


@dataclass(frozen=True, slots=True)
class Keys:
    """The usable keys, the variables that are not set, and whether the configuration wrote any key at all."""

    usable: tuple[KeyConfig, ...]
    missing: str
    is_written: bool


def written_keys(raw: Mapping[str, object], path: str, environ: Mapping[str, str], problems: Problems) -> Keys:
    """The keys under `api_key` or `api_keys`. One whose variable is not set is left out."""
    entries = _entries(raw, path, problems)
    keys: list[KeyConfig] = []
    missing: list[str] = []
    for number, (where, entry) in enumerate(entries, start=1):
        key, absent = _one(entry, where, number, environ, problems)
        missing.extend(absent)
        if key is not None and any(key.alias == other.alias for other in keys):
            problems.add(where, f"key {key.alias} is written twice; remove one")
        elif key is not None:
            keys.append(key)
    return Keys(tuple(keys), ", ".join(dict.fromkeys(missing)), bool(entries))


def preset_keys(variables: tuple[str, ...], path: str, environ: Mapping[str, str], problems: Problems) -> Keys:
    """The key in the first of a preset's variables that is set."""
    for variable in variables:
        if variable in environ:
            return Keys(_checked(environ[variable], variable, variable, f"{path}.api_key", problems), "", False)
    return Keys((), " or ".join(variables), False)


def _entries(raw: Mapping[str, object], path: str, problems: Problems) -> list[tuple[str, object]]:
    if "api_key" in raw and "api_keys" in raw:
        problems.add(at(path, "api_keys"), "api_key is written too; write one of the two")
    if "api_key" in raw:
        return [(at(path, "api_key"), raw["api_key"])]
    if "api_keys" not in raw:
        return []
    listed = raw["api_keys"]
    if not isinstance(listed, list | tuple) or not listed:
        problems.add(at(path, "api_keys"), "must be a list of at least one key")
        return []
    return [(at(path, "api_keys", index), entry) for index, entry in enumerate(listed)]


def _one(
    entry: object, path: str, number: int, environ: Mapping[str, str], problems: Problems
) -> tuple[KeyConfig | None, tuple[str, ...]]:
    account: object = None
    if isinstance(entry, Mapping):
        for key in entry.keys() - {"key", "account"}:
            problems.add(at(path, str(key)), f"unknown key '{key}'{nearest(str(key), ['key', 'account'], 'allowed')}")
        account, entry = entry.get("account"), entry.get("key")
    text = entry.get_secret_value() if isinstance(entry, SecretStr) else entry
    if not isinstance(text, str):
        problems.add(path, "must be a string or a table {key, account}, is '***'")
        return None, ()
    if account is not None and (not isinstance(account, str) or not account):
        problems.add(at(path, "account"), "must be a string that is not empty")
    found = resolve(text, environ)
    if found.is_malformed:
        problems.add(path, "has a '${' that names no variable; write $${ for the characters themselves")
        return None, ()
    if found.missing:
        return None, found.missing
    alias = found.alone or f"key{number}"
    checked = _checked(found.text, alias, found.alone, path, problems, account if isinstance(account, str) else "")
    return (checked[0] if checked else None), ()


def _checked(
    key: str, alias: str, variable: str, path: str, problems: Problems, account: str = ""
) -> tuple[KeyConfig, ...]:
    wrong = _wrong_with(key)
    if wrong:
        source = f"the key from {variable}" if variable else "the key '***'"
        problems.add(path, f"{source} {wrong}")
        return ()
    return (KeyConfig(alias=alias, secret=SecretStr(key), account=account or alias),)


def _wrong_with(key: str) -> str:
    """Why a key cannot stand in a header (RFC 9110 section 5.5: visible latin-1, no white space at the ends)."""
    if not key.strip():
        return "is empty; set it or remove it"
    if key != key.strip():
        return "begins or ends with white space; remove it"
    if named := of_another_tool(key):
        return named
    if key.lower().startswith("bearer "):
        return "begins with 'Bearer'; write the key alone"
    if key[0] == key[-1] and key[0] in "'\"":
        return "stands in quotes of its own; remove them"
    if any(ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0 for char in key):
        return "holds control characters; copy it again"
    if any(ord(char) > 0xFF for char in key):
        return "holds characters outside latin-1, which no header can carry; copy it again"
    return ""
