"""The watch over a streamed answer: commitment, hand-over of bytes, errors, completeness; by tables and the corpus."""

from __future__ import annotations

import importlib.util
import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shim._core.stream import StreamWatch
from tests.shared_data import corpus_dir

CHAT, LEGACY, RESPONSES = "/chat/completions", "/completions", "/responses"
DONE = b"data: [DONE]\n\n"


def sse(data: object, event: str | None = None) -> bytes:
    head = f"event: {event}\n" if event else ""
    return f"{head}data: {json.dumps(data)}\n\n".encode()


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, index: int = 0, **more: Any) -> bytes:
    return sse({"id": "x", "choices": [{"index": index, "delta": delta or {}, "finish_reason": finish}], **more})


def say(text: str) -> bytes:
    return chunk({"content": text})


def response(kind: str, **fields: Any) -> bytes:
    return sse({"type": kind, **fields}, event=kind)


ROLE = chunk({"role": "assistant", "content": ""})
STOP = chunk(finish="stop")
USAGE = sse({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 5}})
ERROR = sse({"error": {"message": "Overloaded", "code": 529}})
CREATED = response("response.created", response={"status": "in_progress", "error": None})
COMPLETED = response("response.completed", response={"usage": {"input_tokens": 7, "output_tokens": 2}})


def watch(endpoint: str, *chunks: bytes) -> tuple[StreamWatch, bytes]:
    watched = StreamWatch(endpoint)
    return watched, b"".join(watched.feed(part) for part in chunks)


@pytest.mark.parametrize(
    ("endpoint", "event", "commits"),
    [
        pytest.param(CHAT, say("a"), True, id="text"),
        pytest.param(CHAT, chunk({"refusal": "no"}), True, id="refusal"),
        pytest.param(CHAT, chunk({"reasoning_content": "hm"}), True, id="reasoning_content"),
        pytest.param(CHAT, chunk({"reasoning": "hm"}), True, id="reasoning"),
        pytest.param(CHAT, chunk({"tool_calls": [{"index": 0}]}), True, id="tool call"),
        pytest.param(CHAT, chunk({"function_call": {"name": "f"}}), True, id="function call"),
        pytest.param(CHAT, chunk({"audio": {"data": "AA=="}}), True, id="audio"),
        pytest.param(CHAT, chunk({"images": [{"type": "image_url"}]}), True, id="image"),
        pytest.param(CHAT, chunk({"content": [{"type": "text", "text": "a"}]}), True, id="content in parts"),
        pytest.param(CHAT, STOP, True, id="finish without content is an empty answer"),
        pytest.param(CHAT, ROLE, False, id="role alone"),
        pytest.param(CHAT, chunk({}), False, id="empty delta"),
        pytest.param(CHAT, chunk({"content": None, "tool_calls": [], "reasoning": ""}), False, id="delta of nothings"),
        pytest.param(CHAT, chunk({"audio": {"id": "a", "expires_at": 1}}), False, id="audio metadata"),
        pytest.param(CHAT, USAGE, False, id="usage alone"),
        pytest.param(CHAT, sse({"choices": [], "prompt_filter_results": [{}]}), False, id="azure prompt filter"),
        pytest.param(CHAT, sse({"choices": None}), False, id="choices null"),
        pytest.param(CHAT, sse({"choices": [None, {"delta": None}]}), False, id="choices of odd shape"),
        pytest.param(CHAT, sse({"type": "ping"}), False, id="ping with data"),
        pytest.param(CHAT, sse(["a"]), False, id="a list"),
        pytest.param(CHAT, b": OPENROUTER PROCESSING\n\n", False, id="comment"),
        pytest.param(LEGACY, sse({"choices": [{"text": "a", "index": 0}]}), True, id="completion text"),
        pytest.param(LEGACY, sse({"choices": [{"text": "", "index": 0}]}), False, id="empty completion text"),
        pytest.param(RESPONSES, CREATED, False, id="response.created"),
        pytest.param(RESPONSES, response("response.queued"), False, id="response.queued"),
        pytest.param(RESPONSES, response("response.in_progress"), False, id="response.in_progress"),
        pytest.param(RESPONSES, response("response.output_item.added", item={}), False, id="output_item.added"),
        pytest.param(RESPONSES, response("response.content_part.added"), False, id="content_part.added"),
        pytest.param(RESPONSES, response("response.output_text.delta", delta=""), False, id="empty text delta"),
        pytest.param(RESPONSES, response("keepalive"), False, id="keepalive event"),
        pytest.param(RESPONSES, response("response.output_text.delta", delta="a"), True, id="text delta"),
        pytest.param(
            RESPONSES, response("response.reasoning_summary_text.delta", delta="a"), True, id="reasoning delta"
        ),
        pytest.param(
            RESPONSES, response("response.function_call_arguments.delta", delta="{"), True, id="arguments delta"
        ),
        pytest.param(RESPONSES, response("response.image_generation_call.partial_image"), True, id="partial image"),
        pytest.param(RESPONSES, response("response.web_search_call.searching"), True, id="a tool at work"),
        pytest.param(RESPONSES, COMPLETED, True, id="response.completed"),
        pytest.param(RESPONSES, response("response.incomplete", response={}), True, id="response.incomplete"),
        pytest.param("/audio/speech", b"\x00", True, id="first byte of anything else"),
    ],
)
def test_what_commits_a_stream(endpoint: str, event: bytes, commits: bool) -> None:
    """Only an event that carries content commits; until then no byte leaves, then all do."""
    watched, passed = watch(endpoint, event)
    assert watched.committed is commits
    assert watched.error is None
    assert (passed, watched.unsent()) == ((event, b"") if commits else (b"", event))


