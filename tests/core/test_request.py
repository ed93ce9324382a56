"""Reading a caller's request shallowly, and what is told from its fields."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim._core.request import (
    Raw,
    count_inputs,
    endpoint_of,
    has_blank,
    is_null,
    is_true,
    multipart_is_stream,
    multipart_model,
    multipart_with_model,
    number_of,
    read_fields,
    sort_headers,
    text_of,
    write_fields,
)

PATHS = [
    ("/embeddings", "/embeddings"),
    ("/v1/embeddings", "/embeddings"),
    ("/v1/chat/completions", "/chat/completions"),
    ("/chat/completions", "/chat/completions"),
    ("/v1/completions", "/completions"),
    ("/v1/responses", "/responses"),
    ("/v1/images/generations", "/images/generations"),
    ("/v1/images/edits", "/images/edits"),
    ("/v1/images/variations", "/images/variations"),
    ("/v1/audio/speech", "/audio/speech"),
    ("/v1/audio/transcriptions", "/audio/transcriptions"),
    ("/v1/audio/translations", "/audio/translations"),
    ("/v1/moderations", "/moderations"),
    ("/v2/rerank", "/rerank"),
    ("/openai/deployments/gpt-4o/chat/completions", "/chat/completions"),
    ("/v1/responses/resp_1", None),
    ("/v1/responses/resp_1/input_items", None),
    ("/v1/chat/completions/chatcmpl_1", None),
    ("/v1/files", None),
    ("/v1/batches", None),
    ("/v1/models", None),
    ("/v1/fine_tuning/jobs", None),
    ("/v1/embeddingsx", None),
    ("/v1/speech", None),
    ("/v1/generations", None),
    ("embeddings", None),
    ("/", None),
    ("", None),
]


@pytest.mark.parametrize(("path", "endpoint"), PATHS, ids=[path or "empty" for path, _ in PATHS])
def test_endpoint_of(path: str, endpoint: str | None) -> None:
    assert endpoint_of(path) == endpoint


COUNTS = [
    ("a string", '"hi"', 1),
    ("an empty string", '""', 1),
    ("one text", '["hi"]', 1),
    ("three texts", '["a", "b", "c"]', 3),
    ("texts that hold brackets and commas", '["[1, 2]", "a,b"]', 2),
    ("an array of tokens", "[1, 2, 3]", 1),
    ("an array of one token", "[1]", 1),
    ("arrays of tokens", "[[1, 2], [3]]", 2),
    ("one array of tokens in a list", "[[1, 2]]", 1),
    ("white space everywhere", ' [ "a" , "b" ] ', 2),
    ("tokens after white space", " [ 1, 2 ]", 1),
    ("an empty list", "[]", 0),
    ("null", "null", None),
    ("a number", "5", None),
    ("an object", '{"a": 1}', None),
    ("a broken list", "[1, 2", None),
]


@pytest.mark.parametrize(("raw", "count"), [c[1:] for c in COUNTS], ids=[c[0] for c in COUNTS])
def test_count_inputs(raw: str, count: int | None) -> None:
    assert count_inputs(Raw(raw.encode())) == count


BLANKS = [('""', True), ('" \\n"', True), ('["a", ""]', True), ("[[1], []]", True), ('["a"]', False), ("[1, 2]", False)]


@pytest.mark.parametrize(("raw", "blank"), [*BLANKS, ("null", False), ("[]", False)], ids=repr)
def test_has_blank(raw: str, blank: bool) -> None:
    assert has_blank(Raw(raw.encode())) is blank


def test_no_input_counts_as_none() -> None:
    assert count_inputs(None) is None


@given(st.lists(st.text(), max_size=20))
def test_every_text_counts_once(texts: list[str]) -> None:
    assert count_inputs(Raw(json.dumps(texts).encode())) == len(texts)


NOT_OBJECTS = [
    ("nothing", b""),
    ("a list", b"[1]"),
    ("null", b"null"),
    ("a string", b'"model"'),
    ("broken JSON", b'{"model": "m"'),
    ("rubbish behind it", b'{"model": "m"}x'),
    ("a form", b"model=m&input=hi"),
    ("bytes that are no text", b"\xff\xfe\xfd"),
    ("nesting that no parser follows", b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    ("the same beside a lone surrogate", b'{"\\ud800":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
]


@pytest.mark.parametrize("body", [b[1] for b in NOT_OBJECTS], ids=[b[0] for b in NOT_OBJECTS])
def test_what_is_no_json_object_has_no_fields(body: bytes) -> None:
    assert read_fields(body) is None


VALUES = [
    ("numbers as written", b'{"model":"m","t":1.50,"big":12345678901234567890123,"e":1E5}'),
    ("escapes as written", b'{"model":"m","s":"\\u00e9\\/\\n"}'),
    ("inner white space as written", b'{"model":"m","o":{ "a" : [ 1,  2 ] }}'),
    ("text that is not ASCII", '{"model":"m","s":"żółć 🌍"}'.encode()),
    ("the order of the fields", b'{"z":1,"model":"m","a":2}'),
]


@pytest.mark.parametrize("body", [v[1] for v in VALUES], ids=[v[0] for v in VALUES])
def test_values_come_back_byte_for_byte(body: bytes) -> None:
    fields = read_fields(body)
    assert fields is not None
    assert write_fields(fields) == body


LOOSE = [
    ("a lone surrogate in a value", b'{"model": "m", "input": "a\\ud800b"}'),
    ("a lone surrogate in a name", b'{"model": "m", "a\\udc00": [1, "x"]}'),
    ("a number that is none", b'{"model": "m", "temperature": NaN}'),
    ("a byte order mark", b'\xef\xbb\xbf{"model": "m"}'),
    ("UTF-16", '{"model": "m"}'.encode("utf-16")),
]


@pytest.mark.parametrize("body", [b[1] for b in LOOSE], ids=[b[0] for b in LOOSE])
def test_json_that_only_python_reads_means_the_same_when_written_again(body: bytes) -> None:
    fields = read_fields(body)
    assert fields is not None
    assert text_of(fields["model"]) == "m"
    assert repr(json.loads(write_fields(fields))) == repr(json.loads(body))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
anything = st.characters(codec=None)  # lone surrogates too


@given(st.dictionaries(st.text(anything), json_values | st.text(anything), max_size=6))
def test_reading_and_writing_keeps_the_meaning(value: dict[str, object]) -> None:
    fields = read_fields(json.dumps(value).encode())
    assert fields is not None
    assert json.loads(write_fields(fields)) == value


@pytest.mark.parametrize(
    ("raw", "text"),
    [('"m"', "m"), ('"\\u00e9"', "é"), ("null", None), ("5", None), ('["m"]', None), ('"\\ud800"', None)],
)
def test_text_of(raw: str, text: str | None) -> None:
    assert text_of(Raw(raw.encode())) == text


@pytest.mark.parametrize(
    ("raw", "number"), [("256", 256), ("null", None), ("true", None), ("1.5", None), ('"256"', None), ("NaN", None)]
)
def test_number_of(raw: str, number: int | None) -> None:
    assert number_of(Raw(raw.encode())) == number


def test_an_absent_field_is_neither_text_nor_number_nor_true() -> None:
    assert (text_of(None), number_of(None), is_true(None), is_null(None)) == (None, None, False, True)


@pytest.mark.parametrize(
    ("raw", "true", "null"),
    [
        ("true", True, False),
        (" true ", True, False),
        ("false", False, False),
        ("null", False, True),
        ("1", False, False),
    ],
)
def test_is_true_and_is_null(raw: str, true: bool, null: bool) -> None:
    assert (is_true(Raw(raw.encode())), is_null(Raw(raw.encode()))) == (true, null)


def form(*parts: tuple[str, bytes], boundary: bytes = b"b0") -> bytes:
    """A multipart form; each part is the rest of its disposition and its content."""
    body = b"".join(
        b"--" + boundary + b"\r\nContent-Disposition: form-data; " + rest.encode() + b"\r\n\r\n" + content + b"\r\n"
        for rest, content in parts
    )
    return body + b"--" + boundary + b"--\r\n"


AUDIO = ('name="file"; filename="a.mp3"\r\nContent-Type: audio/mpeg', b"\x00\xff\r\nID3\r\n\x00")
FORMS = [
    ("the model first", form(('name="model"', b"old"), AUDIO), b"old"),
    ("the model last", form(AUDIO, ('name="model"', b"old")), b"old"),
    ("the model with a content type", form(('name="model"\r\nContent-Type: text/plain', b"old"), AUDIO), b"old"),
    ("an unquoted name", form(("name=model", b"old")), b"old"),
    (
        "a file that is called model",
        form(('name="file"; filename="model"', b"sound"), ('name="model"', b"old")),
        b"old",
    ),
    ("an empty model", form(('name="model"', b"")), b""),
]


@pytest.mark.parametrize(("body", "model"), [f[1:] for f in FORMS], ids=[f[0] for f in FORMS])
def test_the_model_of_a_form_is_replaced_and_nothing_else(body: bytes, model: bytes) -> None:
    assert multipart_model(body) == model.decode()
    renamed = multipart_with_model(body, r"new/\1é")
    assert multipart_model(renamed) == r"new/\1é"
    end = rb"name=model" if b"name=model" in body else rb'name="model"'
    head, tail = body.rsplit(end, 1)
    assert renamed == head + end + tail.replace(model + b"\r\n--", r"new/\1é".encode() + b"\r\n--", 1)


def test_what_looks_like_a_second_model_stays() -> None:
    prompt = b'say name="model"\r\n\r\nold\r\n--'
    body = form(('name="model"', b"old"), ('name="prompt"', prompt))
    assert prompt in multipart_with_model(body, "new")


@pytest.mark.parametrize(
    ("body", "streams"),
    [
        pytest.param(form(('name="stream"', b"true"), AUDIO), True, id="asked for"),
        pytest.param(form(AUDIO, ('name="stream"', b"false")), False, id="not asked for"),
        pytest.param(form(AUDIO), False, id="nothing said"),
        pytest.param(form(('name="file"; filename="stream"', b"true")), False, id="a file of that name"),
        pytest.param(form(('name="streams"', b"true")), False, id="another field"),
    ],
)
def test_a_form_may_ask_for_a_stream(body: bytes, streams: bool) -> None:
    assert multipart_is_stream(body) is streams


def test_a_form_without_a_model_stays() -> None:
    body = form(AUDIO, ('name="modelling"', b"x"))
    assert multipart_model(body) is None
    assert multipart_with_model(body, "new") == body


CALLERS = [
    (b"ACCEPT", b"a"),
    (b"Content-Type", b"c"),
    (b"user-agent", b"u"),
    (b"Idempotency-Key", b"i"),
    (b"Cookie", b"x"),
]


def test_headers_that_everybody_may_see_are_told_apart_in_any_case() -> None:
    found = sort_headers(CALLERS)
    assert found.all == CALLERS
    assert found.common == CALLERS[:4]
    assert found.content_type == b"c"
    assert found.hints == {}


SEEN = [
    ("the SDK that parses", {b"X-Stainless-Lang": b"python"}, False),
    (
        "the SDK asked for the raw response",
        {b"X-Stainless-Lang": b"python", b"x-stainless-raw-response": b"true"},
        True,
    ),
    ("no SDK at all", {}, True),
]


@pytest.mark.parametrize(("pairs", "seen"), [s[1:] for s in SEEN], ids=[s[0] for s in SEEN])
def test_who_can_look_at_the_headers_of_an_answer(pairs: dict[bytes, bytes], seen: bool) -> None:
    assert sort_headers(list(pairs.items())).are_seen is seen


def test_hints_are_found_in_any_case() -> None:
    assert sort_headers([(b"X-Shim-Route", b"lab"), (b"x-shim-FALLBACK", b"off")]).hints == {
        b"x-shim-route": b"lab",
        b"x-shim-fallback": b"off",
    }
