"""Embeddings answers that real providers gave are read; their known bad payloads are judged."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shim._core.outcome import Judgement
from shim._core.vectors import Embedded, Wanted, read
from shim.events import Verdict
from tests.shared_data import corpus_dir


def _recorded() -> list[Any]:
    found = []
    for path in sorted(corpus_dir().glob("dev/*/*-embeddings-success-*.json")):
        record = json.loads(path.read_text("utf-8"))
        if record["authenticity"] == "recorded":
            found.append(pytest.param(record, id=record["id"]))
    return found


@pytest.mark.parametrize("record", _recorded())
def test_recorded_answers_are_read_and_the_two_known_bad_payloads_are_not(record: dict[str, Any]) -> None:
    body = record["response"]["body"].encode()
    given_input = (record["request"]["body"] or {"input": []})["input"]
    count = len(json.loads(body)["data"]) if isinstance(given_input, list) else 1
    result = read(body, Wanted(count))
    if record["provider"] in ("perplexity", "vllm"):
        # int8 and float64 payloads: the official client turns both into garbage without a word.
        assert isinstance(result, Judgement)
        assert result.verdict in (Verdict.BROKEN, Verdict.TRANSIENT)
    else:
        assert isinstance(result, Embedded), result
        assert result.intact


def test_the_recorded_int8_answer_is_read_by_a_route_that_is_set_to_int8() -> None:
    path = corpus_dir() / "dev/perplexity/perplexity-embeddings-success-b64-single-200-01.json"
    result = read(json.loads(path.read_text("utf-8"))["response"]["body"].encode(), Wanted(1, 1024, int8=True))
    assert isinstance(result, Embedded), result
    assert result.dimensions == 1024
    assert all(-128 <= component <= 127 and component.is_integer() for component in result.floats()[0])