@pytest.mark.parametrize(
    ("endpoint", "stream", "reason"),
    [
        pytest.param(CHAT, ERROR, "error event", id="S02 error object"),
        pytest.param(CHAT, b": ping\n\n" + ERROR, "error event", id="comment, then error"),
        pytest.param(
            CHAT, sse({"choices": [], "error": {"code": 502}}), "error event", id="chunk with an error beside choices"
        ),
        pytest.param(CHAT, sse({"message": "rate limited"}, "error"), "error event", id="S24 event named error"),
        pytest.param(CHAT, sse({"type": "error", "error": {}}), "error event", id="Anthropic shape"),
        pytest.param(CHAT, sse({"object": "error", "message": "dead"}), "error event", id="vLLM shape"),
        pytest.param(CHAT, sse([{"error": {"code": 429}}]), "error event", id="error in a list"),
        pytest.param(CHAT, sse({"error": "boom"}), "error event", id="error as text"),
        pytest.param(CHAT, chunk(finish="error"), "error event", id="finish_reason error"),
        pytest.param(CHAT, b"data: <html>gateway</html>\n\n", "not JSON", id="S19 garbage"),
        pytest.param(CHAT, b"event: error\ndata:\n\n", "not JSON", id="an error that says nothing"),
        pytest.param(CHAT, b'data: {"a":"\xff"}\n\n', "not JSON", id="bytes that are no UTF-8"),
        pytest.param(CHAT, b"data: " + b"[" * 200_000 + b"\n\n", "not JSON", id="nested without end"),
        pytest.param(CHAT, DONE, "empty", id="[DONE] alone"),
        pytest.param(CHAT, ROLE + DONE, "empty", id="[DONE] after a role"),
        pytest.param(RESPONSES, CREATED + response("error", message="x"), "error event", id="error event of responses"),
        pytest.param(
            RESPONSES, CREATED + sse({"type": "error", "message": "x"}), "error event", id="error by type alone"
        ),
        pytest.param(RESPONSES, response("response.failed", response={}), "error event", id="response.failed"),
    ],
)
def test_error_before_content(endpoint: str, stream: bytes, reason: str) -> None:
    """A failure before content leaves the stream uncommitted and passes nothing on, so that another route may serve."""
    watched, passed = watch(endpoint, stream, STOP)
    assert watched.error is not None
    assert watched.error.reason == reason == watched.close()
    assert (watched.committed, passed, watched.unsent()) == (False, b"", stream)


