"""What lives at a provider stays there: stored responses, conversations, files. Never failed over into a 404."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from shim.events import Ending, Verdict
from tests.support import answers
from tests.support.faces import FAMILY, HELLO, MODEL, Face, all_of, configuration, out
from tests.support.fixtures import Serve
from tests.support.server import Peer, Script, Seen, Server

UNKNOWN = answers.error("Previous response with id 'x' not found.", "previous_response_not_found", "invalid_request")


def response(name: str, status: str = "completed") -> dict[str, Any]:
    content = [{"type": "output_text", "text": name, "annotations": []}]
    message = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": content}
    shown = {"object": "response", "created_at": 1, "model": "m", "status": status}
    rest = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    return {"id": f"resp_{name}", **shown, "output": [message] if status == "completed" else [], **rest}


def keeps(name: str) -> Script:
    """A provider that makes responses `resp_<name>`, streamed or whole, and says it of all else as well."""

    def script(request: Seen, peer: Peer) -> None:
        if request.body and request.json.get("stream"):
            made = [
                {"type": "response.created", "sequence_number": 0, "response": response(name, "in_progress")},
                {
                    "type": "response.output_text.delta",
                    "sequence_number": 1,
                    "item_id": "m",
                    "output_index": 0,
                    "content_index": 0,
                    "delta": name,
                    "logprobs": [],
                },
                {"type": "response.completed", "sequence_number": 2, "response": response(name)},
            ]
            peer.stream([b"event: " + event["type"].encode() + b"\n" + answers.event(event) for event in made])
        elif "/input_items" in request.path:
            item = {**response(name)["output"][0]}
            peer.answer(200, {"object": "list", "data": [item], "first_id": "m", "last_id": "m", "has_more": False})
        else:
            peer.answer(200, response(name))

    return script


async def make(client: Any, *, stream: bool = False, **more: Any) -> str:
    """Make a response and return its id."""
    made = await out(client.responses.create(model=FAMILY, input="hi", stream=stream, **more))
    if not stream:
        return str(made.id)
    return str((await all_of(made))[-1].response.id)


def with_keys(*servers: Server, keys: list[Any], **more: object) -> dict[str, Any]:
    config = configuration("chat", *servers, **more)
    first = config["providers"]["a"]
    first.pop("api_key")
    first["api_keys"] = keys
    return config


def keys_of(server: Server) -> list[str]:
    return [request.headers["authorization"].removeprefix("Bearer ") for request in server.seen]


# -- follow-ups


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_follow_up_goes_to_the_route_that_made_the_response(face: Face, serve: Serve, stream: bool) -> None:
    first, second, own = serve(keeps("first")), serve(keeps("second")), serve(answers.fails(404, UNKNOWN))
    client = face.client(configuration("chat", first, second), api_key="k", base_url=own.base_url)
    client.router.force_open("a/m-a")
    made = await make(client, stream=stream)
    client.router.reset()

    further = await make(client, stream=stream, previous_response_id=made)

    assert further == "resp_second"
    assert (first.seen, own.seen) == ([], [])
    assert second.seen[-1].json["model"] == "m-b"


async def test_a_follow_up_is_not_failed_over(plain: Face, serve: Serve) -> None:
    """Its route may be asked again; nobody else is."""
    first, second = serve(keeps("first")), serve(keeps("second"))
    client = plain.client(configuration("chat", first, second), api_key="k")
    made = await make(client)
    first.script = answers.fails(500)

    with pytest.raises(openai.InternalServerError):
        await make(client, previous_response_id=made)

    assert second.seen == []


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_follow_up_goes_out_with_a_key_of_the_same_account(plain: Face, serve: Serve, stream: bool) -> None:
    server = serve(keeps("first"))
    client = plain.client(with_keys(server, keys=["sk-key-one-1111", "sk-key-two-2222"]))
    made = await make(client, stream=stream)
    for _ in range(3):
        await make(client, stream=stream, previous_response_id=made)
    assert keys_of(server) == ["sk-key-one-1111"] * 4


async def test_keys_of_one_account_take_turns(plain: Face, serve: Serve) -> None:
    server = serve(keeps("first"))
    keys = [{"key": f"sk-key-{n}-1234", "account": "team" if n < 2 else "other"} for n in range(3)]
    client = plain.client(with_keys(server, keys=keys))
    made = await make(client)
    for _ in range(3):
        await make(client, previous_response_id=made)
    assert set(keys_of(server)) == {"sk-key-0-1234", "sk-key-1-1234"}


@pytest.mark.parametrize("body", [UNKNOWN, answers.error("no"), {"detail": "Not Found"}], ids=["code", "plain", "odd"])
async def test_a_404_of_a_follow_up_benches_nobody(plain: Face, serve: Serve, body: Any) -> None:
    server = serve(keeps("first"))
    client = plain.client(configuration("chat", server, serve(keeps("second"))))
    made = await make(client)
    server.script = answers.fails(404, body)

    with pytest.raises(openai.NotFoundError):
        await make(client, previous_response_id=made)

    server.script = keeps("first")
    route = client.router.status().routes[0]
    assert (route.misconfigured, route.cooldown) == ("", 0.0)
    assert client.router.calls[-1].ending is Ending.REFUSED
    assert client.router.calls[-1].attempts[0].verdict is Verdict.FATAL
    assert await make(client) == "resp_first"


# -- the stored response itself


async def test_a_stored_response_is_asked_for_where_it_was_made(face: Face, serve: Serve) -> None:
    maker, own = serve(keeps("first")), serve(answers.fails(404, UNKNOWN))
    config = with_keys(maker, keys=["sk-key-one-1111", "sk-key-two-2222"])
    client = face.client(config, api_key="sk-own-key-0000", organization="org", base_url=own.base_url)
    await make(client)  # with the first key
    made = await make(client, stream=True)

    assert (await out(client.responses.retrieve(made, include=["reasoning.encrypted_content"]))).output_text == "first"
    await out(client.responses.delete(made))
    await out(client.responses.cancel(made))
    items = await out(client.responses.input_items.list(made, limit=5))
    raw = await out(client.responses.with_raw_response.retrieve(made))

    assert own.seen == []
    assert items.data[0].id == "m"
    assert raw.http_response.elapsed.total_seconds() >= 0
    asked = [(request.method, request.path.partition("?")[0]) for request in maker.seen[2:]]
    path = "/v1/responses/resp_first"
    assert asked == [
        ("GET", path),
        ("DELETE", path),
        ("POST", f"{path}/cancel"),
        ("GET", f"{path}/input_items"),
        ("GET", path),
    ]
    assert "include" in maker.seen[2].path
    assert maker.seen[5].path.endswith("?limit=5")
    assert keys_of(maker) == ["sk-key-one-1111", *["sk-key-two-2222"] * 6]
    assert all("sk-own" not in str(request.headers) and "org" not in request.headers.values() for request in maker.seen)


async def test_a_stored_response_that_nobody_here_made_is_the_clients_own_providers(plain: Face, serve: Serve) -> None:
    maker, own = serve(keeps("first")), serve(keeps("own"))
    client = plain.client(configuration("chat", maker), api_key="k", base_url=own.base_url)
    assert (await out(client.responses.retrieve("resp_x"))).output_text == "own"
    assert maker.seen == []
    assert keys_of(own) == ["k"]


async def test_the_callers_query_keys_stay_with_its_own_provider(plain: Face, serve: Serve) -> None:
    maker, own = serve(keeps("first")), serve(keeps("own"))
    client = plain.client(
        configuration("chat", maker), api_key="k", base_url=own.base_url, default_query={"key": "mine", "limit": "2"}
    )
    await out(client.responses.retrieve(await make(client)))
    assert maker.seen[-1].path == "/v1/responses/resp_first?limit=2"


async def test_a_failed_response_can_be_read(plain: Face, serve: Serve) -> None:
    """A background response that failed is an answer, not a failure to answer."""
    maker = serve(keeps("first"))
    client = plain.client(configuration("chat", maker), max_retries=0)
    made = await make(client)
    failed = {**response("first", "failed"), "error": {"code": "server_error", "message": "it broke"}}
    maker.script = lambda request, peer: peer.answer(200, failed)
    assert (await out(client.responses.retrieve(made))).status == "failed"


@pytest.mark.parametrize(("status", "cls"), [(404, openai.NotFoundError), (500, openai.InternalServerError)])
async def test_an_error_of_the_maker_is_the_official_exception(
    plain: Face, serve: Serve, status: int, cls: type[openai.APIStatusError]
) -> None:
    maker = serve(keeps("first"))
    client = plain.client(configuration("chat", maker), max_retries=0)
    made = await make(client)
    maker.script = answers.fails(status, answers.error("do not say key-of-a-0123456789"))
    with pytest.raises(cls) as caught:
        await out(client.responses.retrieve(made))
    assert "key-of-a" not in str(caught.value)
    assert client.router.status().routes[0].cooldown == 0.0


async def test_a_maker_that_is_gone_is_named(plain: Face, serve: Serve) -> None:
    maker = serve(keeps("first"))
    client = plain.client(configuration("chat", maker), max_retries=0)
    made = await make(client)
    maker.script = answers.resets()
    with pytest.raises(openai.InternalServerError, match="provider a, which keeps this response") as caught:
        await out(client.responses.retrieve(made))
    assert caught.value.status_code == 502


# -- files and the like

FILE = [{"role": "user", "content": [{"type": "input_file", "file_id": "file-1"}]}]
CHAT_FILE = [{"role": "user", "content": [{"type": "file", "file": {"file_id": "file-1"}}]}]
STORES = [{"type": "file_search", "vector_store_ids": ["vs_1"]}]
STATEFUL: list[tuple[str, str, dict[str, Any]]] = [
    ("a conversation", "responses", {"input": "x", "conversation": "conv_1"}),
    ("a response of unknown origin", "responses", {"input": "x", "previous_response_id": "resp_x"}),
    ("a file", "responses", {"input": FILE}),
    ("a vector store", "responses", {"input": "x", "tools": STORES}),
    ("a stored prompt", "responses", {"prompt": {"id": "pmpt_1"}}),
    ("a file of a chat", "chat", {"messages": CHAT_FILE}),
]
each_state = pytest.mark.parametrize(("resource", "fields"), [s[1:] for s in STATEFUL], ids=[s[0] for s in STATEFUL])


async def call(client: Any, resource: str, fields: dict[str, Any], model: str) -> Any:
    create = client.responses.create if resource == "responses" else client.chat.completions.create
    return await out(create(model=model, **fields))


def serves_both(name: str) -> Script:
    kept, chat = keeps(name), answers.says(name)
    return lambda request, peer: (chat if "/chat/" in request.path else kept)(request, peer)


@each_state
async def test_what_only_the_clients_own_provider_can_know_goes_there(
    plain: Face, serve: Serve, resource: str, fields: dict[str, Any]
) -> None:
    """An alias or a model's id may be known there; the bytes are the official client's."""
    first, second, own = serve(answers.fails(503)), serve(serves_both("second")), serve(serves_both("own"))
    client = plain.client(configuration("chat", first, second), api_key="k", base_url=own.base_url)
    for model in (MODEL, "m-a"):
        await call(client, resource, fields, model)
    assert (first.seen, second.seen) == ([], [])
    assert [request.json["model"] for request in own.seen] == [MODEL, "m-a"]


async def test_a_client_without_a_key_says_what_it_cannot_find(face: Face, serve: Serve) -> None:
    """An alias may be a model of the client's own provider; without a key there is none, and the alias is not wrong."""
    client = face.client(configuration("chat", serve(answers.says())), api_key=None)
    with pytest.raises(openai.OpenAIError, match=f"model '{MODEL}' with previous_response_id, which no provider"):
        await out(client.responses.create(model=MODEL, input="hi", previous_response_id="resp_unknown"))


