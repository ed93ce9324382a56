"""What differs between two cassettes, recording by recording: after a refresh, or between two servers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from shim.testing.matching import ASPECTS, Key, key_of, unlike
from shim.testing.recording import Asked, Recording

_MOST = 8  # places of a body that are told of one answer
_ANYWHERE = tuple(name for name in ASPECTS if name != "host")


def compared(left: Sequence[Recording], right: Sequence[Recording], *, across_servers: bool = False) -> list[str]:
    """The differences, in words, in the order of `left`; none where both say the same to the same requests.

    Recordings belong together by their requests, equal ones in their order. `across_servers`: whoever was asked, and
    for whichever model.
    """
    key = _key_across if across_servers else key_of
    rest = [(key(one.asked), one) for one in right]
    lines = []
    for number, one in enumerate(left, start=1):
        other = _taken(rest, key(one.asked))
        if other is None:
            lines.append(f"- {number}. {one.asked} ({one.said.status}): only in the first")
        else:
            lines += [f"! {number}. {one.asked}: {line}" for line in _answers(one, other)]
    lines += [f"+ {one.asked} ({one.said.status}): only in the second" for _, one in rest]
    return lines


def _key_across(asked: Asked) -> Key:
    try:
        fields = json.loads(asked.body)
    except ValueError:
        return key_of(asked, _ANYWHERE)
    if isinstance(fields, dict):
        fields.pop("model", None)
    return key_of(replace(asked, body=json.dumps(fields).encode()), _ANYWHERE)


def _taken(rest: list[tuple[Key, Recording]], key: Key) -> Recording | None:
    for place, (its, recording) in enumerate(rest):
        if its == key:
            del rest[place]
            return recording
    return None


def _answers(left: Recording, right: Recording) -> list[str]:
    lines = []
    if left.said.status != right.said.status:
        lines.append(f"status {left.said.status}, then {right.said.status}")
    first, second = dict(left.said.headers), dict(right.said.headers)
    lines += [
        f"header {name}: {first.get(name, 'absent')}, then {second.get(name, 'absent')}"
        for name in dict.fromkeys([*first, *second])
        if first.get(name) != second.get(name)
    ]
    if left.said.body != right.said.body:
        lines += _bodies(left.said.body, right.said.body)
    return lines


def _bodies(left: bytes, right: bytes) -> list[str]:
    try:
        places = [f"{place}: {now}, then {then}" for place, now, then in unlike(json.loads(left), json.loads(right))]
    except ValueError:
        return [f"body of {len(left)} bytes, then of {len(right)}"]
    if len(places) > _MOST:
        places[_MOST:] = [f"… and {len(places) - _MOST} more places of the body"]
    return places