@pytest.mark.parametrize(
    "error",
    [ERROR, sse({"message": "x"}, "error"), b"data: {broken\n\n", chunk(finish="error")],
    ids=["error object", "event named error", "broken JSON", "finish_reason error"],
)
def test_error_after_content_is_not_passed_on(error: bytes) -> None:
    """What came before the error is passed on to the byte; the error event and what follows are kept back."""
    watched, passed = watch(CHAT, ROLE + say("one") + b": ping\n\n" + error + say("two"), STOP)
    assert passed == ROLE + say("one") + b": ping\n\n"
    assert (watched.committed, watched.finished, watched.partial) == (True, False, "one")
    assert watched.close() in ("error event", "not JSON")


def test_error_words_inside_text_are_text() -> None:
    """Errors are read from the JSON's own keys, never from words."""
    watched, passed = watch(CHAT, say('data: {"error": {"type": "error"}}'))
    assert (watched.error, watched.partial) == (None, 'data: {"error": {"type": "error"}}')
    assert passed


@pytest.mark.parametrize(
    ("stream", "endpoint"),
    [
        (response("response.failed", response={"error": {"code": "server_error", "message": "m"}}), RESPONSES),
        (sse({"choices": [{"delta": {}, "error": {"code": "server_error", "message": "m"}}]}), CHAT),
    ],
    ids=["response.failed", "a choice's own error"],
)
def test_deeper_errors_come_as_an_envelope(stream: bytes, endpoint: str) -> None:
    """An error that lies deeper is lifted to where a judge looks for it."""
    watched, _ = watch(endpoint, stream)
    assert watched.error is not None
    assert json.loads(watched.error.data) == {"error": {"code": "server_error", "message": "m"}}


@pytest.mark.parametrize(
    ("endpoint", "stream", "reason"),
    [
        pytest.param(CHAT, say("a") + STOP + DONE, None, id="whole"),
        pytest.param(CHAT, say("a") + STOP, None, id="S07 no [DONE]"),
        pytest.param(CHAT, say("a") + STOP + USAGE, None, id="usage after the finish"),
        pytest.param(CHAT, say("a") + DONE, None, id="[DONE] without finish_reason"),
        pytest.param(CHAT, say("a") + b"data: [DONE]", None, id="[DONE] without its blank line"),
        pytest.param(CHAT, say("a") + STOP + chunk({}), None, id="empty delta after the finish"),
        pytest.param(CHAT, say("a") + STOP + b": by", None, id="half a comment after the finish"),
        pytest.param(CHAT, STOP, None, id="an empty answer"),
        pytest.param(CHAT, b"", "empty", id="no body"),
        pytest.param(CHAT, b": ping\n\n", "empty", id="comments alone"),
        pytest.param(CHAT, ROLE, "no finish", id="role alone"),
        pytest.param(CHAT, say("a") + USAGE, "no finish", id="S06 no finish_reason"),
        pytest.param(CHAT, say("a") + STOP[:-1], None, id="finish without its blank line"),
        pytest.param(CHAT, say("a") + STOP.rstrip(), None, id="finish without its line end"),
        pytest.param(CHAT, say("a") + say("b").rstrip(), "half event", id="content without its line end"),
        pytest.param(CHAT, say("a") + ERROR.rstrip(), "error event", id="an error without its line end"),
        pytest.param(CHAT, say("a") + b'data: {"cho', "half event", id="cut inside an event"),
        pytest.param(CHAT, b"data: [DONE]", "half event", id="half a [DONE] alone"),
        pytest.param(CHAT, say("a") + chunk({}, index=1) + STOP, "no finish", id="second choice unfinished"),
        pytest.param(CHAT, say("a") + chunk({}, "stop", 1) + STOP, None, id="both choices finished"),
        pytest.param(RESPONSES, CREATED + COMPLETED, None, id="response completed"),
        pytest.param(
            RESPONSES, CREATED + response("response.output_text.delta", delta="a"), "no finish", id="response cut"
        ),
        pytest.param("/audio/speech", b"", "empty", id="no audio"),
        pytest.param("/audio/speech", b"\x00", None, id="audio ends when it ends"),
    ],
)
def test_close_says_what_is_missing(endpoint: str, stream: bytes, reason: str | None) -> None:
    """A clean end of body counts as complete only with a finish_reason, [DONE] or the response's last event."""
    watched, passed = watch(endpoint, stream)
    assert watched.close() == reason
    assert (passed + watched.unsent()).removeprefix(stream).strip() == b""