@each_state
async def test_a_familys_name_is_not_sent_to_a_provider(
    plain: Face, serve: Serve, resource: str, fields: dict[str, Any]
) -> None:
    first, own = serve(serves_both("first")), serve(serves_both("own"))
    config = {**configuration("chat", first), "default_chat": FAMILY}
    client = plain.client(config, api_key="k", base_url=own.base_url)
    for model in (FAMILY, "auto"):
        with pytest.raises(openai.BadRequestError, match=rf"family '{FAMILY}'.*model='{FAMILY}/<provider>'") as caught:
            await call(client, resource, fields, model)
        assert caught.value.param in {*fields, "file_id", "vector_store_ids"}
    assert (first.seen, own.seen) == ([], [])


async def test_a_family_called_like_a_model_is_known_to_the_clients_own_provider(plain: Face, serve: Serve) -> None:
    first, own = serve(serves_both("first")), serve(serves_both("own"))
    config = {
        "providers": {"a": {"base_url": first.base_url, "api_key": "key-of-a-0123456789"}},
        "families": {"gpt-x": {"kind": "chat", "routes": ["a/openai/gpt-x"]}},
    }
    client = plain.client(config, api_key="k", base_url=own.base_url)
    await call(client, "responses", {"input": FILE}, "gpt-x")
    assert (len(own.seen), first.seen) == (1, [])


