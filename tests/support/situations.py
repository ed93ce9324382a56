"""What is asked of each server whose answers lie in `cassettes/`: said once for recording and for replaying."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import openai

import shim
from tests.support.faces import all_of, out

FAMILY = "recorded"
LONG = "the quick brown fox jumps over the lazy dog again and "
"""Eleven words; 260 times that is beyond the context of every model here."""


@dataclass(frozen=True, slots=True)
class Situation:
    """One call. `fields` are what it sends, `content` a body as it is; `key` is None for the server's own right one."""

    name: str
    kind: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    content: bytes | None = None
    model: str | None = None
    key: str | None = None
    calls: int = 1

    @property
    def path(self) -> str:
        return "/embeddings" if self.kind == "embedding" else "/chat/completions"


def _chat(name: str, text: str = "Say hello.", **fields: Any) -> Situation:
    known = {"model": None, "key": None, "calls": 1, "content": None}
    own = {key: fields.pop(key, value) for key, value in known.items()}
    messages = fields.pop("messages", [{"role": "user", "content": text}])
    return Situation(
        name, "chat", {"messages": messages, "max_tokens": 12, "temperature": 0, "seed": 7, **fields}, **own
    )


def _embed(name: str, texts: Any, *, model: str | None = None, key: str | None = None, **fields: Any) -> Situation:
    return Situation(name, "embedding", {"input": texts, **fields}, model=model, key=key)


CHAT = (
    _chat("chat"),
    _chat("chat-stream", stream=True),
    _chat("chat-stream-usage", stream=True, stream_options={"include_usage": True}),
    _chat("chat-unknown-model", model="no-such-model"),
    _chat("chat-too-long", LONG * 260),
    _chat("chat-no-messages", messages=[]),
    _chat("chat-bad-temperature", temperature="hot"),
    Situation("chat-bad-json", "chat", content=b'{"model": "m", "messages": ['),
)
EMBEDDINGS = (
    _embed("embeddings", ["a bird in the hand", "two in the bush"]),
    _embed("embeddings-float", ["a bird in the hand", "two in the bush"], encoding_format="float"),
    _embed("embeddings-one-text", "a bird in the hand", encoding_format="float"),
    _embed("embeddings-dimensions", ["a bird in the hand"], dimensions=64),
    _embed("embeddings-unknown-model", ["a bird in the hand"], model="no-such-model"),
    _embed("embeddings-empty-text", [""]),
    _embed("embeddings-one-empty", ["a bird in the hand", ""]),
    _embed("embeddings-nothing", []),
    _embed("embeddings-null", ["a bird in the hand", None]),
    _embed("embeddings-tokens", [[1, 2, 3]]),
    _embed("embeddings-too-long", [LONG * 260]),
    Situation("embeddings-no-input", "embedding", {}),
    Situation("embeddings-bad-json", "embedding", content=b'{"model": "m", "input": ['),
)
GATEWAY = (
    _chat("chat-foreign-key", key="made-up-foreign-key-0123"),
    _chat("chat-wrong-key", key="sk-made-up-wrong-key-0123"),
    _chat("chat-over-limit", model="limited", calls=3),
    _chat("chat-backend-gone", model="gone"),
    _embed("embeddings-backend-gone", ["a bird in the hand"], model="gone"),
)
ALL = {one.name: one for one in (*CHAT, *EMBEDDINGS, *GATEWAY)}


def router_for(situation: Situation, base_url: str, model: str, key: str = "", name: str = "server") -> shim.Router:
    """A router with one route to a server; every failure is shown as it is, at once. `name` may be a preset's."""
    provider = {"base_url": base_url, "api_key": situation.key or key or "none", "wire": "openai"}
    return shim.Router(
        {
            "providers": {name: provider},
            "families": {
                FAMILY: {"kind": situation.kind, "routes": [f"{name}/{situation.model or model}"]},
            },
            "policy": {"max_retries": 0, "space_check": False, "attempt_timeout": 120, "first_chunk_timeout": 120},
        }
    )


async def run(client: Any, situation: Situation) -> list[str]:
    """Make the calls; what came of each attempt, as `verdict reason status`, and the text of what was said."""
    told = []
    for _ in range(situation.calls):
        said = await _call(client, situation)
        told.append(said)
    return told


async def _call(client: Any, situation: Situation) -> str:
    try:
        if situation.content is not None:
            headers = {"content-type": "application/json"}
            posted = client.post(
                situation.path, cast_to=object, content=situation.content, options={"headers": headers}
            )
            await out(posted)
        elif situation.kind == "embedding" and "input" not in situation.fields:
            await out(client.post(situation.path, cast_to=object, body={"model": FAMILY}))
        elif situation.kind == "embedding":
            await out(client.embeddings.create(model=FAMILY, **situation.fields))
        else:
            answer = await out(client.chat.completions.create(model=FAMILY, **situation.fields))
            if situation.fields.get("stream"):
                await all_of(answer)
    except openai.APIError as error:
        return type(error).__name__
    return "answer"


def verdicts(router: shim.Router, outcomes: list[str]) -> list[str]:
    """What a cassette keeps of the calls: what the caller got, and the verdict on each attempt."""
    calls = list(router.calls)
    lines = []
    for number, outcome in enumerate(outcomes):
        attempts = calls[number].attempts if number < len(calls) else ()
        judged = [f"{one.verdict.value} {one.reason} {one.status}" for one in attempts if one.verdict is not None]
        lines.append(": ".join([outcome, *judged]) if judged else outcome)
    return lines
