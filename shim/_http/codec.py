"""Reads an httpx request into the engine's own form."""

from __future__ import annotations

from typing import Any

from shim._core.request import (
    ENDPOINTS,
    Request,
    endpoint_of,
    is_true,
    multipart_model,
    read_fields,
    text_of,
)
from shim.events import Kind

_RAW_STREAM = "stream"


class NotAModel(ValueError):
    """`model` is there and is no text."""


def endpoint_at(request: Any) -> str | None:
    """The known endpoint that a request goes to, None for any other. Costs next to nothing: every request asks."""
    if request.method != "POST":
        return None
    return endpoint_of(request.url.path)


def read_request(request: Any, endpoint: str, body: bytes, own_base: str) -> Request | None:
    """The engine's form of a request to `endpoint`; None when its body is neither a JSON object nor a form.

    Raises `NotAModel` when `model` is of the wrong type.
    """
    content_type = request.headers.get("content-type", "")
    kind = ENDPOINTS[endpoint]
    query = request.url.query
    read = Request(request.method, endpoint, endpoint, kind, request.headers.raw, body, query, content_type, own_base)
    if content_type.startswith("multipart/"):
        model = multipart_model(body)
        if model is None:
            return None
        read.model = model
        return read
    fields = read_fields(body)
    if fields is None:
        return None
    read.fields = fields
    read.model = _model_of(fields)
    read.is_stream = is_true(fields.get("stream")) or (kind is Kind.SPEECH and _is_raw_stream(request))
    return read


def _model_of(fields: dict[str, Any]) -> str:
    raw = fields.get("model")
    if raw is None or bytes(raw).strip() == b"null":
        return ""
    model = text_of(raw)
    if model is None:
        raise NotAModel(bytes(raw)[:40].decode("utf-8", "replace"))
    return model


def _is_raw_stream(request: Any) -> bool:
    return bool(request.headers.get("x-stainless-raw-response") == _RAW_STREAM)