def test_unfinished_event_waits_and_then_leaves_in_order() -> None:
    """After commitment half an event is held until its rest comes."""
    watched, passed = watch(CHAT, say("a"), STOP[:20])
    assert (passed, watched.unsent()) == (say("a"), STOP[:20])
    assert (watched.feed(STOP[20:30]), watched.feed(STOP[30:])) == (b"", STOP)


def test_nothing_after_done_is_read() -> None:
    """Bytes after [DONE] are passed on unread, so that the connection can be drained and reused (S29)."""
    watched, passed = watch(CHAT, say("a") + DONE + ERROR, b": bye\n\n", ERROR)
    assert (watched.error, watched.finished, watched.close()) == (None, True, None)
    assert passed == say("a") + DONE + ERROR + b": bye\n\n" + ERROR


def test_a_last_event_gets_the_blank_line_that_it_lacks() -> None:
    """Else the official client would overlook it, and with it the finish_reason or the usage."""
    watched, passed = watch(CHAT, say("a") + STOP + USAGE.rstrip())
    assert (watched.close(), watched.close()) == (None, None)
    assert passed + watched.unsent() == say("a") + STOP + USAGE
    assert watched.input_tokens == 3


@pytest.mark.parametrize("hollow", [b"data:\n\n", b"retry: 1\n\n", b"event: ping\n\n", b"id: 1\n\n"])
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_blocks_without_data_are_left_out(hollow: bytes, size: int) -> None:
    """They are no events; the official client would fail on their empty JSON. All other bytes stay."""
    stream = hollow + ROLE + hollow + b": c\n\n" + say("a") + hollow + STOP + hollow + DONE
    watched, passed = watch(CHAT, *(stream[at : at + size] for at in range(0, len(stream), size)))
    assert watched.close() is None
    assert passed + watched.unsent() == ROLE + b": c\n\n" + say("a") + STOP + DONE
    assert watched.events == 4


def test_comments_are_no_events() -> None:
    """An idle limit counts events with data alone."""
    watched, _ = watch(CHAT, b": a\n\n", ROLE, b": b\n\n: c\n\n", say("a"))
    assert watched.events == 2


@pytest.mark.parametrize(
    "ping", [sse({}, "ping"), sse({"type": "ping"}), sse({"type": "ping"}, "ping"), response("keepalive")]
)
@pytest.mark.parametrize("endpoint", [CHAT, RESPONSES])
def test_pings_are_no_events(endpoint: str, ping: bytes) -> None:
    """A gateway that pings for a model which is dead must not hold the stream open."""
    watched, _ = watch(endpoint, ping, ping)
    assert (watched.events, watched.committed) == (0, False)


OTHER = "/audio/transcriptions"
TEXT = sse({"type": "transcript.text.delta", "delta": "a"}, "transcript.text.delta")
OTHER_STREAMS = {
    "an event": (TEXT, True, None),
    "a ping alone": (sse({"type": "ping"}), False, "empty"),
    "an error first": (ERROR, False, "error event"),
    "an error after content": (TEXT + ERROR, True, "error event"),
    "half an event": (TEXT + TEXT[:20], True, "half event"),
    "[DONE]": (TEXT + DONE, True, None),
    "nothing": (b"", False, "empty"),
}


@pytest.mark.parametrize(("stream", "commits", "reason"), OTHER_STREAMS.values(), ids=OTHER_STREAMS)
def test_events_of_other_endpoints_are_read_as_well(stream: bytes, commits: bool, reason: str | None) -> None:
    """Transcripts, images and speech name no finish: a clean end is one, an error event is none."""
    watched = StreamWatch(OTHER)
    watched.expect_events()
    passed = watched.feed(stream)
    assert (watched.committed, watched.close()) == (commits, reason)
    if reason is None:
        assert passed + watched.unsent() == stream


