"""Reads a whole 2xx answer that is no error envelope: is it an answer at all, and what does it say of itself?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from shim._core.outcome import Judgement, Outcome
from shim.events import Scope, Verdict

EMPTY = "empty answer"
MALFORMED = "malformed answer"
FAILED = "failed answer"

CONTENT_FIELDS = (
    "content",
    "reasoning_content",
    "reasoning",
    "tool_calls",
    "refusal",
    "function_call",
    "images",
    "reasoning_details",
)
"""Where a message or a delta carries what the model made. `audio` is apart, for it may be bare metadata."""

_QUOTED = 120
"""Characters of an unreadable body that a message repeats."""

_decode = msgspec.json.Decoder().decode


@dataclass(frozen=True, slots=True)
class Answer:
    """What a good answer says of itself; None where it does not say."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    model: str | None = None
    response_id: str | None = None


def read(endpoint: str, outcome: Outcome) -> Answer | Judgement:
    """Return the answer's own figures, or the judgement of an answer that is none.

    `endpoint` is the path below the base URL, as `/chat/completions`. Of an endpoint that is not known here, any JSON
    is an answer. The judgements are transient, about the model, and count on the breaker.
    """
    if endpoint == "/audio/speech" or _is_plain_transcript(endpoint, outcome):
        return _read_binary(endpoint, outcome)
    try:
        body = read_json(outcome.body)
    except ValueError:
        return _judge(MALFORMED, f"{endpoint} answered {_seen(outcome)} where JSON was due")
    fields = body if isinstance(body, dict) else {}
    fault = _fault(endpoint, fields)
    if fault is not None:
        return fault
    input_tokens, output_tokens = tokens(fields.get("usage"))
    return Answer(input_tokens, output_tokens, _text(fields.get("model")), _text(fields.get("id")))


def read_json(body: bytes) -> object:
    """Return the decoded JSON; raise ValueError where there is none.

    What `json.loads` takes and strict JSON does not (NaN, half a surrogate pair) is taken: the official client uses it.
    """
    try:
        value: object = _decode(body)
    except (ValueError, RecursionError):
        try:
            value = json.loads(body)
        except RecursionError as error:
            raise ValueError("JSON nested too deeply") from error
    return value


def tokens(usage: object) -> tuple[int | None, int | None]:
    """Return (input, output) tokens of a `usage` object, as chat or as responses name them; None where not said."""
    if not isinstance(usage, dict):
        return None, None
    given = _count(usage.get("prompt_tokens", usage.get("input_tokens")))
    made = _count(usage.get("completion_tokens", usage.get("output_tokens")))
    total = _count(usage.get("total_tokens"))
    if given is None and total is not None:  # rerankers and some embedders tell the total alone
        given = max(0, total - (made or 0))
    return given, made


def has_content(message: Mapping[str, object]) -> bool:
    """Say whether a message or a delta holds anything that the model made. A role, and an audio clip's id, are not."""
    for name in CONTENT_FIELDS:
        if message.get(name):
            return True
    audio = message.get("audio")
    return isinstance(audio, dict) and bool(audio.get("data") or audio.get("transcript"))


def _fault(endpoint: str, body: Mapping[str, object]) -> Judgement | None:
    match endpoint:
        case "/chat/completions":
            return _chat_fault(body.get("choices"))
        case "/completions":
            return _list_fault("choices", body)
        case "/responses":
            return _response_fault(body)
        case "/moderations":
            return _list_fault("results", body)
        case "/rerank":  # Cohere and Jina say `results`, Voyage says `data`
            return _list_fault("data" if "data" in body else "results", body)
        case "/audio/transcriptions" | "/audio/translations":
            return None if isinstance(body.get("text"), str) else _judge(EMPTY, "the transcription holds no text field")
        case _ if endpoint.startswith("/images/"):
            return _list_fault("data", body)
    return None


def _chat_fault(choices: object) -> Judgement | None:
    if not isinstance(choices, list) or not choices:
        return _judge(EMPTY, f"the chat answer's choices are {_shown(choices)}")
    objects = [choice for choice in choices if isinstance(choice, dict)]
    for choice in objects:
        if choice.get("error") or choice.get("finish_reason") == "error":
            return _failed("a choice of the chat answer", choice.get("error"))
    if not any(_is_choice(choice) for choice in objects):
        return _judge(EMPTY, "no choice of the chat answer holds a message with content or a finish_reason")
    return None


def _is_choice(choice: Mapping[str, object]) -> bool:
    message, finish = choice.get("message"), choice.get("finish_reason")
    if isinstance(message, dict):
        return bool(finish) or has_content(message)
    return finish == "content_filter"  # Azure leaves the message out of what it filtered


def _response_fault(body: Mapping[str, object]) -> Judgement | None:
    if body.get("status") == "failed":
        return _failed("the response", body.get("error"))
    if not isinstance(body.get("output"), list):
        return _judge(EMPTY, f"the response's output is {_shown(body.get('output'))}, not a list")
    return None


def _list_fault(name: str, body: Mapping[str, object]) -> Judgement | None:
    items = body.get(name)
    if isinstance(items, list) and any(isinstance(item, dict) for item in items):
        return None
    return _judge(EMPTY, f"the answer's {name} are {_shown(items)}")


def _is_plain_transcript(endpoint: str, outcome: Outcome) -> bool:
    if endpoint not in ("/audio/transcriptions", "/audio/translations"):
        return False
    untyped_json = "content-type" not in outcome.headers and outcome.body.lstrip().startswith(b"{")
    return not _is_json(outcome) and not untyped_json


def _read_binary(endpoint: str, outcome: Outcome) -> Answer | Judgement:
    if not outcome.body or _is_json(outcome) or _is_html(outcome):
        return _judge(MALFORMED if outcome.body else EMPTY, f"{endpoint} answered {_seen(outcome)}")
    return Answer()


def _is_json(outcome: Outcome) -> bool:
    kind = outcome.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == "application/json" or kind.endswith("+json")


def _is_html(outcome: Outcome) -> bool:
    kind = outcome.headers.get("content-type", "").lower()
    return "html" in kind or outcome.body[:200].lstrip().lower().startswith((b"<!doctype html", b"<html"))


def _seen(outcome: Outcome) -> str:
    kind = outcome.headers.get("content-type") or "no content-type"
    if not outcome.body:
        return f"{outcome.status} ({kind}) with an empty body"
    text = outcome.body[: 4 * _QUOTED].decode(errors="replace").strip()
    return f"{outcome.status} ({kind}) {text[:_QUOTED]!r}"


def _shown(value: object) -> str:
    if value is None:
        return "missing or null"
    return f"an empty {type(value).__name__}" if not value else f"an unusable {type(value).__name__}"


def _failed(what: str, error: object) -> Judgement:
    message = error.get("message") if isinstance(error, dict) else error
    told = message if isinstance(message, str) and message else "no reason given"
    return _judge(FAILED, f"{what} failed: {told}")


def _judge(reason: str, message: str) -> Judgement:
    return Judgement(Verdict.TRANSIENT, Scope.MODEL, reason, message, status=502, counts=True)


def _count(value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value[:18])
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e15:
        return None
    return int(value)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
