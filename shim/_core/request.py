"""A caller's request as the engine sees it: read shallowly once, written anew for each attempt.

JSON bodies are decoded one level deep (`msgspec.Raw`), so a body of a thousand texts is renamed without being parsed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from shim.events import Kind

Raw = msgspec.Raw

ENDPOINTS: Mapping[str, Kind] = {
    "/embeddings": Kind.EMBEDDING,
    "/chat/completions": Kind.CHAT,
    "/completions": Kind.CHAT,
    "/responses": Kind.CHAT,
    "/images/generations": Kind.IMAGE,
    "/images/edits": Kind.IMAGE,
    "/images/variations": Kind.IMAGE,
    "/audio/speech": Kind.SPEECH,
    "/audio/transcriptions": Kind.TRANSCRIPTION,
    "/audio/translations": Kind.TRANSCRIPTION,
    "/moderations": Kind.MODERATION,
    "/rerank": Kind.RERANK,
}

_FIELDS = msgspec.json.Decoder(dict[str, Raw])
_ITEMS = msgspec.json.Decoder(list[Raw])


COMMON_HEADERS = frozenset({b"accept", b"content-type", b"user-agent", b"idempotency-key"})
"""What every provider may see of the caller's headers."""
PACKED = b"x-shim-vectors"
"""The hint of a caller who takes vectors as packed float32 from the response's extensions, not from its body."""
HINT_HEADERS = frozenset(
    {b"x-shim-route", b"x-shim-fallback", PACKED, b"x-stainless-raw-response", b"x-stainless-lang"}
)


@dataclass(slots=True)
class Headers:
    """The caller's headers, gone through once: all, those that every provider may see, and what they tell us."""

    all: list[tuple[bytes, bytes]] = field(default_factory=list)
    common: list[tuple[bytes, bytes]] = field(default_factory=list)
    content_type: bytes = b""
    hints: dict[bytes, bytes] = field(default_factory=dict)

    @property
    def wants_packed(self) -> bool:
        """Whether the caller reads vectors as they were unpacked here, and looks at no body."""
        return PACKED in self.hints

    @property
    def are_seen(self) -> bool:
        """Whether the caller can look at the response's headers: not when the SDK hands out a parsed answer alone."""
        hints = self.hints
        return b"x-stainless-raw-response" in hints or b"x-stainless-lang" not in hints


def sort_headers(pairs: list[tuple[bytes, bytes]]) -> Headers:
    """One pass over the headers of a request."""
    found = Headers(pairs)
    for pair in pairs:
        name = pair[0].lower()
        if name in COMMON_HEADERS:
            found.common.append(pair)
            if name == b"content-type":
                found.content_type = pair[1]
        elif name in HINT_HEADERS:
            found.hints[name] = pair[1]
    return found


@dataclass(slots=True)
class Request:
    """What the caller sent. `path` begins after the base URL and holds no query; header names are as they came."""

    method: str
    path: str
    endpoint: str
    kind: Kind
    headers: Headers
    body: bytes
    query: bytes = b""
    own_base: str = ""
    fields: dict[str, Raw] = field(default_factory=dict)
    model: str = ""
    is_stream: bool = False
    state: str = ""
    """The field or reference that only the provider which keeps it can serve, "" for none."""


def endpoint_of(path: str) -> str | None:
    """The known endpoint that a path ends in (`/v1/chat/completions` -> `/chat/completions`), or None."""
    last = path.rfind("/")
    before = path.rfind("/", 0, last)
    if before >= 0 and path[before:] in ENDPOINTS:
        return path[before:]
    return path[last:] if path[last:] in ENDPOINTS else None


def read_fields(body: bytes) -> dict[str, Raw] | None:
    """The top level of a JSON object, values left as they are; None for anything else."""
    try:
        return _FIELDS.decode(body)
    except (msgspec.DecodeError, RecursionError):
        pass
    try:  # lone surrogate escapes are JSON to Python and to some servers, not to msgspec
        loose = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(loose, dict):
        return None
    return {str(name): Raw(json.dumps(value).encode()) for name, value in loose.items()}


def write_fields(fields: Mapping[str, Raw]) -> bytes:
    """The JSON object again, with the same bytes for every value that was not replaced."""
    try:
        return msgspec.json.encode(fields)
    except UnicodeEncodeError:  # a lone surrogate in a name
        pairs = (json.dumps(name).encode() + b":" + bytes(value) for name, value in fields.items())
        return b"{" + b",".join(pairs) + b"}"


def text_of(raw: Raw | None) -> str | None:
    """The string that a raw value is, None for absent or any other type."""
    value = _decoded(raw)
    return value if isinstance(value, str) else None


def number_of(raw: Raw | None) -> int | None:
    """The integer that a raw value is, None for absent, null or any other type."""
    value = _decoded(raw)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _decoded(raw: Raw | None) -> object:
    """The value; None for absent and for what is no JSON."""
    if raw is None:
        return None
    try:
        return msgspec.json.decode(raw)
    except msgspec.DecodeError:
        return None


def is_true(raw: Raw | None) -> bool:
    return raw is not None and bytes(raw).strip() == b"true"


def is_null(raw: Raw | None) -> bool:
    return raw is None or bytes(raw).strip() == b"null"


def count_inputs(raw: Raw | None) -> int | None:
    """How many vectors an embeddings `input` asks for: one for a string or one array of tokens. None where it is of no
    kind that OpenAI knows: what that means is for the provider to say."""
    if raw is None:
        return None
    head = bytes(raw).lstrip()[:1]
    if head == b'"':
        return 1
    if head != b"[":
        return None
    try:
        items = _ITEMS.decode(raw)
    except msgspec.DecodeError:
        return None
    if items and bytes(items[0]).lstrip()[:1] not in (b'"', b"[", b"n", b"t", b"f", b"{"):
        return 1
    return len(items)


def has_blank(raw: Raw | None) -> bool:
    """Whether an embeddings `input` is or holds a text of white space alone, or no tokens."""
    value = _decoded(raw)
    texts = value if isinstance(value, list) else [value]
    return any(not text.strip() if isinstance(text, str) else text == [] for text in texts)


_PART = re.compile(rb'((?<!file)name="?model"?\r\n(?:[^\r\n]+\r\n)*\r\n)([^\r\n]*)(\r\n--)', re.IGNORECASE)

_STREAM = re.compile(rb'(?<!file)name="?stream"?\r\n(?:[^\r\n]+\r\n)*\r\ntrue\r\n--', re.IGNORECASE)


def multipart_model(body: bytes) -> str | None:
    """The `model` field of a multipart form (RFC 7578), None when it has none."""
    found = _PART.search(body)
    return found.group(2).decode("utf-8", "replace") if found else None


def multipart_is_stream(body: bytes) -> bool:
    """Whether the form asks for a stream: transcriptions and edits of images may."""
    return _STREAM.search(body) is not None


def multipart_with_model(body: bytes, model: str) -> bytes:
    """The same form with another `model`; every other byte stays."""
    return _PART.sub(lambda found: found.group(1) + model.encode() + found.group(3), body, count=1)
