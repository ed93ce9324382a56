"""Reads a provider's error object, whatever its shape, into one: codes, status, message, parameter."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

_DEEPEST = 6
_CODE_KEYS = ("code", "type", "status", "error_type", "reason")
_STATUS_KEYS = ("code", "status", "status_code", "raw_status_code", "statusCode")
_TEXT_KEYS = ("message", "msg", "detail", "title", "error_description", "reason")
_INNER_KEYS = ("error", "innererror", "details", "metadata", "errors", "detail")
_PARAMETER = re.compile(r"[A-Za-z_][\w.\[\]-]{0,80}")
LONGEST_MATCHED = 4000
"""Characters of a message that are searched: what matters stands at the front."""
_NAME = r"['\"`]?([A-Za-z_](?:[\w.-]*\w)?)['\"`]?"
_REJECTED = (
    re.compile(
        rf"(?:unknown|unsupported|unrecogni[sz]ed) (?:parameter|field|name|request argument supplied):? {_NAME}", re.I
    ),
    re.compile(rf"does not support (?:the )?parameter:? {_NAME}", re.I),
    re.compile(rf"unexpected keyword argument {_NAME}", re.I),
    re.compile(rf"Extra inputs are not permitted: {_NAME}", re.I),
    re.compile(r"(?<![\w])([A-Za-z_]\w{0,60}): Extra inputs are not permitted", re.I),
    re.compile(r"extra_forbidden.{0,40}?loc\W+body\W+([A-Za-z_]\w*)", re.I),
)
_REJECTING_CODES = frozenset({"unsupported_parameter", "unsupported_value", "unknown_parameter"})
_ADDED = re.compile(r"(?<![\w-])(?:(encoding[_ ]format)s?|(stream_options))(?![\w-])", re.I)
"""Parameters that the SDKs add of themselves: a refusal that speaks of one means it, whatever its words."""
_MATRYOSHKA = re.compile(r"\bmatryoshka\b", re.I)


@dataclass(frozen=True, slots=True)
class Envelope:
    """An error as its provider worded it: `words` are its codes and types, lower case, `forbidden` an unknown field."""

    words: frozenset[str]
    status: int | None
    message: str
    param: str | None = None
    forbidden: str | None = None


def parse_json(body: bytes) -> object:
    """The parsed body; None for what is no JSON. Leading whitespace is fine; nothing is raised."""
    try:
        parsed: object = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return _parse_leniently(body)
    return parsed


def _parse_leniently(body: bytes) -> object:
    """With lone surrogates and NaN, which msgspec refuses and real servers send."""
    try:
        parsed: object = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return parsed


def read_envelope(value: object, *, failed: bool) -> Envelope | None:
    """The error that `value`, a parsed body, tells of; None when it is no error.

    `failed` says that the status was an error already: then top-level `message`, `detail` and the like are one as well,
    which in a success would be content.
    """
    core = _core(value, failed)
    if core is None:
        return None
    nodes = list(_nodes(core, 0))
    param = next((text for node in nodes if (text := _text(node.get("param")))), None)
    texts = [text for node in nodes for text in _texts(node)]
    if param and not _PARAMETER.fullmatch(param):
        texts.append(param)
    return Envelope(
        words=frozenset(word for node in nodes for word in _words(node)),
        status=next((found for node in nodes for found in _statuses(node)), None),
        message=": ".join(dict.fromkeys(texts)),
        param=param if param and _PARAMETER.fullmatch(param) else None,
        forbidden=next((name for node in nodes if (name := _forbidden(node))), None),
    )


def _core(value: object, failed: bool) -> dict[str, object] | None:
    """The object to read, as a dict whose `error` may hold the rest."""
    if isinstance(value, list):
        return next((core for item in value[:3] if (core := _core(item, failed)) is not None), None)
    if not isinstance(value, dict):
        return {"message": value} if failed and isinstance(value, str) and value else None
    if value.get("error") or value.get("errors") or value.get("object") == "error" or value.get("type") == "error":
        return value
    response = value.get("response")
    if isinstance(response, dict) and response.get("error"):
        return {"error": response["error"]}
    return value if failed and value else None


def _nodes(node: dict[str, object], depth: int) -> Iterator[dict[str, object]]:
    """The error object and those inside it, outermost first; a relayed body (`metadata.raw`) is opened."""
    yield node
    if depth >= _DEEPEST:
        return
    inner = [node.get(key) for key in _INNER_KEYS]
    raw = node.get("raw")
    if isinstance(raw, str):
        inner.append(parse_json(raw.encode("utf-8", "replace")))
    for value in inner:
        for item in value[:20] if isinstance(value, list) else [value]:
            if isinstance(item, dict):
                yield from _nodes(item, depth + 1)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def _texts(node: dict[str, object]) -> Iterator[str]:
    for key in ("error", *_TEXT_KEYS):
        text = _text(node.get(key))
        if text:
            yield f"{_location(node)}{text}" if key == "msg" else text
    for key in ("errors", "detail"):
        listed = node.get(key)
        yield from (item for item in listed[:3] if isinstance(item, str)) if isinstance(listed, list) else ()
    raw = _text(node.get("raw"))
    if raw and not isinstance(parse_json(raw.encode("utf-8", "replace")), dict | list):
        yield raw


def _words(node: dict[str, object]) -> Iterator[str]:
    for key in _CODE_KEYS:
        value = node.get(key)
        if isinstance(value, str) and value:
            yield value[:100].lower()
        elif type(value) is int and abs(value) < 1_000_000:
            yield str(value)


def _statuses(node: dict[str, object]) -> Iterator[int]:
    for key in _STATUS_KEYS:
        value = node.get(key)
        if isinstance(value, str) and len(value) == 3 and value.isascii() and value.isdigit():
            value = int(value)
        if type(value) is int and 400 <= value <= 599:
            yield value


def _location(node: dict[str, object]) -> str:
    """Where pydantic says that it went wrong, as `body.tools.0.type: `; empty when it does not."""
    loc = node.get("loc")
    return ".".join(str(part)[:40] for part in loc[:6]) + ": " if isinstance(loc, list) and loc else ""


def _forbidden(node: dict[str, object]) -> str | None:
    """The field that pydantic refused to know (`extra_forbidden`)."""
    loc = node.get("loc")
    if node.get("type") != "extra_forbidden" or not isinstance(loc, list) or not loc:
        return None
    name = loc[-1]
    return name if isinstance(name, str) and _PARAMETER.fullmatch(name) else None


def rejected_parameter(envelope: Envelope) -> str | None:
    """The request parameter that the provider refused to know or to take; None when it named none."""
    said = envelope.message[:LONGEST_MATCHED]
    if envelope.forbidden is not None:
        return envelope.forbidden
    if envelope.param is not None and not _REJECTING_CODES.isdisjoint(envelope.words):
        return envelope.param
    if _MATRYOSHKA.search(said):
        return "dimensions"
    named = next((found.group(1) for pattern in _REJECTED if (found := pattern.search(said))), None)
    if named is None and (added := _ADDED.search(said)) is not None:
        return "encoding_format" if added.group(1) else "stream_options"
    return named