@each_state
async def test_a_route_at_the_clients_own_base_url_serves_it(
    plain: Face, serve: Serve, resource: str, fields: dict[str, Any]
) -> None:
    """Only that one, with a key of one account: the one of the client's key where it is configured."""
    own, other = serve(serves_both("own")), serve(serves_both("other"))
    config = with_keys(own, other, keys=["sk-key-one-1111", "sk-key-two-2222"])
    config["families"][FAMILY]["routes"].reverse()
    client = plain.client(config, api_key="sk-key-two-2222", base_url=own.base_url)
    for _ in range(2):
        await call(client, resource, fields, FAMILY)
    assert other.seen == []
    assert [request.json["model"] for request in own.seen] == ["m-a", "m-a"]
    assert keys_of(own) == ["sk-key-two-2222"] * 2


@each_state
async def test_the_caller_may_say_where_it_is(plain: Face, serve: Serve, resource: str, fields: dict[str, Any]) -> None:
    first, second, own = serve(serves_both("first")), serve(answers.fails(500)), serve(serves_both("own"))
    client = plain.client(configuration("chat", first, second), api_key="k", base_url=own.base_url)
    with pytest.raises(openai.InternalServerError):
        await call(client, resource, fields, f"{FAMILY}/b")
    with pytest.raises(openai.InternalServerError):
        await call(client, resource, {**fields, "extra_headers": {"x-shim-route": "b"}}, FAMILY)
    assert (len(second.seen), first.seen, own.seen) == (2, [], [])


async def test_a_text_about_files_is_failed_over_like_any_other(plain: Face, serve: Serve) -> None:
    second = serve(serves_both("second"))
    client = plain.client(configuration("chat", serve(answers.fails(503)), second))
    text = 'what is {"file_id": "file-1", "vector_store_ids": ["vs_1"], "previous_response_id": "r"}?'
    await call(client, "responses", {"input": [{"role": "user", "content": text}]}, FAMILY)
    await call(client, "chat", {"messages": [*HELLO, {"role": "user", "content": text}]}, FAMILY)
    assert len(second.seen) == 2
