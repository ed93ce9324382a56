"""What a bad embedding request is told: status, parameter, code, and never a vector."""

from __future__ import annotations

import json

import pytest

from shim.local.provider import LocalProvider
from shim.local.request import MAX_TEXTS

MODEL = "wordllama-256"

BAD = {
    "not JSON": (b"{", 400, None, None, "parse"),
    "not UTF-8": (b'{"model": "\xff"}', 400, None, None, "parse"),
    "nested too deep": (b"[" * 100_000, 400, None, None, "parse"),
    "an array": (b"[]", 400, None, None, "JSON object"),
    "no model": ({"input": "x"}, 400, "model", None, "model parameter"),
    "model a number": ({"model": 3, "input": "x"}, 400, "model", "invalid_type", "a number"),
    "unknown model": ({"model": "gpt-9", "input": "x"}, 404, "model", "model_not_found", "wordllama-256"),
    "no input": ({"model": MODEL}, 400, "input", "missing_required_parameter", "'input'"),
    "empty string": ({"model": MODEL, "input": ""}, 400, "input", None, "empty"),
    "empty array": ({"model": MODEL, "input": []}, 400, "input", None, "0 items"),
    "too many texts": ({"model": MODEL, "input": ["x"] * (MAX_TEXTS + 1)}, 400, "input", None, "2049 items"),
    "empty string within": ({"model": MODEL, "input": ["a", ""]}, 400, "input[1]", None, "input[1]"),
    "null within": ({"model": MODEL, "input": ["a", "b", None]}, 400, "input[2]", "invalid_type", "null"),
    "number after text": ({"model": MODEL, "input": ["a", 1.5]}, 400, "input[1]", "invalid_type", "a number"),
    "boolean within": ({"model": MODEL, "input": [True]}, 400, "input[0]", "invalid_type", "a boolean"),
    "an object": ({"model": MODEL, "input": {"a": 1}}, 400, "input", "invalid_type", "an object"),
    "token array": ({"model": MODEL, "input": [1, 2]}, 400, "input", "unsupported_value", "text alone"),
    "token arrays": ({"model": MODEL, "input": [[1], [2]]}, 400, "input", "unsupported_value", "text alone"),
    "lone surrogate": (b'{"model": "wordllama-256", "input": ["a", "b\\ud800"]}', 400, "input[1]", None, "position 1"),
    "surrogate in model": (b'{"model": "\\ud800", "input": "a"}', 404, "model", "model_not_found", r"\ud800"),
    "dimensions of no use": (
        {"model": MODEL, "input": "x", "dimensions": 100},
        400,
        "dimensions",
        "unsupported_value",
        "256",
    ),
    "dimensions zero": ({"model": MODEL, "input": "x", "dimensions": 0}, 400, "dimensions", "unsupported_value", "0"),
    "dimensions a string": (
        {"model": MODEL, "input": "x", "dimensions": "64"},
        400,
        "dimensions",
        "invalid_type",
        "a string",
    ),
    "dimensions true": (
        {"model": MODEL, "input": "x", "dimensions": True},
        400,
        "dimensions",
        "invalid_type",
        "a boolean",
    ),
    "dimensions a float": (
        {"model": MODEL, "input": "x", "dimensions": 64.0},
        400,
        "dimensions",
        "invalid_type",
        "a number",
    ),
    "unknown encoding": (
        {"model": MODEL, "input": "x", "encoding_format": "hex"},
        400,
        "encoding_format",
        None,
        "base64",
    ),
    "encoding a number": (
        {"model": MODEL, "input": "x", "encoding_format": 1},
        400,
        "encoding_format",
        "invalid_type",
        "a string",
    ),
    "user an array": ({"model": MODEL, "input": "x", "user": []}, 400, "user", "invalid_type", "an array"),
}


@pytest.mark.parametrize(("body", "status", "param", "code", "says"), BAD.values(), ids=BAD.keys())
def test_a_bad_request_is_refused(body: object, status: int, param: str | None, code: str | None, says: str) -> None:
    """The refusal has OpenAI's error shape, names the parameter and says what is wrong."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    got, headers, answer = LocalProvider().handle("POST", "/embeddings", raw)
    error = json.loads(answer)["error"]
    assert (got, error["param"], error["code"]) == (status, param, code)
    assert error["type"] == "invalid_request_error"
    assert set(error) == {"message", "type", "param", "code"}
    assert says in error["message"]
    assert ("content-type", "application/json") in headers


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/embeddings", 405),
        ("POST", "/models", 405),
        ("POST", "/chat/completions", 404),
        ("GET", "/", 404),
        ("GET", "/models/gpt-9", 404),
        ("GET", "/v1/models/wordllama-256", 200),
        ("GET", "/models/all-minilm-l6-v2", 200),
        ("GET", "/v1/models/?limit=3", 200),
    ],
)
def test_paths_and_methods(method: str, path: str, status: int) -> None:
    """Every path has an answer, with or without /v1 and a query."""
    assert LocalProvider().handle(method, path, b"")[0] == status
