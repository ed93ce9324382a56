"""Writes `cassettes/synthetic/`: answers that no server here gives, in the shapes that providers document.

    python scripts/synthetic.py

Each row names the provider whose shape it is, what it is about, the answer, and what a call must make of it. The first
line of every file says that no server gave it. `tests/recordings` compares the files with these rows.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from shim.testing import answers, storage  # noqa: E402
from shim.testing.recording import Asked, Recording, Said  # noqa: E402
from tests.support.situations import ALL  # noqa: E402

FOLDER = ROOT / "cassettes" / "synthetic"
MODEL = "m"
JSON = {"content-type": "application/json"}
HTML = {"content-type": "text/html; charset=utf-8"}
EVENTS = {"content-type": "text/event-stream"}


@dataclass(frozen=True, slots=True)
class Row:
    """One synthetic answer; `verdict` is what the caller gets and the verdict on the attempt."""

    name: str
    provider: str
    about: str
    status: int
    body: Any
    verdict: str
    headers: Mapping[str, str] = field(default_factory=dict)
    situation: str = "chat"


def _error(message: str, type: str, code: Any = None, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": type, "param": None, "code": code, **more}}


def _page(status: int, title: str) -> str:
    head, body = f"<head><title>{title}</title></head>", f"<body><h1>{status} {title}</h1></body>"
    return f"<!DOCTYPE html>\n<html>\n{head}\n{body}\n</html>\n"


def _stream(*parts: bytes) -> str:
    return b"".join(parts).decode()


_GOOD = answers.chat_events(["Hello", " there"], MODEL)
_OVERLOADED = _error("The server is overloaded", "server_error")
_VECTORS = answers.embeddings({"input": ["a bird in the hand", "two in the bush"], "model": MODEL}, 16)
_SHORT = {**_VECTORS, "data": _VECTORS["data"][:1]}
_NULL = {
    **_VECTORS,
    "data": [{**one, "embedding": [None, *one["embedding"][1:]]} for one in _VECTORS["data"]],
}
_ZERO = {**_VECTORS, "data": [{**one, "embedding": [0.0] * 16} for one in _VECTORS["data"]]}

ROWS = (
    Row(
        "401-bad-key",
        "openai",
        "A key that is wrong.",
        401,
        _error("Incorrect API key provided: ***.", "invalid_request_error", "invalid_api_key"),
        "AllProvidersFailedError: broken bad_key 401",
    ),
    Row(
        "402-no-credit",
        "openrouter",
        "An account without credit.",
        402,
        {"error": {"message": "This request requires more credits, or fewer max_tokens.", "code": 402}},
        "AllProvidersFailedError: broken no_credit 402",
    ),
    Row(
        "403-not-allowed",
        "openai",
        "A model that this project may not use.",
        403,
        _error("You are not allowed to sample from this model", "invalid_request_error"),
        "AllProvidersFailedError: broken model_not_found 403",
    ),
    Row(
        "413-larger-than-the-limit",
        "groq",
        "One request larger than the tokens of a minute: waiting never helps.",
        413,
        _error("Request too large for model: TPM: Limit 6000, Requested 6294", "tokens", "rate_limit_exceeded"),
        "APIStatusError: cannot request_too_large 413",
    ),
    Row(
        "429-retry-after",
        "openai",
        "Too many requests, with the seconds to wait.",
        429,
        _error("Rate limit reached for requests", "requests", "rate_limit_exceeded"),
        "AllProvidersFailedError: transient rate_limit 429",
        {"retry-after": "20", "x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "20s"},
    ),
    Row(
        "429-retry-after-ms",
        "azure",
        "Too many requests, with milliseconds beside whole seconds.",
        429,
        {"error": {"code": "RateLimitReached", "message": "Your requests have exceeded the rate limit."}},
        "AllProvidersFailedError: transient rate_limit 429",
        {"retry-after": "1", "retry-after-ms": "0"},
    ),
    Row(
        "429-words",
        "groq",
        "Too many requests; how long to wait is in the words alone.",
        429,
        _error("Rate limit reached for model. Please try again in 1m2.3s.", "tokens", "rate_limit_exceeded"),
        "AllProvidersFailedError: transient rate_limit 429",
    ),
    Row(
        "429-retry-delay",
        "gemini",
        "A quota of a minute, as a list, with `retryDelay`.",
        429,
        [
            {
                "error": {
                    "code": 429,
                    "message": "Please retry in 48.9s.",
                    "status": "RESOURCE_EXHAUSTED",
                    "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "48s"}],
                }
            }
        ],
        "AllProvidersFailedError: transient rate_limit 429",
    ),
    Row(
        "429-no-quota",
        "openai",
        "A 429 that no wait will mend: the account has no money.",
        429,
        _error("You exceeded your current quota", "insufficient_quota", "insufficient_quota"),
        "AllProvidersFailedError: broken quota 429",
    ),
    Row(
        "500-server-error",
        "openai",
        "The provider's own failure.",
        500,
        _error("The server had an error while processing your request", "server_error"),
        "AllProvidersFailedError: transient server_error 500",
    ),
    Row(
        "502-page",
        "openrouter",
        "A page of the proxy in front.",
        502,
        _page(502, "Bad gateway"),
        "AllProvidersFailedError: transient server_error 502",
        HTML,
    ),
    Row(
        "503-retry-after",
        "together",
        "Overloaded, with the seconds to wait.",
        503,
        _error("Service unavailable", "service_unavailable"),
        "AllProvidersFailedError: transient overloaded 503",
        {"retry-after": "2"},
    ),
    Row(
        "504-page",
        "huggingface",
        "A gateway that waited too long.",
        504,
        _page(504, "Gateway Timeout"),
        "AllProvidersFailedError: transient timeout 504",
        HTML,
    ),
    Row(
        "529-overloaded",
        "openrouter",
        "Overloaded, by a status that is none of HTTP's.",
        529,
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
        "AllProvidersFailedError: transient overloaded 529",
        {"x-should-retry": "true"},
    ),
    Row(
        "200-page",
        "openai",
        "A sign-in page that says 200.",
        200,
        _page(200, "Sign in"),
        "AllProvidersFailedError: transient html 200",
        HTML,
    ),
    Row(
        "200-error",
        "openrouter",
        "An error inside a 200.",
        200,
        {"error": {"message": "Upstream is rate limited", "code": 429}},
        "AllProvidersFailedError: transient rate_limit 429",
    ),
    Row(
        "200-no-choices",
        "openai",
        "No choices at all.",
        200,
        {**answers.chat(), "choices": []},
        "AllProvidersFailedError: transient empty answer 502",
    ),
    Row(
        "200-half-json",
        "openai",
        "A body that is cut in the middle.",
        200,
        '{"id": "chatcmpl-1", "choices": [{',
        "AllProvidersFailedError: transient malformed answer 502",
    ),
    Row("200-empty", "openai", "An empty body.", 200, "", "AllProvidersFailedError: transient malformed 200"),
    Row(
        "stream-error-first",
        "openai",
        "A stream that begins with an error.",
        200,
        _stream(answers.event(_OVERLOADED)),
        "AllProvidersFailedError: transient server_error 502",
        EVENTS,
        "chat-stream",
    ),
    Row(
        "stream-error-later",
        "openai",
        "A stream that breaks off with an error after its first content.",
        200,
        _stream(*_GOOD[:2], answers.event(_OVERLOADED)),
        "StreamInterruptedError: transient server_error 502",
        EVENTS,
        "chat-stream",
    ),
    Row(
        "stream-without-an-end",
        "openai",
        "A stream that ends properly and has no finish.",
        200,
        _stream(*_GOOD[:2]),
        "StreamInterruptedError: transient protocol 200",
        EVENTS,
        "chat-stream",
    ),
    Row(
        "stream-half-event",
        "openai",
        "A stream that ends in the middle of an event.",
        200,
        _stream(*_GOOD[:2], _GOOD[2][:40]),
        "StreamInterruptedError: transient protocol 200",
        EVENTS,
        "chat-stream",
    ),
    Row(
        "stream-crlf",
        "openrouter",
        "A good stream with CRLF and comments.",
        200,
        _stream(b": OPENROUTER PROCESSING\n\n", *_GOOD).replace("\n", "\r\n"),
        "answer: ok ok None",
        EVENTS,
        "chat-stream",
    ),
    Row(
        "vectors-short",
        "openai",
        "A vector less than texts.",
        200,
        _SHORT,
        "AllProvidersFailedError: transient short_answer 200",
        {},
        "embeddings-float",
    ),
    Row(
        "vectors-null",
        "openai",
        "A number that is none.",
        200,
        _NULL,
        "AllProvidersFailedError: transient null_vector 200",
        {},
        "embeddings-float",
    ),
    Row(
        "vectors-zero",
        "openai",
        "Vectors of nothing but zeros.",
        200,
        _ZERO,
        "AllProvidersFailedError: transient zero_vector 200",
        {},
        "embeddings-float",
    ),
)


def recording(row: Row) -> Recording:
    """The exchange of a row: the call of its situation, and its answer."""
    situation = ALL[row.situation]
    path = situation.path
    request = {"model": MODEL, **situation.fields}
    body = row.body if isinstance(row.body, str) else json.dumps(row.body)
    headers = dict(row.headers) if "content-type" in row.headers else {**JSON, **row.headers}
    asked = Asked("POST", f"http://{row.provider}.invalid/v1{path}", dict(JSON), json.dumps(request).encode())
    return Recording(asked, Said(row.status, tuple(headers.items()), body.encode()))


def text(row: Row) -> str:
    """The file of a row."""
    metadata = {
        "source": storage.SYNTHETIC,
        "about": row.about,
        "provider": row.provider,
        "model": MODEL,
        "situation": row.situation,
        "verdicts": [row.verdict],
    }
    return storage.dump(metadata, [recording(row)])


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path in FOLDER.glob("*.yaml"):
        path.unlink()
    for row in ROWS:
        (FOLDER / f"{row.name}.yaml").write_bytes(text(row).encode())
    print(f"{len(ROWS)} written: {FOLDER.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
