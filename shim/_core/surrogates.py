"""Finds half a surrogate pair in what is to be sent: it is no text, and the SDK's JSON encoder says only where in the
whole body it stands."""

from __future__ import annotations

import re
from collections.abc import Mapping

_LONE = re.compile("[\ud800-\udfff]")


def place_of(value: object) -> str | None:
    """Words for the first lone surrogate in a request's fields, however deep; None where there is none."""
    left: list[tuple[str, object]] = [("", value)]
    while left:
        path, node = left.pop()
        if isinstance(node, str):
            found = _LONE.search(node)
            if found is not None:
                return (
                    f"{path or 'the body'} holds the lone surrogate U+{ord(found.group()):04X} at character "
                    f"{found.start()}, which is no text: repair it, or replace it by U+FFFD"
                )
        elif isinstance(node, Mapping):
            left += [(f"{path}.{name}" if path else str(name), inner) for name, inner in reversed(list(node.items()))]
        elif isinstance(node, list | tuple):
            left += [(f"{path}[{index}]", inner) for index, inner in reversed(list(enumerate(node)))]
    return None
