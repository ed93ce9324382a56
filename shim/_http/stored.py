"""Requests about one stored response (`/responses/<id>`): sent to the provider and account that made it, and back.

Not a call: there is one place to ask, so nothing is judged and nobody is benched. The SDK's own retries apply.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import msgspec

from shim._core.outcome import Fault
from shim._core.plan import OWN_KEY, RouteState, account_of
from shim._core.prepare import Prepared
from shim._core.request import Request, sort_headers
from shim._core.wording import mask_secrets
from shim._http.flavour import Flavour
from shim._run.board import Board, Maker
from shim._run.bounds import Options
from shim._run.exchange import Exchange, Reply
from shim.events import Kind

_MARK = "/responses/"
_BELOW = ("", "input_items", "cancel")
# What this API takes in the query (OpenAI API reference); anything else may be a key of the client's own provider.
_QUERY = (b"include", b"include%5b%5d", b"include[]", b"limit", b"order", b"after", b"before", b"stream")
_ALSO = (b"starting_after", b"include_obfuscation")
_DROPPED = frozenset({"set-cookie", "content-length", "content-encoding", "transfer-encoding", "connection"})
_LATE = (Fault.TIMEOUT, Fault.CONNECT_TIMEOUT, Fault.FIRST_CHUNK_TIMEOUT, Fault.STALL)


@dataclass(frozen=True, slots=True)
class Stored:
    """A request about a response whose maker is known."""

    maker: Maker
    route: RouteState
    path: str


def find_stored(board: Board, request: Any) -> Stored | None:
    """The stored response that a request is about; None where it is about none, or its maker is not known here."""
    path = request.url.path
    if _MARK not in path:
        return None
    response_id, _, below = path.rpartition(_MARK)[2].partition("/")
    maker = board.maker_of(response_id) if below in _BELOW else None
    if maker is None:
        return None
    routes = board.families[maker.family].routes
    route = next((route for route in routes if route.config.route == maker.route), None)
    return None if route is None else Stored(maker, route, path[path.rindex(_MARK) :])


def exchange_for(stored: Stored, board: Board, request: Any, body: bytes, own_base: str, options: Options) -> Exchange:
    """The same request at the maker's base URL, with a key of the account that holds the response."""
    headers = sort_headers(request.headers.raw)
    query = request.url.query
    read = Request(request.method, stored.path, stored.path, Kind.CHAT, headers, body, query, own_base)
    provider = stored.route.provider
    account = stored.maker.account or account_of(read, provider)
    key = next((index for index, key in enumerate(provider.keys) if key.account == account), OWN_KEY)
    prepared = stored.route.writer.write(read, key, None)
    assert isinstance(prepared, Prepared)  # only an embeddings body can be one that a wire format cannot express
    if provider.base_url != own_base:
        prepared = replace(prepared, url=_with_query(prepared.url, query))
    policy = board.families[stored.maker.family].config.policy
    deadline = policy.deadline if options.deadline is None else options.deadline
    route = stored.route.config
    until = board.clock.now() + deadline
    return Exchange(prepared, until, connect=policy.connect_timeout, provider=route.provider, model=route.model)


def response_for(stored: Stored, board: Board, flavour: Flavour, request: Any, reply: Reply, started: float) -> Any:
    """The maker's answer as the caller's library gives it; a failed connection is a 502 or 504 that says so."""
    outcome = reply.outcome
    if outcome.fault is not None:
        status = 504 if outcome.fault in _LATE else 502
        name = stored.route.provider.name
        message = f"provider {name}, which keeps this response, did not answer: {outcome.fault.value} {outcome.detail}"
        error = {"message": mask_secrets(message.strip(), board.secrets), "type": "server_error", "code": None}
        body, headers = msgspec.json.encode({"error": error}), [(b"content-type", b"application/json")]
    else:
        status, body = outcome.status or 502, outcome.body
        headers = [
            (name.encode("latin-1"), mask_secrets(value, board.secrets).encode("latin-1", "replace"))
            for name, value in outcome.headers.items()
            if name not in _DROPPED
        ]
        if status >= 400:
            body = mask_secrets(body.decode("utf-8", "replace"), board.secrets).encode()
    response = flavour.module.Response(status, headers=headers, content=body, request=request)
    response.elapsed = timedelta(seconds=board.clock.now() - started)
    return response


def _with_query(url: str, query: bytes) -> str:
    parts = [part for part in query.split(b"&") if part.split(b"=", 1)[0].lower() in (*_QUERY, *_ALSO)]
    if not parts:
        return url
    return f"{url}{'&' if urlsplit(url).query else '?'}{b'&'.join(parts).decode('latin-1')}"
