"""All recorded provider answers through the real transport, on every face: each ends as its verdict asks."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import AsyncIterator, Iterator
from typing import Any

import openai
import pytest

import shim
from shim._config.presets import presets
from shim.events import Kind, Verdict
from tests.core.test_corpus_verdicts import ITEMS, _expected, _judged
from tests.shared_data import corpus_dir
from tests.support.faces import FLAVOURS, HELLO, MODEL, Face

_FORBIDDEN = (KeyError, TypeError, ValueError, AttributeError, IndexError, LookupError)
_HOP = ("content-encoding", "transfer-encoding", "content-length", "connection")


def _tools() -> Any:
    spec = importlib.util.spec_from_file_location("corpus_tools", corpus_dir() / "corpus_tools.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TOOLS = _tools()


class _Replay:
    """The recorded status, headers and chunks, in the classes of one HTTP library."""

    def __init__(self, item: dict[str, Any], hx: Any) -> None:
        self.item, self.hx = item, hx
        self.requests: list[Any] = []

    def _response(self, request: Any, stream: Any) -> Any:
        self.requests.append(request)
        headers = [pair for pair in TOOLS.headers(self.item) if pair[0].lower() not in _HOP]
        return self.hx.Response(self.item["response"]["status"], headers=headers, stream=stream, request=request)

    def transport(self, *, is_async: bool) -> Any:
        chunks, replay, hx = TOOLS.chunks(self.item), self, self.hx

        class Stream(hx.SyncByteStream, hx.AsyncByteStream):  # type: ignore[misc, name-defined]
            def __iter__(self) -> Iterator[bytes]:
                yield from chunks

            async def __aiter__(self) -> AsyncIterator[bytes]:
                for chunk in chunks:
                    yield chunk

        class Sync(hx.BaseTransport):  # type: ignore[misc, name-defined]
            def handle_request(self, request: Any) -> Any:
                return replay._response(request, Stream())

        class Async(hx.AsyncBaseTransport):  # type: ignore[misc, name-defined]
            async def handle_async_request(self, request: Any) -> Any:
                return replay._response(request, Stream())

        return Async() if is_async else Sync()


def _kind(item: dict[str, Any]) -> str:
    return "embedding" if "embed" in item["kind"] else "chat"


def _router(item: dict[str, Any]) -> shim.Router:
    """A router of one provider, under its own name: the judge knows providers by their presets."""
    name = item["provider"]
    provider = {"api_key": "key-0123456789", "base_url": f"https://{name}.invalid/v1", "wire": "openai"}
    return shim.Router(
        {
            "providers": {name: provider},
            "families": {"fam": {"kind": _kind(item), "aliases": [MODEL], "routes": [f"{name}/m"]}},
            "policy": {"max_retries": 0, "space_check": False},
        }
    )


def _call(client: Any, item: dict[str, Any]) -> Any:
    if _kind(item) == "embedding":
        count = item["response"]["body"].count('"embedding":') or 1
        return client.embeddings.create(model=MODEL, input=["text"] * count)
    is_stream = "stream" in item["kind"]
    if "responses" in item["kind"]:
        return client.responses.create(model=MODEL, input="hi", stream=is_stream)
    return client.chat.completions.create(model=MODEL, messages=HELLO, stream=is_stream)


def _sync(client: Any, item: dict[str, Any]) -> Any:
    result = _call(client, item)
    return list(result) if "stream" in item["kind"] else result


async def _async(client: Any, item: dict[str, Any]) -> Any:
    result = await _call(client, item)
    return [chunk async for chunk in result] if "stream" in item["kind"] else result


def _outcome(item: dict[str, Any], face: Face) -> tuple[shim.Call, BaseException | None]:
    http_client = face.http_client(transport=_Replay(item, face.module).transport(is_async=face.is_async))
    router = _router(item)
    client = face.shim(router=router, http_client=http_client)
    try:
        if face.is_async:
            asyncio.run(_async(client, item))
        else:
            _sync(client, item)
    except openai.APIError as error:
        return router.calls[-1], error
    return router.calls[-1], None


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("library", sorted(FLAVOURS))
@pytest.mark.parametrize("item", ITEMS, ids=[item["id"] for item in ITEMS])
def test_a_recorded_answer_ends_as_its_verdict_asks(item: dict[str, Any], library: str, is_async: bool) -> None:
    """Only official exception classes reach the caller; what is no answer of its endpoint is never a success."""
    call, error = _outcome(item, Face(is_async, library))

    attempt = call.attempts[-1]
    expected = _expected(item)
    if expected is not None and item["provider"] not in presets().providers:  # no preset: the general rules alone
        judged = _judged({**item, "provider": ""})
        assert judged is not None
        expected = (judged.verdict, judged.scope)
    if expected is None:
        assert attempt.verdict in (Verdict.OK, Verdict.TRANSIENT, Verdict.BROKEN)
        assert (error is None) == (attempt.verdict is Verdict.OK)
    else:
        assert (attempt.verdict, attempt.scope) == expected
        assert isinstance(error, openai.APIError)
        assert not isinstance(error, _FORBIDDEN)
    assert call.kind is Kind(_kind(item))
