"""The embeddings resource of a routed client: same types in and out, without walking every text and every number twice.

The official client spends most of an embeddings call on inspecting the input against its type hints and on building
models from the answer (`docs/benchmarks.md`). For a routed call the answer has been read and checked already.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar, cast

import pydantic
from openai import resources
from openai._base_client import make_request_options
from openai.resources import embeddings as official_embeddings
from openai.types import CreateEmbeddingResponse, Embedding
from openai.types.create_embedding_response import Usage

from shim.events import Kind

Official = TypeVar("Official", bound=Callable[..., Any])

_SOURCE = official_embeddings.__file__
_KNOWN = frozenset({"dimensions", "user", "extra_headers", "extra_query", "extra_body", "timeout"})
_construct = cast("Any", pydantic.BaseModel.model_construct).__func__  # openai's own override walks every number


def is_plain(input: object) -> bool:
    """Whether the input needs no transformation: a text, or a list of texts."""
    return isinstance(input, str) or (type(input) is list and set(map(type, input)) == {str})


def _is_untouched(official: Any) -> bool:
    """Whether the official method is the SDK's own: what traces or patches it wants to see each call."""
    return type(official) is FunctionType and official.__code__.co_filename == _SOURCE


def _is_ours(client: Any, model: object, input: object, rest: dict[str, Any]) -> bool:
    router = client._router
    if router is None or not isinstance(model, str) or not is_plain(input) or not rest.keys() <= _KNOWN:
        return False  # also a misspelt argument: the official method refuses it
    if rest.get("extra_body") or rest.get("extra_query"):
        return False
    return router._board.catalog.resolve(model, Kind.EMBEDDING) is not None


def _body(model: str, input: object, rest: dict[str, Any]) -> dict[str, Any]:
    body: dict[str, Any] = {"model": model, "input": input, "encoding_format": "base64"}
    for name in ("dimensions", "user"):
        if _is_given(rest.get(name)):
            body[name] = rest[name]
    return body


def _is_given(value: object) -> bool:
    return value is not None and type(value).__name__ not in ("Omit", "NotGiven")


def _options(rest: dict[str, Any]) -> Any:
    known = {name: rest[name] for name in ("extra_headers", "timeout") if name in rest}
    return make_request_options(**known, post_parser=decoded)


def decoded(answer: Any) -> Any:
    """The vectors of an answer that was not read already (a raw response is parsed late): floats for base64."""
    import array
    import base64

    for row in getattr(answer, "data", None) or ():
        if isinstance(row.embedding, str):
            row.embedding = array.array("f", base64.b64decode(row.embedding)).tolist()
    return answer


def from_read(embedded: Any, model: str) -> CreateEmbeddingResponse:
    """The official model of an answer whose vectors are read already."""
    rows = [
        _construct(Embedding, {"embedding", "index", "object"}, embedding=row, index=index, object="embedding")
        for index, row in enumerate(embedded.floats())
    ]
    tokens = embedded.input_tokens
    usage = None if tokens is None else _construct(Usage, prompt_tokens=tokens, total_tokens=tokens)
    answer = _construct(CreateEmbeddingResponse, data=rows, model=embedded.model or model, object="list", usage=usage)
    return cast("CreateEmbeddingResponse", answer)


def _as(official: Official) -> Callable[[Callable[..., Any]], Official]:
    """The signature and the docstring of the official method, for readers and for type checkers."""
    return cast("Callable[[Callable[..., Any]], Official]", functools.wraps(official))


class Embeddings(resources.Embeddings):
    """As the official resource; a routed call with plain texts takes a shorter way to the same result."""

    @_as(resources.Embeddings.create)
    def create(self, *, input: Any, model: Any, **rest: Any) -> CreateEmbeddingResponse:
        if not (_is_untouched(resources.Embeddings.create) and _is_ours(self._client, model, input, rest)):
            return super().create(input=input, model=model, **rest)
        return self._post(
            "/embeddings", body=_body(model, input, rest), options=_options(rest), cast_to=CreateEmbeddingResponse
        )


class AsyncEmbeddings(resources.AsyncEmbeddings):
    """As the official resource; a routed call with plain texts takes a shorter way to the same result."""

    @_as(resources.AsyncEmbeddings.create)
    async def create(self, *, input: Any, model: Any, **rest: Any) -> CreateEmbeddingResponse:
        if not (_is_untouched(resources.AsyncEmbeddings.create) and _is_ours(self._client, model, input, rest)):
            return await super().create(input=input, model=model, **rest)
        return await self._post(
            "/embeddings", body=_body(model, input, rest), options=_options(rest), cast_to=CreateEmbeddingResponse
        )


def fast_answer(options: Any, response: Any) -> CreateEmbeddingResponse | None:
    """The result of a routed embeddings call, if it asked for the short way and its vectors were read."""
    served = response.extensions.get("shim")
    if served is None or served.embedded is None or options.post_parser is not decoded:
        return None
    return from_read(served.embedded, served.flight.request.model)


__all__ = ["AsyncEmbeddings", "Embeddings"]
