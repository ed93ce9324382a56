"""What of a request lives at a provider: stored responses, conversations, files, vector stores, containers, prompts.

State belongs to the account that holds it. Another provider can only answer that it does not know the id.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import msgspec

from shim._core.outcome import Judgement
from shim._core.request import Raw, is_null, text_of
from shim.events import Scope, Verdict

NOT_FOUND = "state_not_found"
"""The reason of a 404 that is about an id in the request, not about the model."""

# A look at the bytes that nearly every request passes; what it finds may be a text of the user's and is then parsed.
_HINTS: Mapping[str, re.Pattern[bytes]] = {
    "/responses": re.compile(rb'"(?:file_id|vector_store_ids"|container|skill_id"|id")'),
    "/chat/completions": re.compile(rb'"(?:file_id|audio")'),
}
# Names of references in OpenAI's API reference: input_file and input_image, code interpreter, file search, skills.
_ONE = ("file_id", "container_id", "skill_id")
_MANY = ("file_ids", "vector_store_ids")
# Where those names refer to nothing: JSON schemas, free maps, and what an earlier answer said of its sources.
_OPAQUE = frozenset({"annotations", "results", "parameters", "function", "headers", "metadata", "arguments"})
_DEFINED_BY_USER = ("function", "custom")


@dataclass(frozen=True, slots=True)
class State:
    """`name` is the field or the reference that needs the provider; `response` the id of a stored response, or ""."""

    name: str
    response: str = ""


def needs_state(endpoint: str, body: bytes, fields: Mapping[str, Raw]) -> State | None:
    """What of the call lives at a provider; None when any can serve it.

    `body` is the request as it came, `fields` its top level. References are those of OpenAI's API reference for
    responses and chat completions; a text that merely holds such a word is none.
    """
    hint = _HINTS.get(endpoint)
    if hint is None:
        return None
    if endpoint == "/responses":
        if not is_null(raw := fields.get("previous_response_id")):
            return State("previous_response_id", text_of(raw) or "")
        if not is_null(fields.get("conversation")):
            return State("conversation")
    if hint.search(body) is None:
        return None
    found = _in_responses(fields) if endpoint == "/responses" else _in_chat(fields)
    return None if found is None else State(found)


def about_state(judgement: Judgement) -> Judgement:
    """The judgement on an attempt of a call that needs state: its 404 says that the thing is unknown there, and speaks
    neither against the model nor for asking anybody else."""
    if judgement.verdict in (Verdict.OK, Verdict.FATAL) or judgement.status not in (404, 410):
        return judgement
    return replace(
        judgement, verdict=Verdict.FATAL, scope=Scope.REQUEST, reason=NOT_FOUND, cooldown=None, told=False, counts=False
    )


def _in_responses(fields: Mapping[str, Raw]) -> str | None:
    prompt = _value(fields, "prompt")
    if isinstance(prompt, dict) and isinstance(prompt.get("id"), str):
        return "prompt"
    return _first(_value(fields, "input"), _item) or _first(_value(fields, "tools"), _tool)


def _in_chat(fields: Mapping[str, Raw]) -> str | None:
    return _first(_value(fields, "messages"), _message)


def _value(fields: Mapping[str, Raw], name: str) -> object:
    raw = fields.get(name)
    if raw is None:
        return None
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return None


def _first(listed: object, told: Callable[[dict[str, object]], str | None]) -> str | None:
    if not isinstance(listed, list):
        return None
    return next((name for item in listed if isinstance(item, dict) and (name := told(item))), None)


def _item(item: dict[str, object]) -> str | None:
    """An item of `input`. One that has an id and nothing else stands for an item that the provider keeps."""
    if isinstance(item.get("id"), str) and item.keys() <= {"id", "type"}:
        return "item_reference"
    return _reference_in(item)


def _tool(tool: dict[str, object]) -> str | None:
    return "container" if isinstance(tool.get("container"), str) else _reference_in(tool)


def _message(message: dict[str, object]) -> str | None:
    """A chat message. The `audio` of an earlier answer is given back by its id alone."""
    audio = message.get("audio")
    if isinstance(audio, dict) and isinstance(audio.get("id"), str):
        return "audio"
    return _reference_in(message)


def _reference_in(value: object) -> str | None:
    """The name of the first reference in a value, however deep."""
    left = [value]
    while left:
        node = left.pop()
        if isinstance(node, list):
            left += node
        elif isinstance(node, dict) and node.get("type") not in _DEFINED_BY_USER:
            for name in _ONE:
                if isinstance(node.get(name), str):
                    return name
            for name in _MANY:
                if isinstance(node.get(name), list) and node[name]:
                    return name
            left += [inner for name, inner in node.items() if name not in _OPAQUE]
    return None
