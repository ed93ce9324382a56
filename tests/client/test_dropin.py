"""What the official client offers works on a routed call: copies, raw answers, helpers, context managers, limits."""

from __future__ import annotations

from typing import Any

import openai
import pydantic
import pytest

import shim
from shim import Router
from shim.events import Ending, Verdict
from tests.support import answers
from tests.support.faces import FAMILY, HELLO, MODEL, Both, Face, all_of, configuration, out
from tests.support.fixtures import Serve
from tests.support.server import Peer, Seen


class Answer(pydantic.BaseModel):
    """What the structured answers below are parsed into."""

    number: int


async def ask(client: Any, **extra: Any) -> Any:
    return await out(client.chat.completions.create(model=MODEL, messages=HELLO, **extra))


# -- copies


async def test_a_copy_keeps_the_router_and_its_health(face: Face, serve: Serve) -> None:
    server = serve(answers.says())
    client = face.client(configuration("chat", server))

    for copy in (client.copy(), client.with_options(timeout=5), client.with_options(max_retries=1).copy()):
        assert copy.router is client.router
        await ask(copy)

    assert len(client.router.calls) == 3


async def test_a_copy_may_have_another_router_or_none(plain: Face, serve: Serve) -> None:
    first, second = serve(answers.says("first")), serve(answers.says("second"))
    client = plain.client(configuration("chat", first), api_key="k", base_url=second.base_url)

    other = client.with_options(router=Router(configuration("chat", second)))
    none = client.with_options(router=False)

    assert (await ask(client)).choices[0].message.content == "first"
    assert (await ask(other)).choices[0].message.content == "second"
    assert none.router is None
    assert (await ask(none)).choices[0].message.content == "second"
    assert second.seen[-1].json["model"] == MODEL


async def test_a_copy_of_a_client_without_router_has_none(plain: Face, serve: Serve) -> None:
    client = plain.client(None, api_key="k", base_url=serve(answers.says()).base_url)
    assert client.copy().router is None


# -- limits and retries


async def test_the_timeout_of_the_call_is_its_deadline(face: Face, serve: Serve) -> None:
    """One second for the call, not for each of three routes."""
    servers = [serve(answers.hangs()) for _ in range(3)]
    client = face.client(configuration("chat", *servers, policy={"attempt_timeout": 30}))

    with pytest.raises(openai.APITimeoutError) as caught:
        await ask(client, timeout=0.6)

    call = client.router.calls[-1]
    assert isinstance(caught.value, shim.AllProvidersFailedError)
    assert call.duration < 2.5
    assert [attempt.reason for attempt in call.attempts] == ["timeout"] * 3
    assert call.attempts[0].duration < 0.5


async def test_the_timeout_of_the_client_is_the_deadline_too(plain: Face, serve: Serve) -> None:
    server = serve(answers.hangs())
    client = plain.client(configuration("chat", server), timeout=0.3)
    with pytest.raises(openai.APITimeoutError):
        await ask(client)
    assert client.router.calls[-1].duration < 2.0


async def test_no_timeout_leaves_the_limits_of_the_policy_on(plain: Face, serve: Serve) -> None:
    """`timeout=None` switches the client's own limit off, not the attempt's: the next route still gets its turn."""
    server, other = serve(answers.hangs()), serve(answers.says())
    client = plain.client(configuration("chat", server, other, policy={"attempt_timeout": 1.0}), timeout=None)
    assert (await ask(client, timeout=None)).choices[0].message.content == answers.PONG
    assert client.router.calls[-1].attempts[0].reason == "timeout"


@pytest.mark.parametrize(("given", "requests"), [({}, 4), ({"max_retries": 1}, 2), ({"max_retries": 0}, 1)], ids=str)
async def test_the_constructors_retries_win_over_the_policys(
    plain: Face, serve: Serve, given: dict[str, int], requests: int
) -> None:
    server = serve(answers.fails(429, None, [("retry-after-ms", "1")]))
    client = plain.client(configuration("chat", server, policy={"max_retries": 3}), **given)
    with pytest.raises(openai.RateLimitError):
        await ask(client)
    assert len(server.seen) == requests


async def test_a_copys_retries_win_as_well(plain: Face, serve: Serve) -> None:
    server = serve(answers.fails(429, None, [("retry-after-ms", "1")]))
    client = plain.client(configuration("chat", server, policy={"max_retries": 3})).with_options(max_retries=0)
    with pytest.raises(openai.RateLimitError):
        await ask(client)
    assert len(server.seen) == 1


