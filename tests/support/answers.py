"""Bodies in OpenAI's shapes and small scripts that send them, at the level of connections."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shim.testing import answers
from shim.testing.answers import DONE, chat, chat_events, chunk, event, vector
from tests.support.server import Peer, Script, Seen

__all__ = ["DONE", "PONG", "chat", "chat_events", "chunk", "embeddings", "error", "event", "vector"]

PONG = "pong"


def embeddings(request: Seen, length: int = 8, salt: str = "", *, base64_too: bool = True) -> dict[str, Any]:
    """The answer to an embeddings request, in the encoding that it asks for, and of this length whatever it asks."""
    asked = {name: value for name, value in request.json.items() if name != "dimensions"}
    return answers.embeddings(asked, length, salt, base64_too=base64_too)


def error(message: str = "it is broken", code: str | None = None, type: str = "server_error") -> dict[str, Any]:
    """An error body."""
    return {"error": {"message": message, "type": type, "param": None, "code": code}}


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
