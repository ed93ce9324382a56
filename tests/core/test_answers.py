"""Whole answers with a 2xx: what counts as an answer, endpoint by endpoint, and what it says of itself."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim._core.answers import Answer, read, read_json, tokens
from shim._core.outcome import Judgement, Outcome
from shim.events import Scope, Verdict
from tests.shared_data import corpus_dir

CHAT, LEGACY, RESPONSES = "/chat/completions", "/completions", "/responses"
JSON = "application/json"


def outcome(body: object, content_type: str | None = JSON, status: int = 200) -> Outcome:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Outcome(status=status, headers={"content-type": content_type} if content_type else {}, body=raw)


def chat(message: object = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "message": message, "finish_reason": finish, **more}]}


@pytest.mark.parametrize(
    ("endpoint", "body"),
    [
        pytest.param(CHAT, chat({"content": "hi"}, "stop"), id="content"),
        pytest.param(CHAT, chat({"content": "hi"}), id="content without finish_reason"),
        pytest.param(CHAT, chat({"content": None, "tool_calls": [{"id": "1"}]}), id="tool calls alone"),
        pytest.param(CHAT, chat({"content": None, "refusal": "no"}), id="refusal alone"),
        pytest.param(CHAT, chat({"content": None, "reasoning_content": "hm"}), id="reasoning alone"),
        pytest.param(CHAT, chat({"content": None, "function_call": {"name": "f"}}), id="function call alone"),
        pytest.param(CHAT, chat({"content": None, "audio": {"data": "AA=="}}), id="audio alone"),
        pytest.param(CHAT, chat({"content": [{"type": "text"}]}), id="content in parts"),
        pytest.param(CHAT, chat({"content": ""}, "stop"), id="an empty answer that finished"),
        pytest.param(CHAT, chat({"content": None}, "content_filter"), id="filtered"),
        pytest.param(CHAT, chat(None, "content_filter"), id="filtered, without a message"),
        pytest.param(CHAT, chat({"content": ""}, "length"), id="cut at the first token"),
        pytest.param(
            CHAT, {"choices": [{"message": {"content": ""}}, {"message": {"content": "a"}}]}, id="one of two choices"
        ),
        pytest.param(CHAT, b" \n " + json.dumps(chat({"content": "hi"})).encode(), id="Q24 white space first"),
        pytest.param(LEGACY, {"choices": [{"text": ""}]}, id="completion"),
        pytest.param(RESPONSES, {"status": "completed", "output": [{}]}, id="response"),
        pytest.param(RESPONSES, {"status": "incomplete", "output": []}, id="incomplete response"),
        pytest.param(RESPONSES, {"status": "queued", "output": []}, id="background response"),
        pytest.param("/images/generations", {"data": [{"b64_json": "AA=="}]}, id="image"),
        pytest.param("/images/edits", {"data": [{"url": "https://x.invalid"}]}, id="edited image"),
        pytest.param("/moderations", {"results": [{}]}, id="moderation"),
        pytest.param("/rerank", {"results": [{"index": 0}]}, id="rerank"),
        pytest.param("/rerank", {"data": [{"index": 0}]}, id="rerank as Voyage says it"),
        pytest.param("/audio/transcriptions", {"text": ""}, id="transcription of silence"),
        pytest.param("/some/other", ["anything"], id="unknown endpoint"),
    ],
)
def test_answers(endpoint: str, body: object) -> None:
    """These are answers and are returned."""
    assert isinstance(read(endpoint, outcome(body)), Answer)


@pytest.mark.parametrize(
    ("endpoint", "body", "reason"),
    [
        pytest.param(CHAT, {"choices": []}, "empty answer", id="Q04 choices empty"),
        pytest.param(CHAT, {"choices": None}, "empty answer", id="choices null"),
        pytest.param(CHAT, {"choices": {"0": {}}}, "empty answer", id="choices of another type"),
        pytest.param(CHAT, {}, "empty answer", id="choices missing"),
        pytest.param(CHAT, ["a"], "empty answer", id="a list"),
        pytest.param(CHAT, {"choices": [None]}, "empty answer", id="choice null"),
        pytest.param(CHAT, chat(None, "stop"), "empty answer", id="message null"),
        pytest.param(CHAT, chat("hi", "stop"), "empty answer", id="message as text"),
        pytest.param(CHAT, chat({"content": ""}), "empty answer", id="nothing at all"),
        pytest.param(CHAT, chat({"content": None, "tool_calls": []}), "empty answer", id="no tool calls"),
        pytest.param(CHAT, chat({"content": "ha"}, "error"), "failed answer", id="finish_reason error"),
        pytest.param(CHAT, chat({"content": ""}, None, error={"message": "m"}), "failed answer", id="a choice's error"),
        pytest.param(LEGACY, {"choices": []}, "empty answer", id="completion without choices"),
        pytest.param(RESPONSES, {"status": "completed"}, "empty answer", id="response without output"),
        pytest.param(RESPONSES, {"status": "completed", "output": "a"}, "empty answer", id="output of another type"),
        pytest.param(RESPONSES, {"status": "failed", "output": []}, "failed answer", id="failed response"),
        pytest.param("/images/generations", {"data": []}, "empty answer", id="no image"),
        pytest.param("/images/generations", {"data": [None]}, "empty answer", id="image null"),
        pytest.param("/moderations", {}, "empty answer", id="no moderation"),
        pytest.param("/rerank", {"results": []}, "empty answer", id="no ranks"),
        pytest.param("/audio/transcriptions", {"words": []}, "empty answer", id="transcription without text"),
        pytest.param(CHAT, b"", "malformed answer", id="Q09 empty body"),
        pytest.param(CHAT, b"unsupported model: x", "malformed answer", id="Q08 plain text"),
        pytest.param(CHAT, b'{"choices": [{"mess', "malformed answer", id="cut JSON"),
        pytest.param(CHAT, b"[" * 200_000, "malformed answer", id="nested without end"),
        pytest.param("/some/other", b"<html>", "malformed answer", id="Q06 HTML of an unknown endpoint"),
    ],
)
def test_no_answers(endpoint: str, body: object, reason: str) -> None:
    """These are no answers: another route may serve, and the failure counts against the model's route."""
    judged = read(endpoint, outcome(body))
    assert isinstance(judged, Judgement)
    assert (judged.verdict, judged.scope, judged.reason) == (Verdict.TRANSIENT, Scope.MODEL, reason)
    assert (judged.status, judged.counts, judged.told) == (502, True, False)


