"""Wire formats of embedding services that do not speak OpenAI's: requests out of, and answers into, OpenAI's shape.

Sources: Hugging Face Inference Providers, feature extraction task (payload `inputs`, `normalize`, `truncate`,
`truncation_direction`, `prompt_name`; one vector per text); Cohere API reference, Embed v2 (`texts`, `input_type`,
`embedding_types`, `output_dimension`, `truncate`, default END; at most 96 texts) and the v1 answer; Azure OpenAI REST
reference, embeddings.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import Enum
from typing import assert_never
from urllib.parse import quote

import msgspec
from msgspec import Raw, Struct

from shim._core.outcome import Judgement
from shim._core.vectors_faults import spoilt, token_matrix
from shim._core.vectors_wire import UNREADABLE, unreadable
from shim.events import Scope, Verdict


class Wire(str, Enum):
    """What a provider speaks on its embeddings endpoint.

    AZURE is OpenAI's own format on another address: `base_url` either ends in `/openai/v1`, or holds the deployment as
    `{model}` (`https://NAME.openai.azure.com/openai/deployments/{model}`); `address` fills it in. The `api-version`
    query and the `api-key` header belong to the provider's configuration.
    """

    OPENAI = "openai"
    HUGGINGFACE = "huggingface"
    COHERE = "cohere"
    AZURE = "azure"


_COHERE_INPUT_TYPES = {"query": "search_query", "document": "search_document", "passage": "search_document"}
_NOT_FOR_TEXT_WIRES = frozenset({"model", "input", "dimensions", "encoding_format", "input_type", "user"})


def address(base_url: str, suffix: str, *, model: str) -> str:
    """The URL of a request: `{model}` in `base_url` becomes the model, quoted as one path segment."""
    return base_url.replace("{model}", quote(model, safe="")).rstrip("/") + suffix


def encode(wire: Wire, fields: Mapping[str, object], *, model: str) -> tuple[str, bytes] | Judgement:
    """The path to append to the base URL and the body, from OpenAI-shaped `fields`; `model` replaces the one in there.

    Hugging Face and Cohere take text alone: token arrays are a *cannot* for them, and so is `dimensions` for Hugging
    Face, which has no such parameter. Both are told to refuse an over-long text, as OpenAI does, and not to cut it in
    silence; `truncate` in `fields` wins. Fields that OpenAI does not know (from `extra_body` or the route's `params`)
    go as they are written. `input_type` "query" or "document" becomes Cohere's word (by default a document); Hugging
    Face has none.
    """
    match wire:
        case Wire.OPENAI | Wire.AZURE:
            return "/embeddings", _json({**fields, "model": model})
        case Wire.HUGGINGFACE:
            return _to_huggingface(fields, model)
        case Wire.COHERE:
            return _to_cohere(fields, model)
        case _:
            assert_never(wire)


def decode(wire: Wire, body: bytes, *, model: str) -> bytes | Judgement:
    """A successful native answer as OpenAI's embeddings JSON, or the judgement of one that holds no vectors per text.

    The numbers are not looked at here: `shim._core.vectors.read` does that. Answers with an error status are judged by
    status.
    """
    match wire:
        case Wire.OPENAI | Wire.AZURE:
            return body
        case Wire.HUGGINGFACE:
            return _from_huggingface(body, model)
        case Wire.COHERE:
            return _from_cohere(body, model)
        case _:
            assert_never(wire)


def _to_huggingface(fields: Mapping[str, object], model: str) -> tuple[str, bytes] | Judgement:
    texts = _texts(fields, "Hugging Face's feature extraction")
    if isinstance(texts, Judgement):
        return texts
    if fields.get("dimensions") is not None:
        return _cannot(
            "unsupported_parameter",
            "Hugging Face's feature extraction has no `dimensions`; leave it out, or use a route that takes it",
            rejects="dimensions",
        )
    payload = {"inputs": texts, "normalize": True, "truncate": False, **_extras(fields)}
    return f"/models/{quote(model, safe='/')}/pipeline/feature-extraction", _json(payload)


def _to_cohere(fields: Mapping[str, object], model: str) -> tuple[str, bytes] | Judgement:
    texts = _texts(fields, "Cohere's embed")
    if isinstance(texts, Judgement):
        return texts
    word = fields.get("input_type") or "document"
    payload: dict[str, object] = {
        "model": model,
        "texts": texts,
        "input_type": _COHERE_INPUT_TYPES.get(word, word) if isinstance(word, str) else word,
        "embedding_types": ["float"],
        "truncate": "NONE",
    }
    if fields.get("dimensions") is not None:
        payload["output_dimension"] = fields["dimensions"]
    return "/v2/embed", _json({**payload, **_extras(fields)})


def _json(value: object) -> bytes:
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        # A lone surrogate is legal in a JSON text as an escape, which the standard library writes.
        return json.dumps(value).encode()


def _extras(fields: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in fields.items() if name not in _NOT_FOR_TEXT_WIRES}


def _texts(fields: Mapping[str, object], service: str) -> list[str] | Judgement:
    given = fields.get("input")
    texts = [given] if isinstance(given, str) else given
    if isinstance(texts, (list, tuple)) and texts and all(isinstance(text, str) for text in texts):
        return list(texts)
    return _cannot("text_only", f"{service} takes texts, not token arrays; send text, or use another route")


def _cannot(reason: str, message: str, rejects: str | None = None) -> Judgement:
    return Judgement(Verdict.CANNOT, Scope.REQUEST, reason, message, rejects=rejects)


def _from_huggingface(body: bytes, model: str) -> bytes | Judgement:
    rows = _rows(body)
    if rows is None:
        return spoilt("malformed", "Hugging Face answered something other than a list of vectors")
    return rows if isinstance(rows, Judgement) else _canonical(rows, model, None)


class _Units(Struct):
    input_tokens: float | None = None


class _Meta(Struct):
    billed_units: _Units | None = None


class _CohereAnswer(Struct):
    embeddings: Raw = Raw()
    meta: Raw = Raw()


def _from_cohere(body: bytes, model: str) -> bytes | Judgement:
    try:
        answer = msgspec.json.decode(body, type=_CohereAnswer)
        vectors = bytes(answer.embeddings)
        if vectors.startswith(b"{"):
            vectors = bytes(msgspec.json.decode(vectors, type=dict[str, Raw]).get("float", b""))
    except msgspec.ValidationError:
        return spoilt("malformed", "Cohere answered something other than an object with 'embeddings'")
    except UNREADABLE as error:
        return unreadable(body, error)
    rows = _rows(vectors) if vectors.startswith(b"[") else None
    if rows is None:
        return spoilt("malformed", "Cohere's answer has no list of float vectors under 'embeddings'")
    return rows if isinstance(rows, Judgement) else _canonical(rows, model, _billed(bytes(answer.meta)))


def _billed(meta: bytes) -> int | None:
    """Input tokens of Cohere's bill; None where it is absent or in another form."""
    try:
        units = msgspec.json.decode(meta, type=_Meta).billed_units
    except UNREADABLE:
        return None
    return int(units.input_tokens) if units and units.input_tokens else None


def _rows(body: bytes) -> list[bytes] | Judgement | None:
    """The JSON of each vector in a list; a lone vector counts as a list of one. None if it is no list of vectors."""
    try:
        items = [bytes(item) for item in msgspec.json.decode(body, type=list[Raw])]
    except msgspec.ValidationError:
        return None
    except UNREADABLE as error:
        return unreadable(body, error)
    if items and all(item[:1] in b"-0123456789" for item in items):
        return [body.strip()]
    for position, item in enumerate(items):
        if not item.startswith(b"["):
            return None
        if item[1:].lstrip().startswith(b"["):
            return token_matrix(position)
    return items


def _canonical(rows: list[bytes], model: str, input_tokens: int | None) -> bytes:
    """OpenAI's embeddings JSON around vectors that stay the JSON they are: parsing a float twice would cost most of the
    call.
    """
    data = b",".join(
        b'{"object":"embedding","index":%d,"embedding":%s}' % (index, row) for index, row in enumerate(rows)
    )
    counted = (
        b"" if input_tokens is None else b',"usage":{"prompt_tokens":%d,"total_tokens":%d}' % ((input_tokens,) * 2)
    )
    return b'{"object":"list","data":[%s],"model":%s%s}' % (data, _json(model), counted)
