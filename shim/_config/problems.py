"""Collects what is wrong with a configuration, one line each: full path, what is wrong, the value, what is allowed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from shim._masking import mask_secrets
from shim.config import NOT_YET_KEYS
from shim.config_error import ConfigError

Model = TypeVar("Model", bound=BaseModel)
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_LONGEST = 80
_BOUNDS = {
    "greater_than": ("above", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("below", "lt"),
    "less_than_equal": ("at most", "le"),
}
_TIMEOUT = ("attempt_timeout", "write attempt_timeout for one attempt, deadline for the whole call")
_OFTEN_MEANT = {"timeout": _TIMEOUT, "request_timeout": _TIMEOUT, "read_timeout": _TIMEOUT, "total_timeout": _TIMEOUT}
"""Keys that look most like one that means something else: a key that tells the table, and what to write."""
_EXPECTED = {
    "float": "a number",
    "int": "a whole number",
    "bool": "true or false",
    "string": "a string",
    "tuple": "a list",
    "list": "a list",
    "dict": "a table",
    "mapping": "a table",
    "model": "a table",
    "finite": "a finite number",
}


def at(path: str, *steps: str | int) -> str:
    """A longer path: `.key`, `."odd.key"` or `[3]` for each step."""
    for step in steps:
        if isinstance(step, int):
            path += f"[{step}]"
        else:
            path += ("." if path else "") + (step if _BARE.fullmatch(step) else f'"{step}"')
    return path


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the nearest known word, else ""."""
    folded = {name.lower(): name for name in known}
    near = get_close_matches(word.lower(), list(folded), n=1, cutoff=0.6)
    return f"; did you mean '{folded[near[0]]}'?" if near else ""


def nearest(word: str, known: Iterable[str], label: str) -> str:
    """The way out of an unknown word: the nearest known one, else all of them."""
    names = list(known)
    return did_you_mean(word, names) or f"; {label}: {', '.join(names) or 'none'}"


def show(value: object) -> str:
    """A value as a message shows it: short, and as TOML would write it where that differs."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, list | tuple):
        return "a list"
    text = mask_secrets(repr(value))
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


class Problems:
    """The problems found so far."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def __bool__(self) -> bool:
        return bool(self._lines)

    def add(self, path: str, text: str) -> None:
        """Note one problem. Its text must not hold a key."""
        line = f"{path}: {text}" if path else text
        if line not in self._lines:
            self._lines.append(line)

    def raise_if_any(self, source: str) -> None:
        """Raise ConfigError with every problem, if there is one."""
        if self._lines:
            heading = [f"in {source}:"] if source else []
            raise ConfigError("\n".join([*heading, *self._lines]))

    def build(
        self, model: type[Model], values: Mapping[str, object], path: str, raw: object, secret: Iterable[str] = ()
    ) -> Model | None:
        """The model made of `values`, or None and its problems noted.

        Values are shown as `raw` has them, so that none tells what a variable held; under a `secret` key, not at all.
        """
        try:
            return model.model_validate(dict(values))
        except ValidationError as error:
            hidden = frozenset(secret)
            for detail in error.errors(include_url=False, include_context=True, include_input=False):
                loc = tuple(detail["loc"])
                found = _dig(raw, loc)
                is_shown = len(loc) == 1 and isinstance(found, list | tuple)  # which tells of no secret
                shown = show(found) if is_shown or not loc or loc[0] not in hidden else "'***'"
                text = _words(model, detail["type"], loc, detail["msg"], detail.get("ctx", {}), shown)
                if not path and is_shown and detail["type"] == "dict_type":
                    text += f"; write [{loc[0]}.NAME] for each, not [[{loc[0]}]]"
                self.add(at(path, *(step for step in loc if step != "[key]")), text)
        return None


def _dig(raw: object, loc: tuple[str | int, ...]) -> object:
    for step in loc:
        known: object = dict(enumerate(raw)) if isinstance(raw, list | tuple) else raw
        if not isinstance(known, Mapping) or step not in known:
            return "…"
        raw = known[step]
    return raw


def _words(
    model: type[BaseModel],
    kind: str,
    loc: tuple[str | int, ...],
    message: str,
    context: Mapping[str, object],
    shown: str,
) -> str:
    if kind == "extra_forbidden":
        return _unknown_key(model, loc)
    if kind in {"literal_error", "enum"}:
        allowed = re.findall(r"'([^']*)'", str(context.get("expected", "")))
        return f"unknown value {shown}{did_you_mean(shown.strip(chr(39)), allowed)} (allowed: {', '.join(allowed)})"
    if kind in _BOUNDS:
        word, key = _BOUNDS[kind]
        return f"must be {word} {context[key]:g}, is {shown}" if key in context else message
    if kind == "missing":
        return "is missing"
    if kind == "string_too_short":
        return "must not be empty"
    if kind == "value_error":
        return message.removeprefix("Value error, ")
    expected = _EXPECTED.get(kind.split("_")[0])
    return f"must be {expected}, is {shown}" if expected else message


def _unknown_key(model: type[BaseModel], loc: tuple[str | int, ...]) -> str:
    key = str(loc[-1])
    if key in NOT_YET_KEYS:
        return f"'{key}' is not available yet; remove it"
    known = _keys_at(model, loc[:-1])
    if (meant := _OFTEN_MEANT.get(key)) and meant[0] in known:
        return f"unknown key '{key}'; {meant[1]}"
    return f"unknown key '{key}'{nearest(key, known, 'allowed')}"


def _keys_at(model: type[BaseModel], loc: tuple[str | int, ...]) -> list[str]:
    for step in loc:
        field = model.model_fields.get(str(step))
        inner = field.annotation if field else None
        for candidate in (inner, *getattr(inner, "__args__", ())):
            if isinstance(candidate, type) and issubclass(candidate, BaseModel):
                model = candidate
                break
    return list(model.model_fields)
