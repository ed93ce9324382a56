"""What of a request lives at a provider: found in the structure, never in a user's text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim._core.outcome import Judgement
from shim._core.request import read_fields
from shim._core.state import NOT_FOUND, State, about_state, needs_state
from shim.events import Scope, Verdict

CHAT, RESPONSES = "/chat/completions", "/responses"


def told(endpoint: str, value: object) -> State | None:
    body = json.dumps(value).encode()
    return needs_state(endpoint, body, read_fields(body) or {})


def says(*parts: object) -> dict[str, Any]:
    return {"input": [{"role": "user", "content": list(parts)}]}


def asks(*parts: object) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": list(parts)}]}


def tool(**fields: object) -> dict[str, Any]:
    return {"input": "x", "tools": [{"type": "web_search"}, fields]}


KEPT: list[tuple[str, str, dict[str, Any], State]] = [
    ("a previous response", RESPONSES, {"previous_response_id": "r"}, State("previous_response_id", "r")),
    (
        "a previous response beside a null conversation",
        RESPONSES,
        {"conversation": None, "previous_response_id": "r"},
        State("previous_response_id", "r"),
    ),
    ("a previous response that is no text", RESPONSES, {"previous_response_id": 5}, State("previous_response_id")),
    ("a conversation id", RESPONSES, {"conversation": "conv_1"}, State("conversation")),
    ("a conversation object", RESPONSES, {"conversation": {"id": "conv_1"}}, State("conversation")),
    ("a file", RESPONSES, says({"type": "input_file", "file_id": "file-1"}), State("file_id")),
    ("an image", RESPONSES, says({"type": "input_image", "file_id": "file-1"}), State("file_id")),
    (
        "a file in a function's output",
        RESPONSES,
        {"input": [{"type": "function_call_output", "output": [{"type": "input_file", "file_id": "file-1"}]}]},
        State("file_id"),
    ),
    (
        "a computer's screenshot",
        RESPONSES,
        {"input": [{"type": "computer_call_output", "output": {"file_id": "file-1"}}]},
        State("file_id"),
    ),
    ("vector stores", RESPONSES, tool(type="file_search", vector_store_ids=["vs_1"]), State("vector_store_ids")),
    ("a container", RESPONSES, tool(type="code_interpreter", container="cntr_1"), State("container")),
    (
        "the files of a new container",
        RESPONSES,
        tool(type="code_interpreter", container={"type": "auto", "file_ids": ["file-1"]}),
        State("file_ids"),
    ),
    (
        "the container of a shell",
        RESPONSES,
        tool(type="shell", environment={"type": "container_reference", "container_id": "cntr_1"}),
        State("container_id"),
    ),
    ("a mask", RESPONSES, tool(type="image_generation", input_image_mask={"file_id": "file-1"}), State("file_id")),
    ("a skill", RESPONSES, tool(type="shell", skills=[{"skill_id": "skill_1"}]), State("skill_id")),
    ("a stored prompt", RESPONSES, {"prompt": {"id": "pmpt_1", "version": "2"}}, State("prompt")),
    ("an item by reference", RESPONSES, {"input": [{"type": "item_reference", "id": "i"}]}, State("item_reference")),
    ("an item by its id alone", RESPONSES, {"input": [{"id": "i"}]}, State("item_reference")),
    (
        "a generated image by its id",
        RESPONSES,
        {"input": [{"role": "user", "content": "again"}, {"type": "image_generation_call", "id": "ig_1"}]},
        State("item_reference"),
    ),
    ("a file of a chat", CHAT, asks({"type": "file", "file": {"file_id": "file-1"}}), State("file_id")),
    (
        "the audio of an earlier answer",
        CHAT,
        {"messages": [{"role": "assistant", "audio": {"id": "audio_1"}}]},
        State("audio"),
    ),
]


@pytest.mark.parametrize(("endpoint", "body", "state"), [k[1:] for k in KEPT], ids=[k[0] for k in KEPT])
def test_what_a_provider_keeps(endpoint: str, body: dict[str, Any], state: State) -> None:
    assert told(endpoint, {"model": "m", **body}) == state


@pytest.mark.parametrize(("endpoint", "body"), [k[1:3] for k in KEPT], ids=[k[0] for k in KEPT])
def test_the_same_words_as_a_text_are_a_text(endpoint: str, body: dict[str, Any]) -> None:
    """A user may write about files, and paste whole requests."""
    text = json.dumps(body)
    quoted: dict[str, Any] = {"input": text} if endpoint == RESPONSES else asks({"type": "text", "text": text})
    assert told(endpoint, {"model": "m", "instructions": text, "metadata": {"note": text}, **quoted}) is None


SCHEMA = {"type": "object", "properties": {"file_id": {"type": "string"}}, "required": ["file_id"]}
ANNOTATED = {"type": "output_text", "text": "x", "annotations": [{"type": "file_citation", "file_id": "file-1"}]}
FREE: list[tuple[str, str, dict[str, Any]]] = [
    ("nothing", RESPONSES, {}),
    ("nulls", RESPONSES, {"previous_response_id": None, "conversation": None, "prompt": None, "input": "x"}),
    ("a null file", RESPONSES, says({"type": "input_file", "file_id": None, "file_data": "data:x"})),
    ("no vector stores", RESPONSES, tool(type="file_search", vector_store_ids=[])),
    ("a container of its own", RESPONSES, tool(type="code_interpreter", container={"type": "auto"})),
    ("a function that takes a file_id", RESPONSES, tool(type="function", name="f", parameters=SCHEMA)),
    ("a file_id in whatever else describes a function", RESPONSES, tool(type="function", defaults={"file_id": "x"})),
    ("a file_id among the examples of a schema", RESPONSES, tool(type="function", parameters={"file_id": "x"})),
    (
        "a chat function that takes a file_id",
        CHAT,
        {**asks(), "tools": [{"type": "function", "function": {"parameters": SCHEMA}}]},
    ),
    (
        "an answer given back with its sources",
        RESPONSES,
        {"input": [{"type": "message", "id": "msg_1", "role": "assistant", "content": [ANNOTATED]}]},
    ),
    (
        "what a search found",
        RESPONSES,
        {"input": [{"type": "file_search_call", "id": "fs_1", "queries": [], "results": [{"file_id": "file-1"}]}]},
    ),
    ("reasoning given back", RESPONSES, {"input": [{"type": "reasoning", "id": "rs_1", "summary": []}]}),
    ("a prompt that is a text", RESPONSES, {"prompt": "id", "input": [{"role": "user", "content": '"id"'}]}),
    ("the voice of an answer", CHAT, {**asks(), "modalities": ["text", "audio"], "audio": {"voice": "x"}}),
    ("sound in the question", CHAT, asks({"type": "input_audio", "input_audio": {"data": "AA=="}})),
    ("the audio of an earlier answer that is null", CHAT, {"messages": [{"role": "assistant", "audio": None}]}),
    ("messages that are no list", CHAT, {"messages": {"file_id": "file-1"}}),
    ("items that are no objects", RESPONSES, {"input": ["file_id", 1, None, ["id"]]}),
    ("another endpoint", "/embeddings", {"input": "x", "previous_response_id": "r", "file_id": "file-1"}),
    ("fields that chat does not have", CHAT, {**asks(), "previous_response_id": "r", "conversation": "c"}),
]


@pytest.mark.parametrize(("endpoint", "body"), [f[1:] for f in FREE], ids=[f[0] for f in FREE])
def test_what_any_provider_can_serve(endpoint: str, body: dict[str, Any]) -> None:
    assert told(endpoint, {"model": "m", **body}) is None


def test_nesting_that_no_parser_follows_is_nobodys_state() -> None:
    body = b'{"model":"m","input":[{"id":"i","x":' + b"[" * 5000 + b"]" * 5000 + b"}]}"
    assert needs_state(RESPONSES, body, read_fields(body) or {}) is None


anything = st.recursive(
    st.none() | st.booleans() | st.text() | st.sampled_from(["file_id", '{"file_id": "x"}']),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "content", "a", "text"]), inner)
    ),
    max_leaves=12,
)


@given(anything, st.sampled_from([CHAT, RESPONSES]))
def test_without_a_name_of_a_reference_there_is_none(value: object, endpoint: str) -> None:
    """Whatever its shape and whatever its texts say."""
    assert told(endpoint, {"input": value, "messages": value, "tools": value}) is None


@given(anything, st.sampled_from([(CHAT, "messages"), (RESPONSES, "input"), (RESPONSES, "tools")]), st.data())
def test_a_file_is_found_however_deep(value: object, place: tuple[str, str], data: st.DataObject) -> None:
    endpoint, field = place
    inner: Any = {"file_id": "file-1"}
    for name in data.draw(st.lists(st.sampled_from(["content", "a", "text"]), max_size=4)):
        inner = data.draw(st.sampled_from([{name: inner}, {name: [value, inner]}]))
    assert told(endpoint, {field: [value, inner]}) == State("file_id")


BROKEN = Judgement(
    Verdict.BROKEN, Scope.MODEL, "model_not_found", "x", 404, cooldown=9.0, told=True, counts=True, rejects=None
)
JUDGED = [
    ("a 404", BROKEN, (Verdict.FATAL, Scope.REQUEST, NOT_FOUND)),
    (
        "a 410",
        Judgement(Verdict.BROKEN, Scope.MODEL, "model_not_found", "x", 410),
        (Verdict.FATAL, Scope.REQUEST, NOT_FOUND),
    ),
    ("a 401", Judgement(Verdict.BROKEN, Scope.KEY, "bad_key", "x", 401), (Verdict.BROKEN, Scope.KEY, "bad_key")),
    (
        "a 503",
        Judgement(Verdict.TRANSIENT, Scope.MODEL, "overloaded", "x", 503),
        (Verdict.TRANSIENT, Scope.MODEL, "overloaded"),
    ),
    ("a good answer", Judgement(Verdict.OK, Scope.REQUEST, "ok", ""), (Verdict.OK, Scope.REQUEST, "ok")),
    (
        "a refusal",
        Judgement(Verdict.FATAL, Scope.REQUEST, "bad_request", "x", 404),
        (Verdict.FATAL, Scope.REQUEST, "bad_request"),
    ),
]


@pytest.mark.parametrize(("judgement", "expected"), [j[1:] for j in JUDGED], ids=[j[0] for j in JUDGED])
def test_a_404_about_state_speaks_of_the_request(judgement: Judgement, expected: tuple[Verdict, Scope, str]) -> None:
    found = about_state(judgement)
    assert (found.verdict, found.scope, found.reason) == expected
    assert (found.message, found.status) == (judgement.message, judgement.status)
    if found.reason == NOT_FOUND:
        assert (found.cooldown, found.told, found.counts) == (None, False, False)
