"""When no route could serve: one 503 with the words of the contract, which existing `except` clauses still catch."""

from __future__ import annotations

import json
import pickle
from typing import Any

import openai
import pytest

import shim
from shim.events import Ending
from tests.support import answers
from tests.support.faces import FAMILY, HELLO, MODEL, Face, configuration, out
from tests.support.fixtures import Serve
from tests.support.server import Script


async def ask(client: Any, **extra: Any) -> Any:
    return await out(client.chat.completions.create(model=MODEL, messages=HELLO, **extra))


async def failure(client: Any, **extra: Any) -> shim.AllProvidersFailedError:
    with pytest.raises(shim.AllProvidersFailedError) as caught:
        await ask(client, **extra)
    return caught.value


# -- the words


async def test_the_message_is_the_contracts_for_chat(face: Face, serve: Serve) -> None:
    client = face.client(configuration("chat", serve(answers.fails(500)), serve(answers.fails(502))))
    error = await failure(client)
    assert error.message == f"All providers for chat family '{FAMILY}' failed (last: b/m-b: HTTP 502: it is broken)"
    assert str(error) == error.message


async def test_the_message_is_the_contracts_for_embeddings(face: Face, serve: Serve) -> None:
    client = face.client(configuration("embedding", serve(answers.fails(500))))
    with pytest.raises(shim.AllProvidersFailedError) as caught:
        await out(client.embeddings.create(model=MODEL, input="a"))
    expected = f"All providers for embedding family '{FAMILY}' failed (last: a/m-a: HTTP 500: it is broken)"
    assert caught.value.message == expected


async def test_without_a_usable_key_the_message_names_what_is_missing(plain: Face, serve: Serve) -> None:
    config = configuration("embedding", serve(answers.embeds()))
    config["providers"]["a"]["api_key"] = "${SHIM_TEST_NO_SUCH_KEY}"
    client = plain.client(config)
    with pytest.raises(shim.AllProvidersFailedError) as caught:
        await out(client.embeddings.create(model=MODEL, input="a"))
    assert caught.value.message.startswith(f"No enabled providers for embedding family '{FAMILY}'")
    assert "SHIM_TEST_NO_SUCH_KEY" in caught.value.message
    assert caught.value.attempts == ()


async def test_the_answer_is_a_503_that_nobody_retries(face: Face, serve: Serve) -> None:
    server = serve(answers.fails(500))
    error = await failure(face.client(configuration("chat", server)))
    assert error.status_code == error.response.status_code == 503
    assert error.response.headers["x-should-retry"] == "false"
    body = json.loads(error.response.content)["error"]
    assert body["message"] == error.message
    assert body["code"] == "all_providers_failed"
    assert [attempt["route"] for attempt in body["attempts"]] == ["a/m-a"]
    assert error.body == body
    assert error.code == "all_providers_failed"


async def test_the_soonest_return_is_told(face: Face, serve: Serve) -> None:
    first = serve(answers.fails(429, None, [("retry-after", "50")]))
    second = serve(answers.fails(429, None, [("retry-after", "20")]))
    error = await failure(face.client(configuration("chat", first, second)))
    assert 18 < float(error.response.headers["retry-after"]) <= 21
    assert error.retry_at == pytest.approx(error.call.started_at + 20, abs=3)


async def test_family_and_attempts_are_on_the_exception(face: Face, serve: Serve) -> None:
    error = await failure(face.client(configuration("chat", serve(answers.fails(500)), serve(answers.resets()))))
    assert error.family == FAMILY
    assert [attempt.route for attempt in error.attempts] == ["a/m-a", "b/m-b"]
    assert [attempt.status for attempt in error.attempts] == [500, None]
    assert error.call.ending is Ending.EXHAUSTED


# -- never multiplied


@pytest.mark.parametrize("kind", ["chat", "embedding"])
async def test_the_sdks_own_retries_do_not_multiply_ours(face: Face, serve: Serve, kind: str) -> None:
    """Two routes and two further attempts are four requests, whatever the SDK's loop would make of a 503."""
    servers = [serve(answers.fails(503, None, [("retry-after-ms", "1")])) for _ in range(2)]
    client = face.client(configuration(kind, *servers), max_retries=2)
    with pytest.raises(shim.AllProvidersFailedError) as caught:  # noqa: PT012  either kind
        if kind == "chat":
            await ask(client)
        else:
            await out(client.embeddings.create(model=MODEL, input="a"))
    assert sum(len(server.seen) for server in servers) == len(caught.value.attempts) == 4


async def test_a_told_wait_longer_than_the_deadline_never_sleeps(plain: Face, serve: Serve) -> None:
    server = serve(answers.fails(429, None, [("retry-after", "30")]))
    error = await failure(plain.client(configuration("chat", server), max_retries=5, timeout=2))
    assert error.call.duration < 1.5
    assert len(server.seen) == 1


# -- existing except clauses


