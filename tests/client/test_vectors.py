"""Lengths, encodings, order and input types of embeddings, as the caller sees them."""

from __future__ import annotations

import math
from typing import Any

import openai
import pytest

import shim
from shim.events import Verdict
from tests.support import answers
from tests.support.faces import MODEL, Face, configuration, out
from tests.support.fixtures import Serve
from tests.support.server import Peer, Script, Seen


async def embed(client: Any, input: Any = "a", **extra: Any) -> Any:
    return await out(client.embeddings.create(model=MODEL, input=input, **extra))


def routes(**settings: object) -> list[dict[str, object]]:
    return [{"provider": "a", "model": "m-a", **settings}]


async def test_a_route_without_the_parameter_is_cut_and_renormalised(face: Face, serve: Serve) -> None:
    server = serve(answers.embeds(16))
    client = face.client(
        configuration("embedding", server, dimensions=16, matryoshka=True, routes=routes(dimensions_param=""))
    )
    whole, cut = (await embed(client)).data[0].embedding, (await embed(client, dimensions=4)).data[0].embedding
    norm = math.sqrt(sum(number * number for number in whole[:4]))
    assert cut == pytest.approx([number / norm for number in whole[:4]], abs=1e-6)
    assert "dimensions" not in server.seen[-1].json


async def test_without_matryoshka_such_a_route_cannot_serve(face: Face, serve: Serve) -> None:
    server = serve(answers.embeds(16))
    client = face.client(configuration("embedding", server, dimensions=16, routes=routes(dimensions_param="")))
    with pytest.raises(openai.APIStatusError, match="4 dimensions"):
        await embed(client, dimensions=4)
    assert server.seen == []


async def test_an_answer_of_another_length_is_never_returned(face: Face, serve: Serve) -> None:
    client = face.client(configuration("embedding", serve(answers.embeds(12)), serve(answers.embeds(8)), dimensions=8))
    answer = await embed(client)
    assert len(answer.data[0].embedding) == 8
    assert [attempt.verdict for attempt in shim.attempts(answer)] == [Verdict.BROKEN, Verdict.OK]


async def test_the_first_length_seen_locks_the_family(face: Face, serve: Serve) -> None:
    first, second = serve(answers.embeds(8)), serve(answers.embeds(12))
    client = face.client(configuration("embedding", first, second))
    await embed(client)
    client.router.force_open("a/m-a")
    with pytest.raises(shim.AllProvidersFailedError, match="the vectors have 12 components and must have 8"):
        await embed(client)


def _says(status: int, message: str, **more: object) -> Script:
    return lambda request, peer: peer.answer(status, {"error": {"message": message, "param": None, **more}})


NO_BASE64: dict[str, Script] = {
    "by code": _says(400, "Unknown parameter: 'encoding_format'.", code="unknown_parameter", param="encoding_format"),
    "by its value": _says(400, "encoding_format: base64 is not supported"),
    "in plain words": _says(422, "Only the float encoding format is supported"),
    "by no vectors at all": lambda request, peer: peer.answer(200, {"object": "list", "model": "m", "data": []}),
}


@pytest.mark.parametrize("refuse", NO_BASE64.values(), ids=NO_BASE64)
async def test_a_rejected_encoding_is_left_out_and_remembered(face: Face, serve: Serve, refuse: Script) -> None:
    def script(request: Seen, peer: Peer) -> None:
        if "encoding_format" in request.json:
            refuse(request, peer)
        else:
            peer.answer(200, answers.embeddings(request))

    server = serve(script)
    client = face.client(configuration("embedding", server))
    for _ in range(3):
        assert len((await embed(client)).data[0].embedding) == 8
    assert ["encoding_format" in request.json for request in server.seen] == [True, False, False, False]


async def test_an_encoding_that_nobody_knows_is_the_callers_mistake(plain: Face, serve: Serve) -> None:
    server = serve(_says(400, "Invalid value for 'encoding_format': 'md5'"))
    with pytest.raises(openai.BadRequestError, match="md5"):
        await embed(plain.client(configuration("embedding", server)), encoding_format="md5")
    assert len(server.seen) == 1


async def test_no_vectors_are_asked_for_as_floats_once(plain: Face, serve: Serve) -> None:
    first, second = serve(NO_BASE64["by no vectors at all"]), serve(answers.embeds())
    client = plain.client(configuration("embedding", first, second))
    for _ in range(2):
        await embed(client)
    assert ["encoding_format" in request.json for request in first.seen] == [True, False, False]


