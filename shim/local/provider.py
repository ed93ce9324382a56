"""The local models behind OpenAI's wire: a request's bytes in, an answer's bytes out, no socket."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from shim.local.models import CARDS, LocalModelMissing, ModelCard, NoTokens, load
from shim.local.request import EmbeddingRequest, Refusal, parse, unknown_model

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Answer = tuple[int, list[tuple[str, str]], bytes]
"""Status, headers, body."""


class LocalProvider:
    """Serves `POST /embeddings`, `GET /models` and `GET /models/{model}`, with or without `/v1` before them.

    Holds nothing: models are loaded at the first request and shared by every instance and thread of the process.
    """

    def handle(self, method: str, path: str, body: bytes) -> Answer:
        """Answers one request. Faults of the request and missing packages are answers too, never raised."""
        route = path.partition("?")[0].rstrip("/").removeprefix("/v1")
        if route == "/embeddings":
            return _embeddings(body) if method == "POST" else _not_allowed(method, route)
        if route == "/models" or route.startswith("/models/"):
            return _models(route) if method == "GET" else _not_allowed(method, route)
        message = f"Unknown request URL: {method} {route or '/'}. Local: POST /embeddings, GET /models."
        return _refuse(Refusal(404, message, code="unknown_url"))

    def handle_http(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """`handle` in the shape that `shim.local.server` takes; the headers play no part, and no key is asked for."""
        return self.handle(method, path, body)


def _embeddings(body: bytes) -> Answer:
    request = parse(body)
    if isinstance(request, Refusal):
        return _refuse(request)
    try:
        vectors, tokens = load(request.card).embed(request.texts)
    except LocalModelMissing as error:
        return _refuse(Refusal(501, str(error), "model", "model_not_installed", "not_supported_error"))
    except NoTokens as error:
        place = f"input[{error.index}]"
        return _refuse(Refusal(400, f"Invalid '{place}': the text has no tokens and so no vector.", param=place))
    return _json(200, _document(request, _narrow(vectors, request.dimensions), sum(tokens)))


def _narrow(vectors: NDArray[np.float32], dimensions: int) -> NDArray[np.float32]:
    """The first `dimensions` numbers of a row, unit length again; Matryoshka training allows it (arXiv 2205.13147)."""
    if dimensions == vectors.shape[1]:
        return vectors
    import numpy as np

    cut = vectors[:, :dimensions]
    narrowed: NDArray[np.float32] = cut / np.linalg.norm(cut, axis=1, keepdims=True)
    return narrowed


def _document(request: EmbeddingRequest, vectors: NDArray[np.float32], tokens: int) -> object:
    rows = _base64_rows(vectors) if request.as_base64 else vectors.tolist()
    return {
        "object": "list",
        "data": [{"object": "embedding", "index": index, "embedding": row} for index, row in enumerate(rows)],
        "model": request.card.name,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }


def _base64_rows(vectors: NDArray[np.float32]) -> list[str]:
    """Each row as base64 of little-endian float32, as OpenAI encodes it; never a list of Python floats."""
    flat = vectors.astype("<f4").tobytes()
    width = len(flat) // len(vectors)
    return [base64.b64encode(flat[at : at + width]).decode("ascii") for at in range(0, len(flat), width)]


def _models(route: str) -> Answer:
    name = route.removeprefix("/models").removeprefix("/")
    if not name:
        return _json(200, {"object": "list", "data": [_model(card) for card in CARDS.values() if card.is_installed]})
    card = CARDS.get(name)
    return _json(200, _model(card)) if card else _refuse(unknown_model(name))


def _model(card: ModelCard) -> dict[str, object]:
    return {"id": card.name, "object": "model", "created": 0, "owned_by": "local"}


def _not_allowed(method: str, route: str) -> Answer:
    return _refuse(Refusal(405, f"Not allowed to {method} on {route}.", code="method_not_supported"))


def _refuse(refusal: Refusal) -> Answer:
    error = {"message": refusal.message, "type": refusal.type, "param": refusal.param, "code": refusal.code}
    return _json(refusal.status, {"error": error})


def _json(status: int, document: object) -> Answer:
    # msgspec writes a thousand vectors ten times as fast as `json`; imported late, since a provider that is only
    # configured costs nothing. An error is short, and `json` also writes what msgspec refuses.
    if status == 200:
        import msgspec

        body = msgspec.json.encode(document)
    else:
        body = json.dumps(document).encode()
    return status, [("content-type", "application/json")], body
