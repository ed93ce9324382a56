"""Reads the body of an embedding request and finds what is wrong with it, in OpenAI's words and shapes."""

from __future__ import annotations

import json
from typing import NamedTuple

from shim.local.models import CARDS, ModelCard

MAX_TEXTS = 2048
"""The limit of OpenAI's own endpoint, kept so that what works here works there (its API reference, `input`)."""


class Refusal(NamedTuple):
    """An answer that is an error."""

    status: int
    message: str
    param: str | None = None
    code: str | None = None
    type: str = "invalid_request_error"


class EmbeddingRequest(NamedTuple):
    """A request that can be served. `dimensions` is one of the model's widths."""

    card: ModelCard
    texts: list[str]
    as_base64: bool
    dimensions: int


def parse(body: bytes) -> EmbeddingRequest | Refusal:
    """The request in a body, or the refusal of the first fault found: model, then options, then texts."""
    try:
        document: object = json.loads(body)
    except (ValueError, RecursionError):
        return Refusal(400, "We could not parse the JSON body of your request.")
    if not isinstance(document, dict):
        return Refusal(400, "The body of an embedding request must be a JSON object.")
    card = _card(document.get("model"))
    if isinstance(card, Refusal):
        return card
    fault = _option_fault(document, card)
    if fault is not None:
        return fault
    texts = _texts(document.get("input"), card)
    if isinstance(texts, Refusal):
        return texts
    dimensions = document.get("dimensions")
    width = card.dimensions if dimensions is None else dimensions
    return EmbeddingRequest(card, texts, document.get("encoding_format") == "base64", width)


def unknown_model(name: str) -> Refusal:
    """The 404 for a model that is none of ours; names those that are."""
    known = ", ".join(CARDS)
    return Refusal(
        404, f"The model '{name}' does not exist here. Local models: {known}.", param="model", code="model_not_found"
    )


def _card(name: object) -> ModelCard | Refusal:
    if name is None or name == "":
        return Refusal(400, "you must provide a model parameter", param="model")
    if not isinstance(name, str):
        return _wrong_type("model", "a string", name)
    return CARDS.get(name) or unknown_model(_printable(name))


def _option_fault(document: dict[str, object], card: ModelCard) -> Refusal | None:
    encoding, dimensions, user = (document.get(name) for name in ("encoding_format", "dimensions", "user"))
    if encoding is not None and not isinstance(encoding, str):
        return _wrong_type("encoding_format", "a string", encoding)
    if encoding not in (None, "float", "base64"):
        shown = _printable(str(encoding))
        return Refusal(
            400, f"Invalid 'encoding_format': '{shown}'. Supported: 'float', 'base64'.", param="encoding_format"
        )
    if user is not None and not isinstance(user, str):
        return _wrong_type("user", "a string", user)
    if dimensions is None:
        return None
    if not isinstance(dimensions, int) or isinstance(dimensions, bool):
        return _wrong_type("dimensions", "an integer", dimensions)
    if dimensions not in card.widths:
        widths = ", ".join(map(str, card.widths))
        message = f"Invalid 'dimensions': {dimensions}. The model '{card.name}' gives vectors of {widths}."
        return Refusal(400, message, param="dimensions", code="unsupported_value")
    return None


def _texts(given: object, card: ModelCard) -> list[str] | Refusal:
    if given is None:
        return Refusal(400, "Missing required parameter: 'input'.", param="input", code="missing_required_parameter")
    if isinstance(given, str):
        return _text_fault(given, "input") or [given]
    if not isinstance(given, list):
        return _wrong_type("input", "a string or an array of strings", given)
    if not 0 < len(given) <= MAX_TEXTS:
        message = f"Invalid 'input': an array of {len(given)} items; 1 to {MAX_TEXTS} are allowed."
        return Refusal(400, message, param="input")
    for index, item in enumerate(given):
        if _is_number(item) or (isinstance(item, list) and all(map(_is_number, item))):
            message = f"Invalid 'input': the model '{card.name}' takes text alone, no token arrays."
            return Refusal(400, message, param="input", code="unsupported_value")
        fault = _text_fault(item, f"input[{index}]")
        if fault is not None:
            return fault
    return given


def _text_fault(text: object, place: str) -> Refusal | None:
    if not isinstance(text, str):
        return _wrong_type(place, "a string", text)
    if not text:
        return Refusal(400, f"Invalid '{place}': the string is empty.", param=place)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        message = f"Invalid '{place}': a lone surrogate at position {error.start}; it is not valid Unicode text."
        return Refusal(400, message, param=place)
    return None


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _wrong_type(place: str, wanted: str, given: object) -> Refusal:
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    got = names.get(type(given), "a number")
    return Refusal(
        400, f"Invalid type for '{place}': expected {wanted}, but got {got} instead.", place, code="invalid_type"
    )


def _printable(text: str) -> str:
    """Text from outside, short and free of lone surrogates, for a message."""
    return text[:100].encode(errors="backslashreplace").decode()