async def test_nothing_for_a_blank_text_is_no_fault_of_the_route(face: Face, serve: Serve) -> None:
    """Servers answer it by nulls, NaN or zeros: it must not open the breakers of all routes for everybody."""

    def script(request: Seen, peer: Peer) -> None:
        answer = answers.embeddings(request, base64_too=False)
        for row, text in zip(answer["data"], request.json["input"], strict=True):
            row["embedding"] = row["embedding"] if text.strip() else [0.0] * 8
        peer.answer(200, answer)

    servers = [serve(script), serve(script)]
    client = face.client(configuration("embedding", *servers, policy={"breaker": {"failures": 1}}))
    with pytest.raises(openai.BadRequestError, match="row 1 is all zeros; an input is blank"):
        await embed(client, ["a", " "])
    assert shim.attempts(await embed(client, ["a", "b"]))[0].provider == "a"


async def test_inputs_that_openai_does_not_know_are_passed_on(face: Face, serve: Serve) -> None:
    """Hosts of multimodal models take objects: one that it cannot count is no reason to distrust the answer."""
    client = face.client(configuration("embedding", serve(answers.embeds())))
    answer = await embed(client, {"image": "https://a.invalid/a.png"})
    assert len(answer.data) == 1


async def test_floats_in_place_of_base64_are_the_same_numbers(face: Face, serve: Serve) -> None:
    def floats(request: Seen, peer: Peer) -> None:
        peer.answer(200, answers.embeddings(request, base64_too=False))

    client, other = (face.client(configuration("embedding", serve(script))) for script in (floats, answers.embeds()))
    mine, theirs = await embed(client, ["a", "b"]), await embed(other, ["a", "b"])
    for left, right in zip(mine.data, theirs.data, strict=True):
        assert left.embedding == pytest.approx(right.embedding, abs=1e-6)


async def test_rows_out_of_order_are_put_in_order(face: Face, serve: Serve) -> None:
    def script(request: Seen, peer: Peer) -> None:
        answer = answers.embeddings(request)
        answer["data"].reverse()
        peer.answer(200, answer)

    mine = await embed(face.client(configuration("embedding", serve(script))), ["a", "b", "c"])
    right = await embed(face.client(configuration("embedding", serve(answers.embeds()))), ["a", "b", "c"])
    assert [row.index for row in mine.data] == [0, 1, 2]
    assert [row.embedding for row in mine.data] == [row.embedding for row in right.data]


async def test_a_missing_row_is_a_failed_attempt(face: Face, serve: Serve) -> None:
    def script(request: Seen, peer: Peer) -> None:
        answer = answers.embeddings(request)
        answer["data"].pop()
        peer.answer(200, answer)

    client = face.client(configuration("embedding", serve(script), serve(answers.embeds())))
    assert len((await embed(client, ["a", "b"])).data) == 2
    assert client.router.calls[-1].attempts[0].verdict is Verdict.TRANSIENT


@pytest.mark.parametrize("tokens", [[1, 2, 3], [[1, 2], [3]]], ids=["one", "several"])
async def test_token_arrays_are_passed_on(face: Face, serve: Serve, tokens: Any) -> None:
    server = serve(answers.embeds())
    answer = await embed(face.client(configuration("embedding", server)), tokens)
    assert server.seen[0].json["input"] == tokens
    assert len(answer.data) == (1 if isinstance(tokens[0], int) else 2)


async def test_the_input_type_is_told_in_the_routes_words(plain: Face, serve: Serve) -> None:
    first, second = serve(answers.fails(500)), serve(answers.embeds())
    rules = [
        {
            "provider": "a",
            "model": "m-a",
            "input_type": {"parameter": "task", "query": "retrieval.query", "document": "retrieval.passage"},
        },
        {"provider": "b", "model": "m-b", "input_type": {"query_prefix": "query: "}},
    ]
    client = plain.client(configuration("embedding", first, second, routes=rules))
    await embed(client, "a", extra_body={"input_type": "query"})
    assert first.seen[0].json["task"] == "retrieval.query"
    assert "input_type" not in first.seen[0].json
    assert second.seen[0].json["input"] in ("query: a", ["query: a"])
