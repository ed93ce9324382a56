"""Long vectors in answers, written compactly: length, norm and first numbers to read, base64 of the numbers to keep.

The numbers are exact: 32-bit floats where every number is one, else 64-bit. All around them stays byte for byte; the
numbers themselves are spelt as Python spells them when they are unpacked, which few servers do otherwise.
"""

from __future__ import annotations

import base64
import json
import math
import re
import struct
from typing import Any

_SHORTEST = 16
_NUMBER = r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?"
_VECTOR = re.compile(rf'("embedding"\s*:\s*)\[\s*({_NUMBER}(?:\s*,\s*{_NUMBER}){{{_SHORTEST - 1},}})\s*\]')
_PACKED = re.compile(r'("embedding"\s*:\s*)(\{"packed": "f(?:32|64)", [^{}]*\})')
_SEPARATOR = re.compile(r"\s*,\s*")


def pack(body: str) -> str:
    """The body with every long vector packed."""
    return _VECTOR.sub(lambda match: match[1] + _packed(match[2]), body) if '"embedding"' in body else body


def unpack(body: str) -> str:
    """The body with every packed vector as numbers again. Raises `ValueError` for a packing that is broken."""
    return _PACKED.sub(lambda match: match[1] + _unpacked(match[2]), body) if '{"packed": "f' in body else body


def _packed(numbers: str) -> str:
    found = _SEPARATOR.search(numbers)
    separator = found.group() if found else ","
    values = [float(number) for number in _SEPARATOR.split(numbers)]
    kind = "f" if _fits(values) else "d"
    card = {
        "packed": "f32" if kind == "f" else "f64",
        "length": len(values),
        "norm": round(math.sqrt(sum(value * value for value in values)), 4),
        "starts": [round(value, 4) for value in values[:3]],
        "separator": separator,
        "base64": base64.b64encode(struct.pack(f"<{len(values)}{kind}", *values)).decode(),
    }
    return json.dumps(card)


def _fits(values: list[float]) -> bool:
    try:
        return list(struct.unpack(f"<{len(values)}f", struct.pack(f"<{len(values)}f", *values))) == values
    except OverflowError:
        return False


def _unpacked(text: str) -> str:
    card: dict[str, Any] = json.loads(text)
    kind, size = ("f", 4) if card["packed"] == "f32" else ("d", 8)
    raw = base64.b64decode(card["base64"])
    if len(raw) != card["length"] * size:
        raise ValueError(
            f"a packed vector of {card['length']} numbers has {len(raw)} bytes, not {card['length'] * size}"
        )
    values = struct.unpack(f"<{card['length']}{kind}", raw)
    separator: str = card["separator"]
    return "[" + separator.join(json.dumps(value) for value in values) + "]"
