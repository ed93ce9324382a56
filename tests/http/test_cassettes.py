"""Cassettes that were recorded from a real server replay through the routed client with the server gone."""

from __future__ import annotations

import math
import socket
from typing import Any

import pytest

import shim
from shim.events import Verdict
from tests.http.recorded import LENGTH, LOCAL, SYNTHETIC, TEXTS, config, tape
from tests.support.faces import MODEL, Face, out

GONE = ("http://127.0.0.1:9/v1", "http://127.0.0.1:10/v1")
"""Ports that nobody listens on."""


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: Any) -> Any:
        raise AssertionError(f"a socket was to be connected: {given[1:]}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "connect_ex", refuse)


async def _embed(client: Any) -> Any:
    return await out(client.embeddings.create(model=MODEL, input=TEXTS))


async def test_a_recorded_answer_replays(face: Face) -> None:
    with tape(LOCAL, GONE[0]) as cassette:
        answer = await _embed(face.client(config(GONE[0])))
    assert len(cassette.played) == 1
    assert [len(row.embedding) for row in answer.data] == [LENGTH] * 2
    assert all(math.isclose(math.hypot(*row.embedding), 1, abs_tol=1e-3) for row in answer.data)


async def test_a_recorded_rate_limit_is_followed_by_the_other_route(face: Face) -> None:
    with tape(SYNTHETIC, *GONE) as cassette:
        answer = await _embed(face.client(config(*GONE)))
    assert len(cassette.played) == 2
    assert [attempt.verdict for attempt in shim.attempts(answer)] == [Verdict.TRANSIENT, Verdict.OK]
    assert [attempt.status for attempt in shim.attempts(answer)] == [429, 200]


async def test_the_vectors_are_those_of_the_model(face: Face) -> None:
    """What was recorded is what the local model says today."""
    with tape(LOCAL, GONE[0]):
        recorded = await _embed(face.client(config(GONE[0])))
    local = {
        "providers": {"local": {}},
        "families": {"fam": {"kind": "embedding", "aliases": [MODEL], "routes": ["local/wordllama-256"]}},
    }
    fresh = await _embed(face.client(local))
    for left, right in zip(recorded.data, fresh.data, strict=True):
        assert left.embedding == pytest.approx(right.embedding, abs=1e-5)


@pytest.mark.parametrize("path", [LOCAL, SYNTHETIC], ids=lambda path: path.stem)
def test_no_cassette_holds_a_key_or_a_port(path: Any) -> None:
    text = path.read_text().lower()
    assert "key-of" not in text
    assert "authorization" not in text
    assert "127.0.0.1" not in text