@pytest.mark.parametrize(
    ("endpoint", "body", "content_type", "good"),
    [
        pytest.param("/audio/speech", b"\x00\x01", "audio/mpeg", True, id="speech"),
        pytest.param("/audio/speech", b"\x00\x01", None, True, id="speech without a type"),
        pytest.param("/audio/speech", b"", "audio/mpeg", False, id="no speech"),
        pytest.param("/audio/speech", b"{}", JSON, False, id="JSON for speech"),
        pytest.param("/audio/speech", b"{}", "application/problem+json; charset=utf-8", False, id="problem for speech"),
        pytest.param("/audio/speech", b"<p>", "text/html", False, id="HTML for speech"),
        pytest.param("/audio/speech", b" <!DOCTYPE html>", "audio/mpeg", False, id="HTML that calls itself speech"),
        pytest.param("/audio/transcriptions", b"hello", "text/plain", True, id="transcript as text"),
        pytest.param("/audio/transcriptions", b"WEBVTT\n", "text/vtt", True, id="transcript as VTT"),
        pytest.param("/audio/translations", b"1\n00:00", None, True, id="translation as SRT, untyped"),
        pytest.param("/audio/transcriptions", b"", "text/plain", False, id="no transcript"),
        pytest.param("/audio/transcriptions", b"<html>", "text/html", False, id="HTML for a transcript"),
        pytest.param("/audio/transcriptions", b"hello", JSON, False, id="text that calls itself JSON"),
        pytest.param("/audio/transcriptions", b'{"words":[]}', None, False, id="untyped JSON is read as JSON"),
    ],
)
def test_answers_that_need_not_be_json(endpoint: str, body: bytes, content_type: str | None, good: bool) -> None:
    """Speech is bytes and transcripts may be text; a page or an error document in their place is a failure."""
    assert isinstance(read(endpoint, outcome(body, content_type)), Answer) is good


@pytest.mark.parametrize(
    ("endpoint", "body", "content_type", "words"),
    [
        (CHAT, b"unsupported model: x", "text/plain", ["/chat/completions", "text/plain", "unsupported model: x"]),
        (CHAT, b"", None, ["200", "no content-type", "empty body"]),
        (CHAT, b'{"choices": []}', JSON, ["choices", "an empty list"]),
        (RESPONSES, b'{"status":"failed","error":{"code":"c","message":"engine died"}}', JSON, ["engine died"]),
    ],
    ids=["plain text", "empty body", "empty choices", "failed response"],
)
def test_messages_name_what_came(endpoint: str, body: bytes, content_type: str | None, words: list[str]) -> None:
    """A message tells the endpoint or the field, and the value."""
    judged = read(endpoint, outcome(body, content_type))
    assert isinstance(judged, Judgement)
    assert [word for word in words if word not in judged.message] == []


