"""Reads an httpx request into the engine's own form."""

from __future__ import annotations

from typing import Any

from shim._core.request import (
    ENDPOINTS,
    Request,
    endpoint_of,
    is_true,
    multipart_is_stream,
    multipart_model,
    read_fields,
    sort_headers,
    text_of,
)
from shim.events import Kind


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
    headers = sort_headers(request.headers.raw)
    kind = ENDPOINTS[endpoint]
    read = Request(request.method, endpoint, endpoint, kind, headers, body, request.url.query, own_base)
    if headers.content_type.startswith(b"multipart/"):
        model = multipart_model(body)
        if model is None:
            return None
        read.model = model
        read.is_stream = multipart_is_stream(body)
        return read
    fields = read_fields(body)
    if fields is None:
        return None
    read.fields = fields
    read.model = _model_of(fields)
    is_raw_stream = kind is Kind.SPEECH and headers.hints.get(b"x-stainless-raw-response") == b"stream"
    read.is_stream = is_raw_stream or is_true(fields.get("stream"))
    return read


def _model_of(fields: dict[str, Any]) -> str:
    raw = fields.get("model")
    if raw is None or bytes(raw).strip() == b"null":
        return ""
    model = text_of(raw)
    if model is None:
        raise NotAModel(bytes(raw)[:40].decode("utf-8", "replace"))
    return model
