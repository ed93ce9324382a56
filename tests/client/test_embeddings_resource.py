"""The embeddings resource takes what the official one takes, refuses what it refuses, and ends as it ends."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import openai
import pytest
from openai import resources

import shim
from shim import embeddings
from tests.support import answers
from tests.support.faces import FAMILY, MODEL, Face, configuration, out
from tests.support.fixtures import Serve
from tests.support.server import Peer, Script, Seen

METHODS = {
    "sync": (embeddings.Embeddings.create, resources.Embeddings.create),
    "async": (embeddings.AsyncEmbeddings.create, resources.AsyncEmbeddings.create),
}


@pytest.mark.parametrize(("ours", "official"), METHODS.values(), ids=METHODS)
def test_its_signature_and_help_are_the_official_ones(ours: Any, official: Any) -> None:
    assert inspect.signature(ours) == inspect.signature(official)
    assert ours.__doc__ == official.__doc__
    assert inspect.iscoroutinefunction(ours) == inspect.iscoroutinefunction(official)
    assert ours is not official


@pytest.mark.parametrize("view", ["plain", "raw"])
@pytest.mark.parametrize("unknown", [{"dimension": 3}, {"dimensions": 3, "foo": 1}, {"Timeout": 5}], ids=str)
async def test_an_unknown_argument_is_refused_and_nothing_is_sent(
    plain: Face, serve: Serve, unknown: dict[str, Any], view: str
) -> None:
    server = serve(answers.embeds())
    resource = plain.client(configuration("embedding", server)).embeddings
    if view == "raw":
        resource = resource.with_raw_response
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        await out(resource.create(model=MODEL, input="x", **unknown))
    assert server.seen == []


@pytest.mark.parametrize("missing", ["model", "input"])
async def test_a_missing_argument_is_refused(plain: Face, serve: Serve, missing: str) -> None:
    client = plain.client(configuration("embedding", serve(answers.embeds())))
    given = {"model": MODEL, "input": "x"}
    del given[missing]
    with pytest.raises(TypeError, match=missing):
        await out(client.embeddings.create(**given))


GIVEN: dict[str, dict[str, Any]] = {
    "dimensions": {"dimensions": 4},
    "user": {"user": "someone"},
    "encoding_format": {"encoding_format": "float"},
    "extra_body": {"extra_body": {"more": 1}},
    "extra_query": {"extra_query": {"more": "1"}},
    "extra_headers": {"extra_headers": {"x-more": "1"}},
    "timeout": {"timeout": 20},
    "not given": {"dimensions": openai.NOT_GIVEN, "user": openai.NOT_GIVEN, "extra_body": None, "extra_query": None},
}


@pytest.mark.parametrize("given", GIVEN.values(), ids=GIVEN)
async def test_every_official_argument_is_taken_and_sent(face: Face, serve: Serve, given: dict[str, Any]) -> None:
    server = serve(
        lambda request, peer: peer.answer(200, answers.embeddings(request, request.json.get("dimensions", 8)))
    )
    client = face.client(configuration("embedding", server))
    answer = await out(client.embeddings.create(model=MODEL, input=["x", "y"], **given))
    assert [row.index for row in answer.data] == [0, 1]
    assert all(isinstance(number, float) for row in answer.data for number in row.embedding)
    expected = {**given, **(given.get("extra_body") or {})}
    sent = server.seen[0].json
    for name in ("dimensions", "user", "more"):
        assert sent.get(name, openai.NOT_GIVEN) == expected.get(name, openai.NOT_GIVEN)


def nothing(request: Seen, peer: Peer) -> None:
    peer.answer(200, {"object": "list", "data": [], "model": "m", "usage": {"prompt_tokens": 0, "total_tokens": 0}})


async def test_no_inputs_may_have_no_vectors(face: Face, serve: Serve) -> None:
    """As with the official client, and the length of the family is not taken from them."""
    empty = True

    def script(request: Seen, peer: Peer) -> None:
        (nothing if empty else answers.embeds())(request, peer)

    client = face.client(configuration("embedding", serve(script)))
    answer = await out(client.embeddings.create(model=MODEL, input=[], encoding_format="float"))
    assert answer.data == []
    assert client.router._board.families[FAMILY].locked is None
    empty = False
    assert len((await out(client.embeddings.create(model=MODEL, input="x"))).data[0].embedding) == 8


ENDS: dict[str, tuple[Script, type[Exception]]] = {
    "an empty answer": (nothing, ValueError),
    "a refusal": (
        answers.fails(400, answers.error("input is empty", type="invalid_request_error")),
        openai.BadRequestError,
    ),
}


@pytest.mark.parametrize(("script", "error"), ENDS.values(), ids=ENDS)
async def test_no_inputs_end_as_with_the_official_client(
    plain: Face, serve: Serve, script: Script, error: type[Exception]
) -> None:
    server = serve(script)
    make = openai.AsyncOpenAI if plain.is_async else openai.OpenAI
    official = make(api_key="k", base_url=server.base_url, max_retries=0)
    with pytest.raises(error) as theirs:
        await out(official.embeddings.create(model="m-a", input=[]))
    await out(official.close())
    client = plain.client(configuration("embedding", server))
    with pytest.raises(error) as ours:
        await out(client.embeddings.create(model=MODEL, input=[]))
    assert str(ours.value) == str(theirs.value)
    assert not isinstance(ours.value, shim.AllProvidersFailedError)


@pytest.mark.parametrize("wrap", [functools.wraps, lambda method: lambda traced: traced], ids=["named alike", "bare"])
async def test_who_traces_the_official_method_sees_each_call(
    face: Face, serve: Serve, monkeypatch: pytest.MonkeyPatch, wrap: Any
) -> None:
    """Tracing libraries wrap it; the shorter way would pass them by."""
    seen: list[Any] = []
    cls = openai.resources.AsyncEmbeddings if face.is_async else openai.resources.Embeddings
    official: Any = cls.create

    @wrap(official)
    def traced(self: Any, **given: Any) -> Any:
        seen.append(given["input"])
        return official(self, **given)

    monkeypatch.setattr(cls, "create", traced)
    client = face.client(configuration("embedding", serve(answers.embeds())))
    answer = await out(client.embeddings.create(model=MODEL, input=["a"]))
    assert (seen, len(answer.data[0].embedding)) == ([["a"]], 8)