async def test_a_copy_leaves_to_the_policy_what_the_caller_left_to_it(face: Face, serve: Serve) -> None:
    """The official `copy` names every setting; what it names is not what the caller said."""
    server = serve(answers.fails(429, None, [("retry-after-ms", "1")]))
    client = face.client(configuration("chat", server, policy={"max_retries": 3})).copy().with_options()
    with pytest.raises(openai.RateLimitError):
        await ask(client)
    assert len(server.seen) == 4


async def test_a_copy_has_no_key_where_its_client_had_none(plain: Face, serve: Serve) -> None:
    server = serve(answers.says())
    copy = plain.client(configuration("chat", server), base_url=server.base_url).copy()
    with pytest.raises(openai.OpenAIError, match="belongs to no family"):
        await out(copy.chat.completions.create(model="other", messages=HELLO))
    assert server.seen == []


# -- raw answers and helpers


async def test_a_raw_answer_carries_its_trail(face: Face, serve: Serve) -> None:
    first, second = serve(answers.fails(500)), serve(answers.says())
    client = face.client(configuration("chat", first, second))

    raw = await out(client.chat.completions.with_raw_response.create(model=MODEL, messages=HELLO))

    assert raw.status_code == 200
    assert raw.headers["x-shim-provider"] == "b"
    assert raw.headers["x-shim-model"] == "m-b"
    assert raw.headers["x-shim-family"] == FAMILY
    assert raw.headers["x-shim-attempts"] == "2"
    assert raw.headers["x-shim-trail"].startswith("a/m-a")
    assert "b/m-b" in raw.headers["x-shim-trail"]
    assert raw.parse().choices[0].message.content == answers.PONG
    assert raw.http_request.url.path.endswith("/chat/completions")
    assert [attempt.provider for attempt in shim.attempts(raw)] == ["a", "b"]


async def test_a_raw_embeddings_answer_is_parsed_into_floats(face: Face, serve: Serve) -> None:
    client = face.client(configuration("embedding", serve(answers.embeds(4))))
    raw = await out(client.embeddings.with_raw_response.create(model=MODEL, input=["a", "b"]))
    parsed = raw.parse()
    assert [len(row.embedding) for row in parsed.data] == [4, 4]
    assert all(isinstance(number, float) for row in parsed.data for number in row.embedding)
    assert raw.headers["x-shim-provider"] == "a"


async def test_a_streamed_raw_answer_can_be_read_in_every_way(face: Face, serve: Serve) -> None:
    client = face.client(configuration("chat", serve(answers.says())))
    asking = client.chat.completions.with_streaming_response.create(model=MODEL, messages=HELLO)
    async with Both(asking) as raw:
        assert raw.headers["x-shim-provider"] == "a"
        assert (await out(raw.parse())).choices[0].message.content == answers.PONG
    async with Both(client.chat.completions.with_streaming_response.create(model=MODEL, messages=HELLO)) as raw:
        assert answers.PONG in await out(raw.text())
    async with Both(
        client.chat.completions.with_streaming_response.create(model=MODEL, messages=HELLO, stream=True)
    ) as raw:
        lines = await all_of(raw.iter_lines())
    assert lines[-2:] == ["data: [DONE]", ""] or lines[-1] == "data: [DONE]"


async def test_structured_answers_are_parsed(face: Face, serve: Serve) -> None:
    server = serve(answers.says('{"number": 7}'))
    client = face.client(configuration("chat", serve(answers.fails(503)), server))
    completion = await out(client.chat.completions.parse(model=MODEL, messages=HELLO, response_format=Answer))
    assert completion.choices[0].message.parsed == Answer(number=7)
    assert server.seen[-1].json["response_format"]["json_schema"]["name"] == "Answer"
    assert [attempt.provider for attempt in shim.attempts(completion)] == ["a", "b"]


