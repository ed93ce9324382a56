"""`${VAR}` in strings, with `${VAR:-default}`, and `$${` for the characters themselves."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from shim._config.problems import at

_TOKEN = re.compile(r"\$\$\{|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}|(?P<broken>\$\{)")
_OF_OTHERS = re.compile(
    r"(?:(?:Bearer|Basic)\s+)?"
    r"(?:\$\(?|\$?env:(?://)?|env/|%|\{\{?\s*(?:[a-z]+\.)?|(?:os\.environ|process\.env|ENV)[/.\[]|os\.(?:getenv|environ\.get)\()"
    r"['\"]?(?P<name>[A-Za-z_][A-Za-z0-9_]*)['\"]?\s*(?:%|\}\}?|\)|\])?",
)


@dataclass(frozen=True, slots=True)
class Resolved:
    """A string with its variables filled in.

    `missing` are the variables that are not set (their place is empty). `alone` names the variable that the whole
    string is, if it is one. `is_malformed` tells of a `${` that names nothing.
    """

    text: str
    missing: tuple[str, ...] = ()
    alone: str = ""
    is_malformed: bool = False


def resolve(text: str, environ: Mapping[str, str]) -> Resolved:
    """Fill in the variables of one string. As in a shell, `:-` also replaces an empty value."""
    missing: list[str] = []
    malformed = False

    def fill(match: re.Match[str]) -> str:
        nonlocal malformed
        name, default = match["name"], match["default"]
        if name is None:
            malformed = malformed or match["broken"] is not None
            return "${"
        value = environ.get(name)
        if value or (value is not None and default is None):
            return value
        if default is None:
            missing.append(name)
        return default or ""

    filled = _TOKEN.sub(fill, text)
    whole = _TOKEN.fullmatch(text)
    return Resolved(filled, tuple(dict.fromkeys(missing)), (whole["name"] or "") if whole else "", malformed)


def of_another_tool(text: str) -> str:
    """What a secret says that names a variable as a shell or another tool would: the way out; "" for all others."""
    found = _OF_OTHERS.fullmatch(text.strip())
    if found is None:
        return ""
    name = found["name"] if found["name"].isupper() else "NAME"  # what may be a secret is not repeated
    return f"is the name of a variable, not its value; write ${{{name}}}"


def escape(text: str) -> str:
    """The string that resolves to `text`."""
    return text.replace("${", "$${")


def fill(node: object, path: str, environ: Mapping[str, str], report: Callable[[str, str], None]) -> object:
    """The same tree with the variables of every string filled in; what is missing or malformed is reported by path."""
    if isinstance(node, str):
        found = resolve(node, environ)
        if found.is_malformed:
            report(path, "has a '${' that names no variable; write $${ for the characters themselves")
        for name in found.missing:
            report(path, f"environment variable {name} is not set; set it or write ${{{name}:-default}}")
        return found.text
    if isinstance(node, Mapping):
        return {str(key): fill(value, at(path, str(key)), environ, report) for key, value in node.items()}
    if isinstance(node, list | tuple):
        return [fill(value, at(path, index), environ, report) for index, value in enumerate(node)]
    return node
