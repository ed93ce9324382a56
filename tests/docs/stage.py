"""Where the code blocks of the documentation run: loopback servers behind the configuration that they all name."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from shim.local.provider import LocalProvider
from shim.local.server import Answer, Handler, rate_limited, serve

_EMBED = LocalProvider().handle_http
_HEAD = {"id": "chatcmpl-1", "created": 1, "model": "chat-small"}
_USAGE = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
WORDS = ("It ", "rains ", "in ", "the ", "north.")

CONFIGURATION = """\
default_chat = "fast"
default_embedding = "notes"

[providers]
lab = {{ base_url = "{lab}" }}
spare = {{ base_url = "{spare}" }}
busy = {{ base_url = "{busy}" }}
cut = {{ base_url = "{cut}" }}

[families]
notes = {{ kind = "embedding", routes = ["lab/wordllama-256", "spare/wordllama-256"] }}
fast = {{ kind = "chat", routes = ["lab/chat-small", "spare/chat-small"] }}
crowded = {{ kind = "chat", routes = ["busy/chat-large"] }}
broken-off = {{ kind = "chat", routes = ["cut/chat-tiny"] }}
"""


def answers(method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
    """Embeds with the real local model; to a chat it says always the same, whole or as a stream."""
    asked = json.loads(body) if body else {}
    if not path.endswith(("/chat/completions", "/responses")):
        return _EMBED(method, path, headers, body)
    if asked.get("stream"):
        return _stream([_chunk(word) for word in WORDS] + [_chunk(None, "stop"), "[DONE]"])
    message = {"role": "assistant", "content": "".join(WORDS)}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return _json(200, {**_HEAD, "object": "chat.completion", "choices": [choice], "usage": _USAGE})


def breaks_off(method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
    """A stream that ends after three words, without a finish."""
    return _stream([_chunk(word) for word in WORDS[:3]])


def _chunk(text: str | None, finish: str | None = None) -> str:
    delta = {} if text is None else {"content": text}
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return json.dumps({**_HEAD, "object": "chat.completion.chunk", "choices": [choice]})


def _stream(events: list[str]) -> Answer:
    body = "".join(f"data: {event}\n\n" for event in events).encode()
    return 200, [("content-type", "text/event-stream")], body


def _json(status: int, document: object) -> Answer:
    return status, [("content-type", "application/json")], json.dumps(document).encode()


@contextmanager
def stage(folder: Path) -> Iterator[dict[str, object]]:
    """Servers until the end of the block, `shim.toml` in `folder`, and the names that every block may use."""
    handlers: dict[str, Handler] = {
        "lab": answers,
        "spare": answers,
        "busy": rate_limited(answers, 10_000, 20),
        "cut": breaks_off,
    }
    with ExitStack() as stack:
        servers = {name: stack.enter_context(serve(handler)) for name, handler in handlers.items()}
        urls = {name: server.base_url for name, server in servers.items()}
        (folder / "shim.toml").write_text(CONFIGURATION.format(**urls))
        yield {"__name__": "__main__", "LAB_URL": urls["lab"], "SPARE_URL": urls["spare"]}