def test_messages_stay_short() -> None:
    """A whole page of HTML does not get into a message."""
    judged = read(CHAT, outcome(b"<html>" * 10_000, "text/html"))
    assert isinstance(judged, Judgement)
    assert len(judged.message) < 250


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        pytest.param({"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}, (3, 5), id="chat"),
        pytest.param({"input_tokens": 3, "output_tokens": 5}, (3, 5), id="responses"),
        pytest.param({"prompt_tokens": 3, "total_tokens": 8}, (3, None), id="total beside input"),
        pytest.param({"total_tokens": 8}, (8, None), id="total alone"),
        pytest.param({"total_tokens": 8, "completion_tokens": 5}, (3, 5), id="total and output"),
        pytest.param({"prompt_tokens": 3, "completion_tokens": None}, (3, None), id="null"),
        pytest.param({"prompt_tokens": "3", "completion_tokens": "many"}, (3, None), id="texts"),
        pytest.param({"prompt_tokens": 3.0, "completion_tokens": True}, (3, None), id="float and boolean"),
        pytest.param({"prompt_tokens": -1, "completion_tokens": float("nan")}, (None, None), id="negative and NaN"),
        pytest.param({"prompt_tokens": 0, "total_tokens": 0}, (0, None), id="zero is a figure"),
        pytest.param(None, (None, None), id="no usage"),
        pytest.param("none", (None, None), id="usage as text"),
        pytest.param([], (None, None), id="usage as list"),
    ],
)
def test_tokens(usage: object, expected: tuple[int | None, int | None]) -> None:
    """Usage in the words of either API; what is null, missing or nonsense is None."""
    assert tokens(usage) == expected
    assert read("/x", outcome({"usage": usage})) == Answer(*expected)


def test_answer_carries_model_and_id() -> None:
    """The model that answered and the id of the response are read; other types are not."""
    body = {
        **chat({"content": "hi"}),
        "id": "resp_1",
        "model": "m",
        "usage": {"prompt_tokens": 1, "completion_tokens": 2},
    }
    assert read(CHAT, outcome(body)) == Answer(1, 2, "m", "resp_1")
    assert read(CHAT, outcome({**body, "id": 7, "model": None})) == Answer(1, 2, None, None)


def test_json_that_only_the_official_client_takes() -> None:
    """NaN and half a surrogate pair are read, as `json.loads` reads them."""
    assert str(read_json(b'{"a":NaN}')) == "{'a': nan}"
    assert read_json(b'"\\ud83c"') == "\ud83c"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["choices", "message", "content", "usage", "output", "error", "audio"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(
    body=json_values.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=40),
    endpoint=st.sampled_from([CHAT, LEGACY, RESPONSES, "/images/edits", "/rerank", "/audio/transcriptions", "/x"]),
    content_type=st.sampled_from([JSON, "text/plain", None]),
)
def test_nothing_a_provider_sends_raises(body: bytes, endpoint: str, content_type: str | None) -> None:
    """Whatever comes is an answer or a judgement."""
    assert isinstance(read(endpoint, outcome(body, content_type)), Answer | Judgement)


ENDPOINTS = {"chat": CHAT, "completions": LEGACY, "responses": RESPONSES, "embeddings": "/embeddings"}


def recorded() -> list[Any]:
    folder = corpus_dir()
    index = json.loads((folder / "index.json").read_text("utf-8"))
    wanted = [entry for entry in index if entry["kind"] in ENDPOINTS and entry["status"] == 200]
    wanted = [entry for entry in wanted if entry["situation"] != "error_in_200"]
    return [pytest.param(entry["kind"], folder / entry["file"], id=entry["id"]) for entry in wanted]


@pytest.mark.parametrize(("kind", "file"), recorded())
def test_recorded_answers(kind: str, file: Any) -> None:
    """Every recorded success, refusal and filtered answer is an answer; its usage, where it has one, is read."""
    body = json.loads(file.read_text("utf-8"))["response"]["body"].encode()
    answer = read(ENDPOINTS[kind], outcome(body))
    assert isinstance(answer, Answer)
    if json.loads(body).get("usage"):
        assert answer.input_tokens is not None