@pytest.mark.parametrize(
    ("endpoint", "stream", "tokens"),
    [
        pytest.param(CHAT, say("a") + USAGE, (3, 5), id="chat"),
        pytest.param(
            CHAT, chunk(usage={"prompt_tokens": 36, "completion_tokens": None}) + USAGE, (3, 5), id="last one holds"
        ),
        pytest.param(CHAT, USAGE + chunk(usage=None) + chunk(usage="?"), (3, 5), id="null and nonsense change nothing"),
        pytest.param(CHAT, chunk(x_groq={"usage": {"prompt_tokens": 1, "completion_tokens": 2}}), (1, 2), id="groq"),
        pytest.param(RESPONSES, COMPLETED, (7, 2), id="responses"),
        pytest.param(CHAT, say("a"), (None, None), id="none"),
    ],
)
def test_tokens(endpoint: str, stream: bytes, tokens: tuple[int | None, int | None]) -> None:
    """Usage is read wherever it comes."""
    watched, _ = watch(endpoint, stream)
    assert (watched.input_tokens, watched.output_tokens) == tokens


def test_partial_is_the_first_choices_text() -> None:
    """Other choices and reasoning stay out of the partial text."""
    stream = say("one") + chunk({"content": "X"}, index=1) + chunk({"reasoning": "hm"}) + say(" two")
    assert watch(CHAT, stream)[0].partial == "one two"
    assert watch(LEGACY, sse({"choices": [{"text": "a"}]}))[0].partial == "a"
    deltas = response("response.output_text.delta", delta="a") + response("response.refusal.delta", delta="X")
    assert watch(RESPONSES, deltas)[0].partial == "a"


def test_json_that_only_the_official_client_takes() -> None:
    """NaN and a surrogate pair cut in two are read as the official client reads them."""
    halves = b"".join(
        b'data: {"choices":[{"logprobs":NaN,"delta":{"content":"\\u%s"}}]}\n\n' % h for h in (b"d83c", b"df0d")
    )
    watched, _ = watch(CHAT, halves)
    assert (watched.error, watched.partial) == (None, "🌍")
    assert watch(CHAT, b'data: {"choices":[{"delta":{"content":"\\ud83c"}}]}\n\n')[0].partial == "\ufffd"


def test_utf8_and_crlf_cut_anywhere() -> None:
    """S16: CRLF pairs and characters of three and four bytes cut inside, and `data:` without a space."""
    text = 'data:{"choices":[{"delta":{"content":"北京🌍"},"finish_reason":"stop"}]}\r\n\r\n'
    stream = text.encode()
    watched, passed = watch(CHAT, *(stream[i : i + 1] for i in range(len(stream))))
    assert (watched.partial, watched.close()) == ("北京🌍", None)
    assert passed + watched.unsent() == stream


def test_event_over_two_data_lines() -> None:
    """S32: one event's JSON over two lines, then doubled blank lines."""
    stream = b'data: {"id": "x",\ndata: "choices":[{"delta":{"content":"one"}}]}\n\n\n\n' + say(" two") + STOP
    assert watch(CHAT, stream)[0].partial == "one two"


PARTS = [
    ROLE,
    say("a"),
    say("é🌍"),
    STOP,
    USAGE,
    DONE,
    ERROR,
    b": c\n\n",
    b"\n",
    b"\r\n",
    b"data: {\n\n",
    b"data: {",
    b"\r",
]
RESPONSE_PARTS = [CREATED, COMPLETED, ERROR, b": c\r\n\r\n", response("response.output_text.delta", delta="a")]


@settings(deadline=None)
@given(
    stream=st.lists(st.sampled_from(PARTS), max_size=8).map(b"".join)
    | st.lists(st.sampled_from(RESPONSE_PARTS), max_size=6).map(b"".join),
    endpoint=st.sampled_from([CHAT, RESPONSES, "/audio/speech"]),
    carriage=st.booleans(),
    cuts=st.lists(st.integers(0, 900), max_size=20),
)
def test_cuts_change_nothing(stream: bytes, endpoint: str, carriage: bool, cuts: list[int]) -> None:
    """However a stream is cut: same commitment, error, text and ending, same bytes passed on, none lost or swapped."""
    stream = stream.replace(b"\n", b"\r\n") if carriage else stream
    places = sorted({cut for cut in cuts if cut < len(stream)} | {0, len(stream)})
    whole, passed_whole = watch(endpoint, stream)
    cut, passed_cut = watch(endpoint, *(stream[a:b] for a, b in pairwise(places)))
    assert passed_cut == passed_whole
    assert facts(cut) == facts(whole)
    assert stream.startswith(passed_cut)
    if cut.error is None:
        assert passed_cut + cut.unsent() == stream


