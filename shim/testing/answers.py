"""What a scripted provider says, in words: `says("hello")`, `embeds(256)`, `rate_limited(30)`, `hangs()`, `resets()`.

A word takes a request and gives an `Answer`. The same words make a `FakeProvider` (no network) and a server on loopback
(`serve`). Bodies have OpenAI's shapes; vectors are made up, of norm 1, and the same for the same text.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, assert_never

from shim._core import faults
from shim._core.fault_steps import Break, Rest, Step, Tamper
from shim._core.outcome import Fault, Outcome
from shim.testing.recording import Asked

JSON = ("content-type", "application/json")
EVENTS = ("content-type", "text/event-stream")
DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer on its way: silence for `delay` seconds, a head, and parts of a body with rests and breaks among them.

    Without a `status` there is no head either: the connection ends as the first break says.
    """

    status: int | None
    headers: tuple[tuple[str, str], ...] = ()
    parts: tuple[Step, ...] = ()
    delay: float = 0.0

    @property
    def body(self) -> bytes:
        """All bytes, however they come."""
        return b"".join(part for part in self.parts if isinstance(part, bytes))

    @property
    def is_whole(self) -> bool:
        """Whether it comes in one piece and as it should, so that its length can be announced."""
        return len(self.parts) <= 1 and all(isinstance(part, bytes) for part in self.parts)


Word = Callable[[Asked], Answer]


# -- words


def replies(body: object, status: int = 200, headers: Iterable[tuple[str, str]] = ()) -> Word:
    """Always this: bytes as they are, anything else as JSON."""
    given = tuple((name.lower(), value) for name, value in headers)
    if isinstance(body, bytes):
        return lambda asked: Answer(status, given, (body,))
    typed = given if any(name == "content-type" for name, _ in given) else (JSON, *given)
    return lambda asked: Answer(status, typed, (json.dumps(body).encode(),))


def says(text: str = "pong", *, model: str | None = None) -> Word:
    """Answers chat completions and responses with `text`; as a stream, a word at a time, where one is asked for."""

    def word(asked: Asked) -> Answer:
        request = _request(asked)
        name = model or str(request.get("model", "m"))
        is_response = asked.parts.path.endswith("/responses")
        if request.get("stream"):
            parts = response_events(text, name) if is_response else chat_events(_pieces(text), name)
            return Answer(200, (EVENTS,), tuple(parts))
        return replies(response(text, name) if is_response else chat(text, name))(asked)

    return word


def embeds(dimensions: int = 8, *, salt: str = "") -> Word:
    """Answers embeddings in the encoding and length that are asked for; another `salt` is another vector space."""
    return lambda asked: replies(embeddings(_request(asked), dimensions, salt))(asked)


def fails(
    status: int = 500,
    *,
    message: str | None = None,
    code: str | None = None,
    retry_after: float | None = None,
    headers: Iterable[tuple[str, str]] = (),
    body: bytes | None = None,
) -> Word:
    """An error in OpenAI's shape, or with `body` as it is; `retry_after` in seconds becomes the header."""
    outcome = faults.answer(status, retry_after=retry_after, message=message, code=code, headers=headers, body=body)
    return lambda asked: answer_of(outcome)


def rate_limited(retry_after: float | None = None) -> Word:
    """429, with `Retry-After` in seconds."""
    return fails(429, retry_after=retry_after)


def streams(parts: Iterable[bytes], *, headers: Iterable[tuple[str, str]] = (EVENTS,)) -> Word:
    """An event stream in these parts."""
    kept, given = tuple(parts), tuple(headers)
    return lambda asked: Answer(200, given, kept)


def hangs(seconds: float = math.inf) -> Word:
    """Says nothing, and after `seconds` 503."""
    return lambda asked: replace(answer_of(faults.answer(503)), delay=seconds)


def resets() -> Word:
    """Breaks the connection instead of an answer."""
    return lambda asked: Answer(None, parts=(Break(Fault.RESET),))


def handled(
    handler: Callable[[str, str, Mapping[str, str], bytes], tuple[int, list[tuple[str, str]], bytes]],
) -> Word:
    """What a handler says, such as `shim.local.LocalProvider().handle_http`: a real model without a network."""

    def word(asked: Asked) -> Answer:
        place = asked.parts.path + (f"?{asked.parts.query}" if asked.parts.query else "")
        status, headers, body = handler(asked.method, place, asked.headers, asked.body)
        return Answer(status, tuple((name.lower(), value) for name, value in headers), (body,))

    return word


# -- faults on an answer


def altered(answer: Answer, effect: faults.Effect) -> Answer:
    """The answer as a fault leaves it."""
    match effect:
        case faults.Instead(outcome=outcome):
            return answer_of(outcome)
        case faults.Hang(seconds=seconds):
            return replace(answer, delay=answer.delay + seconds)
        case faults.Cut() | faults.Drip() | faults.ErrorEvent() | faults.BadRows():
            return replace(answer, parts=tuple(_steps(answer.parts, Tamper(effect))))
        case _:
            assert_never(effect)


