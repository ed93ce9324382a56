"""Never run: what type checkers must know of the clients. `test_typing` checks it with mypy and pyright."""

from __future__ import annotations

from typing import assert_type

import openai
from openai import Stream
from openai.types import CreateEmbeddingResponse
from openai.types.chat import ChatCompletion, ChatCompletionChunk

import shim


def sync() -> None:
    """The official types, and one argument more."""
    client = shim.OpenAI(api_key="k", router=shim.Router({}), timeout=3.0, max_retries=1)
    assert_type(client.router, shim.Router | None)
    assert_type(client.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}]), ChatCompletion)
    assert_type(
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}], stream=True),
        Stream[ChatCompletionChunk],
    )
    assert_type(client.embeddings.create(model="m", input="x"), CreateEmbeddingResponse)
    assert_type(client.with_options(timeout=1), shim.OpenAI)
    assert_type(client.copy(router={}), shim.OpenAI)
    with shim.OpenAI(router="shim.toml") as entered:
        assert_type(entered, shim.OpenAI)
    official: openai.OpenAI = client
    assert_type(shim.attempts(official), tuple[shim.Attempt, ...])
    shim.OpenAI(rooter={})  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def asynchronous() -> None:
    """The same for the async client."""
    client = shim.AsyncOpenAI(router={"families": {}})
    assert_type(
        await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}]), ChatCompletion
    )
    assert_type(await client.embeddings.create(model="m", input="x"), CreateEmbeddingResponse)
    assert_type(client.with_options(max_retries=1), shim.AsyncOpenAI)
    async with client as entered:
        assert_type(entered, shim.AsyncOpenAI)


def failures() -> None:
    """What an exception of this package carries."""
    try:
        sync()
    except shim.AllProvidersFailedError as error:
        assert_type(error.family, str)
        assert_type(error.attempts, tuple[shim.Attempt, ...])
        assert_type(error.retry_at, float | None)
        caught: openai.InternalServerError = error
        assert_type(caught.status_code, int)
    except shim.StreamInterruptedError as error:
        assert_type(error.partial, str)