def facts(watched: StreamWatch) -> tuple[object, ...]:
    state = (watched.committed, watched.error, watched.finished, watched.events, watched.partial, watched.close())
    return (*state, watched.input_tokens, watched.output_tokens)


def recorded() -> list[dict[str, Any]]:
    folder = corpus_dir()
    spec = importlib.util.spec_from_file_location("corpus_tools", folder / "corpus_tools.py")
    assert spec is not None
    assert spec.loader is not None
    tools = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tools)
    index = json.loads((folder / "index.json").read_text("utf-8"))
    files = [entry["file"] for entry in index if entry["kind"].endswith("_stream") and entry["status"] == 200]
    items = [json.loads((folder / file).read_text("utf-8")) for file in files]
    return [{**item, "chunks": tools.chunks(item)} for item in items]


ENDPOINTS = {"chat_stream": CHAT, "completions_stream": LEGACY, "responses_stream": RESPONSES}
NOT_AN_ANSWER = {
    # Filed as a success, but it is a role, "completion_tokens": 0 and [DONE]: no content, no finish_reason.
    "openrouter-chat-stream-success-200-01": "empty",
}
RECORDED = [pytest.param(item, id=item["id"]) for item in recorded()]


@pytest.mark.parametrize("item", RECORDED)
def test_recorded_streams(item: dict[str, Any]) -> None:
    """Recorded successes commit and end complete, to the byte; errors are seen before or after content, as filed."""
    watched, passed = watch(ENDPOINTS[item["kind"]], *item["chunks"])
    body = b"".join(item["chunks"])
    match item["situation"]:
        case "error_first_event":
            assert watched.error is not None
            assert (watched.committed, passed, watched.error.reason) == (False, b"", "error event")
        case "error_mid_stream":
            assert watched.error is not None
            assert watched.committed
            assert passed == body[: body.rindex(b"event: error")]
        case "empty_body":
            assert watched.close() == "empty"
        case _ if item["id"] in NOT_AN_ANSWER:
            assert (watched.committed, watched.close(), passed) == (False, NOT_AN_ANSWER[item["id"]], b"")
        case success:
            assert success.startswith("success")
            assert (watched.error, watched.committed, watched.finished, watched.close()) == (None, True, True, None)
            assert passed + watched.unsent() == body


@pytest.mark.parametrize("item", RECORDED)
def test_recorded_streams_cut_everywhere(item: dict[str, Any]) -> None:
    """The recorded streams in chunks of seven bytes tell the same."""
    body, endpoint = b"".join(item["chunks"]), ENDPOINTS[item["kind"]]
    whole, passed = watch(endpoint, body)
    cut, passed_cut = watch(endpoint, *(body[i : i + 7] for i in range(0, len(body), 7)))
    assert (passed_cut, facts(cut)) == (passed, facts(whole))


IDS = [
    ("told at once", RESPONSES, [response("response.created", response={"id": "resp_1"})], "resp_1"),
    ("told at the end", RESPONSES, [CREATED, response("response.completed", response={"id": "resp_1"})], "resp_1"),
    ("never told", RESPONSES, [CREATED, COMPLETED], None),
    ("no text", RESPONSES, [response("response.created", response={"id": 5})], None),
    ("the id of an item", RESPONSES, [response("response.output_item.added", item={"id": "msg_1"})], None),
    ("a chat's id stands for nothing that is kept", CHAT, [say("a"), STOP, DONE], None),
]


@pytest.mark.parametrize(("endpoint", "chunks", "told"), [i[1:] for i in IDS], ids=[i[0] for i in IDS])
def test_the_id_of_a_streamed_response(endpoint: str, chunks: list[bytes], told: str | None) -> None:
    """What builds on the response later needs to know who made it."""
    assert watch(endpoint, *chunks)[0].response_id == told
