"""Which recording answers a request: method, place and canonical body. Headers, and so keys, play no part.

Two JSON bodies are the same when they mean the same: the order of keys, whitespace, escapes and the spelling of
numbers (`1`, `1.0`, `1e0`) do not matter. A form is compared without its boundary, anything else byte for byte.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterator
from difflib import SequenceMatcher
from typing import Any

from shim.testing.recording import Asked

_BOUNDARY = re.compile(r'boundary="?([^";,\s]+)"?', re.I)
_LONGEST_VALUE = 60
_MOST_DIFFERENCES = 6
_COMPARED = 400  # characters of a body that decide which recording is nearest
_NOT_THERE = object()

Key = tuple[str, str, str, str]


ASPECTS = ("method", "host", "path", "body")
"""What requests are compared by: host is scheme, name and port; path is with its query."""


def key_of(asked: Asked, aspects: Collection[str] = ASPECTS) -> Key:
    """What a request is matched by; "" for each aspect that plays no part."""
    parts = asked.parts
    query = "&".join(sorted(parts.query.split("&"))) if parts.query else ""
    place = (parts.path or "/") + (f"?{query}" if query else "")
    host = f"{parts.scheme}://{parts.netloc}".lower()
    body = canonical_body(asked) if "body" in aspects else ""
    found = dict(zip(ASPECTS, (asked.method.upper(), host, place, body), strict=True))
    method, host, place, body = (found[name] if name in aspects else "" for name in ASPECTS)
    return method, host, place, body


def canonical_body(asked: Asked) -> str:
    """The body as it is compared."""
    document = _document(asked)
    if document is not _NOT_THERE:
        return json.dumps(_plain(document), sort_keys=True, separators=(",", ":"))
    boundary = _BOUNDARY.search(asked.headers.get("content-type", ""))
    body = asked.body.replace(boundary[1].encode(), b"boundary") if boundary else asked.body
    return body.decode("utf-8", "surrogateescape")


def differences(asked: Asked, recorded: Asked, aspects: Collection[str] = ASPECTS) -> list[str]:
    """What differs between a request and a recorded one, in words, the weightiest first."""
    found = []
    now, then = key_of(asked, aspects), key_of(recorded, aspects)
    for name, left, right in zip(ASPECTS[:3], now, then, strict=False):
        if left != right:
            found.append(f"{name}: {left} now, {right} recorded")
    if now[3] != then[3]:
        found += _body_differences(asked, recorded)
    return found


def distance(asked: Asked, recorded: Asked) -> tuple[int, int, float]:
    """How far a recorded request is from one: sortable, nearest first."""
    now, then = key_of(asked), key_of(recorded)
    elsewhere = sum(left != right for left, right in zip(now[:3], then[:3], strict=True))
    alike = SequenceMatcher(None, now[3][:_COMPARED], then[3][:_COMPARED], autojunk=False).ratio()
    return elsewhere, len(differences(asked, recorded)), -alike


def _document(asked: Asked) -> Any:
    try:
        return json.loads(asked.body)
    except (ValueError, RecursionError):
        return _NOT_THERE


def _plain(value: Any) -> Any:
    """Numbers that are equal become the same number."""
    if isinstance(value, float):
        return int(value) if math.isfinite(value) and value == int(value) else value
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value


def _body_differences(asked: Asked, recorded: Asked) -> list[str]:
    now, then = _document(asked), _document(recorded)
    if now is _NOT_THERE or then is _NOT_THERE:
        return [f"body: {len(asked.body)} bytes now, {len(recorded.body)} bytes recorded"]
    found = [f"{place}: {left} now, {right} recorded" for place, left, right in unlike(now, then)]
    if len(found) > _MOST_DIFFERENCES:
        found[_MOST_DIFFERENCES:] = [f"… and {len(found) - _MOST_DIFFERENCES} more places of the body"]
    return found


def unlike(left: Any, right: Any) -> Iterator[tuple[str, str, str]]:
    """The places where two JSON documents differ, with what stands there, shortened."""
    for place, now, then in _unlike("body", left, right):
        yield place, _shown(now), _shown(then)


def _unlike(place: str, now: Any, then: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(now, dict) and isinstance(then, dict):
        for name in [*then, *(name for name in now if name not in then)]:
            yield from _unlike(f"{place}.{name}", now.get(name, _NOT_THERE), then.get(name, _NOT_THERE))
    elif isinstance(now, list) and isinstance(then, list):
        for index in range(max(len(now), len(then))):
            yield from _unlike(
                f"{place}[{index}]", *(side[index] if index < len(side) else _NOT_THERE for side in (now, then))
            )
    elif _plain(now) != _plain(then) or isinstance(now, bool) is not isinstance(then, bool):
        yield place, now, then


def _shown(value: Any) -> str:
    if value is _NOT_THERE:
        return "absent"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + "…"