async def test_the_stream_helper_gathers_the_text(face: Face, serve: Serve) -> None:
    server = serve(answers.streams(answers.chat_events(['{"num', 'ber": 7}'])))
    client = face.client(configuration("chat", serve(answers.fails(503)), server))
    async with Both(client.chat.completions.stream(model=MODEL, messages=HELLO, response_format=Answer)) as stream:
        kinds = [event.type async for event in _each(stream)]
        final = await out(stream.get_final_completion())
        made = shim.attempts(stream)
    assert "content.delta" in kinds
    assert "content.done" in kinds
    assert final.choices[0].message.parsed == Answer(number=7)
    assert [attempt.provider for attempt in made] == ["a", "b"]


async def _each(stream: Any) -> Any:
    for item in await all_of(stream):
        yield item


async def test_a_client_is_a_context_manager(plain: Face, serve: Serve) -> None:
    server = serve(answers.says())
    async with Both(plain.shim(router=configuration("chat", server))) as client:
        await ask(client)
        assert server.open == 1
    assert client.is_closed()
    assert server.wait_for_closed()


# -- who served it


async def test_attempts_of_everything_that_comes_back(face: Face, serve: Serve) -> None:
    client = face.client(configuration("chat", serve(answers.fails(500)), serve(answers.says())))
    model = await ask(client)
    stream = await ask(client, stream=True)
    seen_at_first = shim.attempts(stream)
    await all_of(stream)

    assert [attempt.verdict for attempt in shim.attempts(model)] == [Verdict.TRANSIENT, Verdict.OK]
    assert [attempt.provider for attempt in seen_at_first] == ["a", "b"]
    assert [attempt.number for attempt in shim.attempts(stream)] == [1, 2]
    assert shim.attempts(stream)[-1].duration >= seen_at_first[-1].duration
    assert shim.attempts(object()) == ()


async def test_attempts_of_embeddings_and_of_the_exception(face: Face, serve: Serve) -> None:
    client = face.client(configuration("embedding", serve(answers.embeds())))
    assert len(shim.attempts(await out(client.embeddings.create(model=MODEL, input="a")))) == 1

    broken = face.client(configuration("embedding", serve(answers.fails(500)), serve(answers.fails(502))))
    with pytest.raises(shim.AllProvidersFailedError) as caught:
        await out(broken.embeddings.create(model=MODEL, input="a"))
    assert [attempt.status for attempt in shim.attempts(caught.value)] == [500, 502]


async def test_an_unrouted_answer_has_no_attempts(plain: Face, serve: Serve) -> None:
    server = serve(answers.says())
    client = plain.client(configuration("embedding", server), api_key="k", base_url=server.base_url)
    assert shim.attempts(await ask(client)) == ()


async def test_the_model_of_the_answer_is_the_same_type_and_equal(plain: Face, serve: Serve) -> None:
    """The mark of a routed answer is invisible: dumps, equality and copies do not see it."""
    server = serve(answers.says())
    ours = await ask(plain.client(configuration("chat", server)))
    official = (openai.AsyncOpenAI if plain.is_async else openai.OpenAI)(api_key="k", base_url=server.base_url)
    plain.made.append(official)
    theirs = await ask(official)
    assert type(ours) is type(theirs)
    assert ours == theirs
    assert ours.model_dump() == theirs.model_dump()
    assert ours.model_copy(deep=True) == theirs


@pytest.mark.parametrize("wanted", ["base64", "float", None])
async def test_embeddings_come_in_the_encoding_that_was_asked_for(face: Face, serve: Serve, wanted: str | None) -> None:
    """base64 stays base64 for a caller who asked for it, floats otherwise: as with the official client."""
    server = serve(answers.embeds(4))
    ours = face.client(configuration("embedding", server))
    official = (openai.AsyncOpenAI if face.is_async else openai.OpenAI)(api_key="k", base_url=server.base_url)
    face.made.append(official)
    extra: dict[str, Any] = {} if wanted is None else {"encoding_format": wanted}

    mine = await out(ours.embeddings.create(model=MODEL, input=["a", "b"], **extra))
    theirs = await out(official.embeddings.create(model="m-a", input=["a", "b"], **extra))

    assert type(mine) is type(theirs)
    assert mine == theirs


# -- the caller's own HTTP client