def _steps(parts: Sequence[Step], tamper: Tamper) -> Iterable[Step]:
    for part in parts:
        for step in tamper.feed(part) if isinstance(part, bytes) else (part,):
            yield step
            if isinstance(step, Break):
                return
    yield from tamper.end()


def answer_of(outcome: Outcome) -> Answer:
    """The answer that an outcome describes."""
    if outcome.fault is not None:
        return Answer(None, parts=(Break(outcome.fault),))
    return Answer(outcome.status, tuple(outcome.headers.items()), (outcome.body,))


# -- bodies


def chat(text: str = "pong", model: str = "m") -> dict[str, Any]:
    """A whole chat completion."""
    message = {"role": "assistant", "content": text, "refusal": None}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4},
    }


def chunk(
    text: str | None = None, *, role: str | None = None, finish: str | None = None, model: str = "m"
) -> dict[str, Any]:
    """One chunk of a chat stream."""
    delta = {name: value for name, value in (("role", role), ("content", text)) if value is not None}
    choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": model, "choices": [choice]}


def event(data: object, *, name: str | None = None, end: bytes = b"\n\n") -> bytes:
    """One server-sent event; anything but bytes is written as JSON."""
    before = b"" if name is None else b"event: " + name.encode() + end[: len(end) // 2]
    return before + b"data: " + (data if isinstance(data, bytes) else json.dumps(data).encode()) + end


def chat_events(texts: Sequence[str] = ("Hel", "lo"), model: str = "m") -> list[bytes]:
    """A good chat stream, an event for each text."""
    chunks = [chunk("", role="assistant", model=model), *(chunk(text, model=model) for text in texts)]
    return [*(event(one) for one in chunks), event(chunk(finish="stop", model=model)), DONE]


def response(text: str = "pong", model: str = "m", *, status: str = "completed") -> dict[str, Any]:
    """A whole answer of the Responses API."""
    content = [{"type": "output_text", "text": text, "annotations": []}]
    message = {"type": "message", "id": "msg_1", "status": status, "role": "assistant", "content": content}
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": status,
        "model": model,
        "output": [message] if status == "completed" else [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 3,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 1,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 4,
        },
    }


def response_events(text: str = "pong", model: str = "m") -> list[bytes]:
    """A good stream of the Responses API."""
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0, "logprobs": []}
    told: list[dict[str, Any]] = [
        {"type": "response.created", "response": response(text, model, status="in_progress")},
        *({"type": "response.output_text.delta", "delta": piece, **place} for piece in _pieces(text)),
        {"type": "response.output_text.done", "text": text, **place},
        {"type": "response.completed", "response": response(text, model)},
    ]
    return [event({**one, "sequence_number": number}, name=one["type"]) for number, one in enumerate(told)]


def vector(text: str, length: int, salt: str = "") -> list[float]:
    """A vector of norm 1 that is the same for the same text, length and salt."""
    seed = hashlib.shake_128(f"{salt}:{text}".encode()).digest(length * 2)
    numbers = [int.from_bytes(seed[i * 2 : i * 2 + 2], "big") / 32768 - 1 for i in range(length)]
    norm = sum(number * number for number in numbers) ** 0.5
    return [number / norm for number in numbers]


def embeddings(
    request: Mapping[str, Any], length: int = 8, salt: str = "", *, base64_too: bool = True
) -> dict[str, Any]:
    """The answer to an embeddings request, in the encoding and the length that it asks for."""
    texts = request["input"] if isinstance(request["input"], list) else [request["input"]]
    if texts and isinstance(texts[0], int):
        texts = [texts]
    wanted = request.get("dimensions") or length
    rows: list[Any] = [vector(json.dumps(text), wanted, salt) for text in texts]
    if base64_too and request.get("encoding_format") == "base64":
        rows = [base64.b64encode(struct.pack(f"<{wanted}f", *row)).decode() for row in rows]
    data = [{"object": "embedding", "index": index, "embedding": row} for index, row in enumerate(rows)]
    usage = {"prompt_tokens": len(texts), "total_tokens": len(texts)}
    return {"object": "list", "data": data, "model": request["model"], "usage": usage}


def _request(asked: Asked) -> dict[str, Any]:
    """The fields of a request's body; none where it is no JSON object."""
    try:
        fields = asked.json
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}


def _pieces(text: str) -> list[str]:
    """A text in words, each with the space before it."""
    words = text.split(" ")
    return [word if number == 0 else f" {word}" for number, word in enumerate(words)]


__all__ = [
    "Answer",
    "Rest",
    "Word",
    "embeds",
    "fails",
    "handled",
    "hangs",
    "rate_limited",
    "replies",
    "resets",
    "says",
    "streams",
]
