"""Bodies in OpenAI's shapes and small scripts that send them."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from collections.abc import Iterable, Sequence
from typing import Any

from tests.support.server import Peer, Script, Seen

PONG = "pong"


def chat(text: str = PONG, model: str = "m") -> dict[str, Any]:
    """A whole chat answer."""
    message = {"role": "assistant", "content": text, "refusal": None}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4},
    }


def vector(text: str, length: int, salt: str = "") -> list[float]:
    """A vector of norm 1 that is the same for the same text, length and salt."""
    seed = hashlib.shake_128(f"{salt}:{text}".encode()).digest(length * 2)
    numbers = [int.from_bytes(seed[i * 2 : i * 2 + 2], "big") / 32768 - 1 for i in range(length)]
    norm = sum(number * number for number in numbers) ** 0.5
    return [number / norm for number in numbers]


def embeddings(request: Seen, length: int = 8, salt: str = "", *, base64_too: bool = True) -> dict[str, Any]:
    """The answer to an embeddings request, in the encoding that it asks for."""
    asked = request.json
    texts = asked["input"] if isinstance(asked["input"], list) else [asked["input"]]
    if texts and isinstance(texts[0], int):
        texts = [texts]
    rows: list[Any] = [vector(json.dumps(text), length, salt) for text in texts]
    if base64_too and asked.get("encoding_format") == "base64":
        rows = [base64.b64encode(struct.pack(f"<{length}f", *row)).decode() for row in rows]
    data = [{"object": "embedding", "index": index, "embedding": row} for index, row in enumerate(rows)]
    usage = {"prompt_tokens": len(texts), "total_tokens": len(texts)}
    return {"object": "list", "data": data, "model": asked["model"], "usage": usage}


def error(message: str = "it is broken", code: str | None = None, type: str = "server_error") -> dict[str, Any]:
    """An error body."""
    return {"error": {"message": message, "type": type, "param": None, "code": code}}


def chunk(text: str | None = None, *, role: str | None = None, finish: str | None = None) -> dict[str, Any]:
    """One chunk of a chat stream."""
    delta = {name: value for name, value in (("role", role), ("content", text)) if value is not None}
    choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


def event(data: object, *, end: bytes = b"\n\n") -> bytes:
    """One server-sent event."""
    return b"data: " + (data if isinstance(data, bytes) else json.dumps(data).encode()) + end


DONE = b"data: [DONE]\n\n"


def chat_events(texts: Sequence[str] = ("Hel", "lo")) -> list[bytes]:
    """A good chat stream, an event for each text."""
    return [
        event(chunk("", role="assistant")),
        *(event(chunk(text)) for text in texts),
        event(chunk(finish="stop")),
        DONE,
    ]


# -- scripts


def says(text: str = PONG) -> Script:
    """Answers every chat call with `text`, as a stream where one is asked for."""

    def script(request: Seen, peer: Peer) -> None:
        if request.json.get("stream"):
            peer.stream(chat_events([text]))
        else:
            peer.answer(200, chat(text))

    return script


def embeds(length: int = 8, salt: str = "") -> Script:
    """Answers every embeddings call."""
    return lambda request, peer: peer.answer(200, embeddings(request, length, salt))


def fails(status: int, body: object | None = None, headers: Iterable[tuple[str, str]] = ()) -> Script:
    """Answers every call with an error."""
    given = error() if body is None else body
    return lambda request, peer: peer.answer(status, given, headers)


def streams(parts: Iterable[bytes], headers: Iterable[tuple[str, str]] = ()) -> Script:
    """Answers every call with these parts of an event stream."""
    kept = list(parts)
    return lambda request, peer: peer.stream(kept, headers)


def hangs() -> Script:
    """Never answers."""
    return lambda request, peer: peer.hang()


def resets() -> Script:
    """Breaks every connection after the request."""
    return lambda request, peer: peer.reset()