async def test_the_callers_http_client_is_used_and_left_as_it_was(face: Face, serve: Serve) -> None:
    seen: list[str] = []

    def note(request: Any) -> None:
        seen.append(str(request.url))

    async def anote(request: Any) -> None:
        note(request)

    hooks = {"request": [anote if face.is_async else note]}
    own = face.http_client(event_hooks=hooks, headers={"X-Own": "1"}, timeout=9.0)
    before = (type(own), dict(own.headers), own.timeout, own._transport)
    server = serve(answers.says())
    client = face.client(configuration("chat", serve(answers.fails(500)), server), http_client=own)

    await ask(client)

    assert client._client is own
    assert (type(own), dict(own.headers), own.timeout, own._transport) == before
    assert len(seen) == 2
    assert seen[1].startswith(server.base_url)


async def test_the_http_clients_of_the_router_serve_any_library(plain: Face, serve: Serve) -> None:
    server = serve(answers.says())
    router = Router(configuration("chat", serve(answers.fails(500)), server))
    client = router.async_http_client() if plain.is_async else router.http_client()

    response = await out(client.post("/chat/completions", json={"model": MODEL, "messages": HELLO}))

    assert response.json()["choices"][0]["message"]["content"] == answers.PONG
    assert response.headers["x-shim-provider"] == "b"
    assert [attempt.provider for attempt in shim.attempts(response)] == ["a", "b"]
    await out(client.aclose() if plain.is_async else client.close())


async def test_an_official_client_over_the_routers_http_client_is_routed(plain: Face, serve: Serve) -> None:
    """What LangChain and others do with `http_client=`."""
    router = Router(configuration("chat", serve(answers.fails(500)), serve(answers.says())))
    http_client = router.async_http_client() if plain.is_async else router.http_client()
    official = (openai.AsyncOpenAI if plain.is_async else openai.OpenAI)(api_key="k", http_client=http_client)
    plain.made.append(official)
    assert (await ask(official)).choices[0].message.content == answers.PONG
    assert await all_of(await ask(official, stream=True))


async def test_auto_means_the_default_family(plain: Face, serve: Serve) -> None:
    config = {**configuration("chat", serve(answers.says())), "default_chat": FAMILY}
    client = plain.client(config)
    for model in ("auto", ""):
        await out(client.chat.completions.create(model=model, messages=HELLO))
    assert [call.ending for call in client.router.calls] == [Ending.OK] * 2


async def test_the_route_can_be_pinned_by_name(plain: Face, serve: Serve) -> None:
    first, second = serve(answers.says("first")), serve(answers.says("second"))
    client = plain.client(configuration("chat", first, second))
    pinned = await out(client.chat.completions.create(model=f"{FAMILY}/b", messages=HELLO))
    hinted = await ask(client, extra_headers={"x-shim-route": "b"})
    assert [pinned.choices[0].message.content, hinted.choices[0].message.content] == ["second"] * 2
    assert first.seen == []
    assert "x-shim-route" not in second.seen[-1].headers


async def test_responses_that_build_on_another_stay_on_its_route(plain: Face, serve: Serve) -> None:
    """State lives where it was made; of an unknown one only the client's own provider can know."""

    def respond(name: str) -> Any:
        def script(request: Seen, peer: Peer) -> None:
            text = {"type": "output_text", "text": name, "annotations": []}
            message = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [text]}
            peer.answer(
                200,
                {
                    "id": f"resp_{name}",
                    "object": "response",
                    "created_at": 1,
                    "model": "m",
                    "status": "completed",
                    "output": [message],
                    "parallel_tool_calls": True,
                    "tool_choice": "auto",
                    "tools": [],
                },
            )

        return script

    first, second, own = serve(respond("first")), serve(respond("second")), serve(respond("own"))
    client = plain.client(configuration("chat", first, second), api_key="k", base_url=own.base_url)
    client.router.force_open("a/m-a")
    made = await out(client.responses.create(model=MODEL, input="hi"))
    client.router.reset()

    further = await out(client.responses.create(model=MODEL, input="more", previous_response_id=made.id))
    unknown = await out(client.responses.create(model=MODEL, input="more", previous_response_id="resp_x"))

    assert (made.output_text, further.output_text, unknown.output_text) == ("second", "second", "own")
    assert first.seen == []


async def test_leaving_the_context_of_a_routers_http_client_closes_its_connections(plain: Face, serve: Serve) -> None:
    server = serve(answers.says())
    router = Router(configuration("chat", server))
    async with Both(router.async_http_client() if plain.is_async else router.http_client()) as client:
        await out(client.post("/chat/completions", json={"model": MODEL, "messages": HELLO}))
        assert server.open == 1
    assert server.wait_for_closed()