WAYS: list[tuple[str, Script, type[openai.APIError]]] = [
    ("rate limited", answers.fails(429), openai.RateLimitError),
    ("bad keys", answers.fails(401), openai.AuthenticationError),
    ("forbidden", answers.fails(403), openai.PermissionDeniedError),
    ("no such model", answers.fails(404, answers.error("no", "model_not_found")), openai.NotFoundError),
    ("resets", answers.resets(), openai.APIConnectionError),
]


@pytest.mark.parametrize(("script", "cls"), [way[1:] for way in WAYS], ids=[way[0] for way in WAYS])
async def test_attempts_that_agree_make_the_official_class(
    face: Face, serve: Serve, script: Script, cls: type[openai.APIError]
) -> None:
    error = await failure(face.client(configuration("chat", serve(script), serve(script))))
    assert isinstance(error, cls)
    assert isinstance(error, openai.InternalServerError)
    assert error.status_code == 503


async def test_timeouts_that_agree_make_a_timeout_error(face: Face, serve: Serve) -> None:
    config = configuration("chat", serve(answers.hangs()), policy={"attempt_timeout": 0.2})
    assert isinstance(await failure(face.client(config)), openai.APITimeoutError)


async def test_an_unreachable_host_makes_a_connection_error(face: Face, serve: Serve) -> None:
    """A port that nobody listens on."""
    gone = serve(answers.says())
    gone.close()
    error = await failure(face.client(configuration("chat", gone)))
    assert isinstance(error, openai.APIConnectionError)
    assert "a/m-a" in error.message


async def test_attempts_that_disagree_make_no_official_class_but_the_503(plain: Face, serve: Serve) -> None:
    error = await failure(plain.client(configuration("chat", serve(answers.fails(429)), serve(answers.fails(401)))))
    assert not isinstance(error, openai.RateLimitError | openai.AuthenticationError)
    assert isinstance(error, openai.InternalServerError)


# -- pickles


@pytest.mark.parametrize(
    "script", [answers.fails(429), answers.resets(), answers.fails(500)], ids=["429", "reset", "500"]
)
async def test_the_exception_survives_a_pickle(plain: Face, serve: Serve, script: Script) -> None:
    error = await failure(plain.client(configuration("chat", serve(script))))
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert (again.message, again.attempts, again.retry_at) == (error.message, error.attempts, error.retry_at)
    assert (again.family, again.status_code, again.body) == (FAMILY, 503, error.body)


# -- a request that is wrong for everyone


REFUSALS: list[tuple[str, int, Any, type[openai.APIStatusError] | None]] = [
    ("400", 400, answers.error("bad messages", "invalid", "invalid_request_error"), openai.BadRequestError),
    ("422", 422, {"detail": [{"loc": ["body", "x"], "msg": "field required", "type": "missing"}]}, None),
    ("400 in a list", 400, [answers.error("wrapped in a list", None, "invalid_request_error")], openai.BadRequestError),
    ("400 as text", 400, b"just words", openai.BadRequestError),
]


@pytest.mark.parametrize(("status", "body", "cls"), [row[1:] for row in REFUSALS], ids=[row[0] for row in REFUSALS])
async def test_a_refusal_reaches_the_caller_as_the_official_class(
    face: Face, serve: Serve, status: int, body: Any, cls: type[openai.APIStatusError] | None
) -> None:
    server = serve(answers.fails(status, body))
    with pytest.raises(openai.APIStatusError) as caught:
        await ask(face.client(configuration("chat", server), max_retries=2))
    assert isinstance(caught.value, cls or openai.UnprocessableEntityError)
    assert not isinstance(caught.value, shim.AllProvidersFailedError)
    assert caught.value.status_code == status
    assert len(server.seen) == 1
    assert len(shim.attempts(caught.value)) == 1


async def test_a_fatal_refusal_stops_the_call(face: Face, serve: Serve) -> None:
    refused = answers.error("messages: must not be empty", "invalid_value", "invalid_request_error")
    first, second = serve(answers.fails(400, refused)), serve(answers.says())
    with pytest.raises(openai.BadRequestError, match="must not be empty") as caught:
        await ask(face.client(configuration("chat", first, second)))
    assert second.seen == []
    assert caught.value.param is None
    assert caught.value.code == "invalid_value"


async def test_what_one_route_cannot_another_may(face: Face, serve: Serve) -> None:
    too_long = answers.error("too long", "context_length_exceeded", "invalid_request_error")
    client = face.client(configuration("chat", serve(answers.fails(400, too_long)), serve(answers.says())))
    assert (await ask(client)).choices[0].message.content == answers.PONG


async def test_when_every_route_cannot_the_last_ones_own_400_is_raised(face: Face, serve: Serve) -> None:
    too_long = answers.error("far too long", "context_length_exceeded", "invalid_request_error")
    servers = [serve(answers.fails(400, too_long)) for _ in range(2)]
    with pytest.raises(openai.BadRequestError, match="far too long") as caught:
        await ask(face.client(configuration("chat", *servers), max_retries=2))
    assert not isinstance(caught.value, shim.AllProvidersFailedError)
    assert [len(server.seen) for server in servers] == [1, 1]
