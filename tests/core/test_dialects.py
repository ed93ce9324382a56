"""Requests and answers of embedding services that do not speak OpenAI's format."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shim._core.dialects import Wire, address, decode, encode
from shim._core.outcome import Judgement
from shim._core.vectors import Embedded, Wanted, read
from shim.events import Scope, Verdict

TEXTS = ["a", "b"]
FIELDS: dict[str, object] = {"input": TEXTS, "model": "asked", "encoding_format": "base64", "user": "u"}


def sent(wire: Wire, fields: dict[str, object], model: str = "m/one") -> tuple[str, Any]:
    result = encode(wire, fields, model=model)
    assert not isinstance(result, Judgement), result
    return result[0], json.loads(result[1])


def received(wire: Wire, body: object, count: int) -> Embedded | Judgement:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    native = decode(wire, raw, model="m-1")
    return native if isinstance(native, Judgement) else read(native, Wanted(count))


@pytest.mark.parametrize("wire", [Wire.OPENAI, Wire.AZURE])
def test_openai_and_azure_send_the_fields_as_they_are_with_the_routes_model(wire: Wire) -> None:
    fields = {**FIELDS, "dimensions": 4, "input_type": "query"}
    assert sent(wire, fields) == ("/embeddings", {**fields, "model": "m/one"})


def test_azure_addresses_hold_the_deployment() -> None:
    base = "https://name.openai.azure.com/openai/deployments/{model}/"
    assert address(base, "/embeddings", model="my dep/1").endswith("/openai/deployments/my%20dep%2F1/embeddings")
    assert address("https://x/v1", "/embeddings", model="m") == "https://x/v1/embeddings"


def test_huggingface_sends_texts_to_the_models_own_path() -> None:
    path, body = sent(Wire.HUGGINGFACE, {**FIELDS, "input_type": "query"}, "BAAI/bge m3")
    assert path == "/models/BAAI/bge%20m3/pipeline/feature-extraction"
    assert body == {"inputs": TEXTS, "normalize": True, "truncate": False}


def test_a_lone_text_is_sent_as_a_list_of_one() -> None:
    """Then a matrix of tokens cannot be taken for several vectors."""
    assert sent(Wire.HUGGINGFACE, {"input": "a"})[1]["inputs"] == ["a"]
    assert sent(Wire.COHERE, {"input": "a"})[1]["texts"] == ["a"]


@pytest.mark.parametrize("wire", [Wire.HUGGINGFACE, Wire.COHERE])
def test_extra_fields_go_as_written_and_win(wire: Wire) -> None:
    body = sent(wire, {**FIELDS, "truncate": "END", "prompt_name": "query"})[1]
    assert (body["truncate"], body["prompt_name"]) == ("END", "query")
    assert "user" not in body
    assert "encoding_format" not in body


INPUT_TYPES = {
    None: "search_document",
    "document": "search_document",
    "passage": "search_document",
    "query": "search_query",
    "clustering": "clustering",
}


@pytest.mark.parametrize(("neutral", "native"), INPUT_TYPES.items())
def test_cohere_gets_its_own_word_for_the_input_type(neutral: str | None, native: str) -> None:
    path, body = sent(Wire.COHERE, {**FIELDS, "input_type": neutral, "dimensions": 256})
    assert path == "/v2/embed"
    assert body == {
        "model": "m/one",
        "texts": TEXTS,
        "input_type": native,
        "embedding_types": ["float"],
        "truncate": "NONE",
        "output_dimension": 256,
    }


TOKEN_INPUTS = {"tokens": [1, 2], "token arrays": [[1], [2]], "mixed": ["a", [1]], "nothing": [], "null": None}


@pytest.mark.parametrize("given", TOKEN_INPUTS.values(), ids=TOKEN_INPUTS)
@pytest.mark.parametrize("wire", [Wire.HUGGINGFACE, Wire.COHERE])
def test_wires_of_text_alone_cannot_take_token_arrays(wire: Wire, given: object) -> None:
    judgement = encode(wire, {"input": given}, model="m")
    assert isinstance(judgement, Judgement)
    assert (judgement.verdict, judgement.scope, judgement.counts) == (Verdict.CANNOT, Scope.REQUEST, False)
    assert judgement.reason == "text_only"


def test_huggingface_cannot_cut_dimensions() -> None:
    judgement = encode(Wire.HUGGINGFACE, {**FIELDS, "dimensions": 8}, model="m")
    assert isinstance(judgement, Judgement)
    assert (judgement.verdict, judgement.rejects) == (Verdict.CANNOT, "dimensions")


def test_a_lone_surrogate_is_sent_as_an_escape() -> None:
    assert sent(Wire.COHERE, {"input": "x\ud83d"})[1]["texts"] == ["x\ud83d"]


ROWS = [[0.5, -1.0], [1.5, 2.0]]
READ = {
    "huggingface list": (Wire.HUGGINGFACE, ROWS, None),
    "cohere v2": (Wire.COHERE, {"embeddings": {"float": ROWS}, "meta": {"billed_units": {"input_tokens": 7}}}, 7),
    "cohere v2 with a float count": (
        Wire.COHERE,
        {"id": "x", "embeddings": {"float": ROWS}, "meta": {"billed_units": {"input_tokens": 7.0}}},
        7,
    ),
    "cohere v1": (Wire.COHERE, {"embeddings": ROWS, "meta": {"api_version": {"version": "1"}}}, None),
    "cohere without meta": (Wire.COHERE, {"embeddings": {"float": ROWS}}, None),
    "cohere with odd meta": (Wire.COHERE, {"embeddings": {"float": ROWS}, "meta": [1]}, None),
    "openai": (Wire.OPENAI, {"data": [{"embedding": row, "index": k} for k, row in enumerate(ROWS)]}, None),
}


@pytest.mark.parametrize(("wire", "body", "tokens"), READ.values(), ids=READ)
def test_native_answers_become_vectors_in_order(wire: Wire, body: object, tokens: int | None) -> None:
    result = received(wire, body, 2)
    assert isinstance(result, Embedded), result
    assert result.floats() == ROWS
    assert result.input_tokens == tokens
    assert wire is Wire.OPENAI or result.model == "m-1"


def test_a_vector_without_its_list_is_one_vector() -> None:
    result = received(Wire.HUGGINGFACE, b" [0.5, -1.0]\n", 1)
    assert isinstance(result, Embedded)
    assert result.floats() == [[0.5, -1.0]]


def test_the_answer_names_the_model_safely() -> None:
    native = decode(Wire.HUGGINGFACE, b"[[1.0]]", model='a"\n%s')
    assert isinstance(native, bytes)
    assert json.loads(native)["model"] == 'a"\n%s'


JUDGED = {
    "token matrices": (Wire.HUGGINGFACE, [[[0.5], [0.5]], [[0.5]]], "token_matrix", "pooling"),
    "spaced token matrices": (Wire.HUGGINGFACE, b"[ [ [0.5], [0.5] ] , [[1]] ]", "token_matrix", "row 0"),
    "error object": (Wire.HUGGINGFACE, {"error": "loading"}, "malformed", "Hugging Face"),
    "list of errors": (Wire.HUGGINGFACE, [{"error": "loading"}], "malformed", "Hugging Face"),
    "null row": (Wire.HUGGINGFACE, [[0.5], None], "malformed", "Hugging Face"),
    "bare NaN": (Wire.HUGGINGFACE, b"[[0.5, NaN], [1, 2]]", "not_finite", "NaN"),
    "HTML": (Wire.HUGGINGFACE, b"<html>", "malformed", "JSON"),
    "too few": (Wire.HUGGINGFACE, [[0.5]], "short_answer", "1 vectors"),
    "no rows": (Wire.HUGGINGFACE, [], "no_vectors", "0 vectors"),
    "one vector for two": (Wire.HUGGINGFACE, [0.5, 1.0], "short_answer", "1 vectors"),
    "cohere int8 alone": (Wire.COHERE, {"embeddings": {"int8": [[1], [2]]}}, "malformed", "float"),
    "cohere null": (Wire.COHERE, {"embeddings": None}, "malformed", "embeddings"),
    "cohere message": (Wire.COHERE, {"message": "no"}, "malformed", "embeddings"),
    "cohere list": (Wire.COHERE, [], "malformed", "embeddings"),
    "cohere string": (Wire.COHERE, {"embeddings": "x"}, "malformed", "embeddings"),
    "cohere number in an object": (Wire.COHERE, {"embeddings": {"float": 1}}, "malformed", "float"),
    "cohere cut off": (Wire.COHERE, b'{"embeddings": {"float": [[0.5', "malformed", "JSON"),
    "cohere NaN": (Wire.COHERE, b'{"embeddings": [[NaN]]}', "not_finite", "NaN"),
}


@pytest.mark.parametrize(("wire", "body", "reason", "words"), JUDGED.values(), ids=JUDGED)
def test_native_answers_without_a_vector_per_text_are_judged(wire: Wire, body: object, reason: str, words: str) -> None:
    judgement = received(wire, body, 2)
    assert isinstance(judgement, Judgement)
    assert (judgement.verdict, judgement.scope, judgement.reason) == (Verdict.TRANSIENT, Scope.MODEL, reason)
    assert words in judgement.message
