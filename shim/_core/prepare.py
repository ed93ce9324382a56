"""A caller's request written for one route: its URL, headers and body. A provider sees its own key, nobody else's."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, urlencode

import msgspec

from shim._core import dialects
from shim._core.outcome import Judgement
from shim._core.request import (
    COMMON_HEADERS,
    PACKED,
    Raw,
    Request,
    multipart_with_model,
    number_of,
    text_of,
    write_fields,
)
from shim.config import FamilyConfig, KeyConfig, ProviderConfig, RouteConfig
from shim.events import Kind

DROPPABLE = frozenset({"encoding_format", "stream_options", "user"})
"""Parameters that may be left out for a route that rejects them, without changing what the answer means."""

_FORMATS = frozenset({"base64", "float"})  # of which one can be made of the other here

_NEVER = frozenset(
    {
        b"authorization",
        b"proxy-authorization",
        b"api-key",
        b"x-api-key",
        b"x-goog-api-key",
        b"cookie",
        b"host",
        b"content-length",
        b"connection",
        b"transfer-encoding",
        b"x-stainless-raw-response",
        b"x-shim-route",
        b"x-shim-fallback",
        PACKED,
    }
)
_CREDENTIALS = frozenset(
    {b"authorization", b"proxy-authorization", b"api-key", b"x-api-key", b"x-goog-api-key", b"cookie"}
)
_ABOUT_THE_ACCOUNT = frozenset({b"openai-organization", b"openai-project"})
_KEY_QUERY = frozenset({"key", "api_key", "api-key", "apikey", "token", "access_token", "subscription-key"})

_NEUTRAL = ("query", "document")


@dataclass(frozen=True, slots=True)
class Prepared:
    """One HTTP request, ready to be sent. `headers` lack `Host` and `Content-Length`."""

    method: str
    url: str = field(repr=False)
    headers: list[tuple[bytes, bytes]] = field(repr=False)
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Lengths:
    """How a route gives the length asked for: `send` is what it is asked, `expect` what it must answer."""

    send: int | None
    expect: int | None
    truncate_to: int | None


def lengths(
    family: FamilyConfig, route: RouteConfig, asked: int | None, locked: int | None, dropped: Collection[str] = ()
) -> Lengths | None:
    """How this route can give vectors of the length `asked`; None when it cannot. Another length is never given."""
    native = family.dimensions or locked
    if asked is None or asked == native:
        return Lengths(None, native, None)
    if route.dimensions_param is not None and "dimensions" not in dropped:
        return Lengths(asked, asked, None)
    if family.matryoshka and (native is None or asked < native):
        return Lengths(None, native, asked)
    return None


def allowed_headers(request: Request, provider: ProviderConfig) -> list[tuple[bytes, bytes]]:
    """The caller's headers that this provider may see."""
    headers = request.headers
    if provider.base_url == request.own_base:
        return [pair for pair in headers.all if pair[0].lower() not in _NEVER]
    if not provider.forward_headers:
        return headers.common.copy()
    extra = {name.lower().encode() for name in provider.forward_headers} - _NEVER - _ABOUT_THE_ACCOUNT - COMMON_HEADERS
    return [*headers.common, *(pair for pair in headers.all if pair[0].lower() in extra)]


def secrets_of(provider: ProviderConfig) -> list[str]:
    """What must never be shown of a provider: its keys, and what its headers and query carry in their place."""
    extra = [value for name, value in provider.query.items() if name.lower() in _KEY_QUERY]
    extra += [
        value
        for name, value in provider.headers.items()
        if name.lower().encode() in _NEVER or "key" in name.lower() or "token" in name.lower()
    ]
    return [*(key.secret.get_secret_value() for key in provider.keys), *(value for value in extra if len(value) > 3)]


def own_credentials(request: Request) -> list[tuple[bytes, bytes]]:
    """The caller's own key, for the route whose base URL is the client's own and that has no key configured."""
    return [pair for pair in request.headers.all if pair[0].lower() in _CREDENTIALS]


def own_secrets(request: Request) -> list[str]:
    """The caller's own keys, without the word before them."""
    return [value.decode("latin-1").rsplit(" ", 1)[-1] for _, value in own_credentials(request)]


def credentials(provider: ProviderConfig, key: KeyConfig) -> tuple[bytes, bytes] | None:
    """The header that carries a key."""
    secret = key.secret.get_secret_value().encode("latin-1")
    match provider.auth:
        case "bearer":
            return (b"Authorization", b"Bearer " + secret)
        case "api-key":
            return (b"api-key", secret)
        case "x-api-key":
            return (b"x-api-key", secret)
        case "none":
            return None


def _replaced(headers: list[tuple[bytes, bytes]], by: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The headers with `by` in place of those of the same names: sent twice, which one counts is anybody's guess."""
    names = {name.lower() for name, _ in by}
    return [*(pair for pair in headers if pair[0].lower() not in names), *by]


class Writer:
    """Writes requests for one route; what does not depend on the request is worked out once."""

    __slots__ = ("_auth", "_extra", "_family", "_model", "_provider", "_route", "_urls")

    def __init__(self, family: FamilyConfig, route: RouteConfig, provider: ProviderConfig) -> None:
        self._family = family
        self._route = route
        self._provider = provider
        self._model = Raw(json.dumps(route.model).encode())
        self._auth = [credentials(provider, key) for key in provider.keys]
        self._extra = [(name.encode(), value.encode("latin-1")) for name, value in provider.headers.items()]
        self._urls: dict[tuple[str, bytes], str] = {}

    def write(
        self, request: Request, key: int, plan: Lengths | None, dropped: Collection[str] = ()
    ) -> Prepared | Judgement:
        """The request for this route with its `key`-th key (-1: the caller's own).

        A judgement instead when the route's wire format cannot express the request.
        """
        content = self._content(request, plan, dropped)
        if isinstance(content, Judgement):
            return content
        path, body = content
        headers = allowed_headers(request, self._provider)
        auth = self._auth[key] if 0 <= key < len(self._auth) else None
        if auth is not None:
            headers.append(auth)
        elif self._provider.base_url == request.own_base:
            headers += own_credentials(request)
        if request.is_stream:
            headers = _replaced(headers, [(b"Accept-Encoding", b"identity")])
        if self._extra:
            headers = _replaced(headers, self._extra)
        return Prepared(request.method, self._url(path, request), headers, body)

    # -- the URL

    def _url(self, path: str, request: Request) -> str:
        query = request.query if self._provider.base_url == request.own_base else b""
        url = self._urls.get((path, query))
        if url is None:
            base = self._provider.base_url.replace("{model}", quote(self._route.model, safe=""))
            pairs = urlencode(self._provider.query)
            callers = _without_keys(query) if self._auth else query.decode("latin-1")
            kept = "&".join(part for part in (callers, pairs) if part)
            url = f"{base}{path}?{kept}" if kept else base + path
            if len(self._urls) < 64:
                self._urls[path, query] = url
        return url

    # -- the body

    def _content(
        self, request: Request, plan: Lengths | None, dropped: Collection[str]
    ) -> tuple[str, bytes] | Judgement:
        if not request.fields:
            body = request.body
            if request.headers.content_type.startswith(b"multipart/"):
                body = multipart_with_model(body, self._route.model)
            return request.path, body
        fields = dict(request.fields)
        fields["model"] = self._model
        if request.kind is Kind.EMBEDDING:
            self._fit_embedding(fields, plan, dropped)
        for name in (*self._route.drop_params, *(DROPPABLE.intersection(dropped) if dropped else ())):
            fields.pop(name, None)
        for name, value in self._route.params.items():
            fields[name] = Raw(msgspec.json.encode(value))
        wire = dialects.Wire(self._provider.wire)
        if request.kind is Kind.EMBEDDING and wire in (dialects.Wire.HUGGINGFACE, dialects.Wire.COHERE):
            plain = {name: msgspec.json.decode(value) for name, value in fields.items()}
            return dialects.encode(wire, plain, model=self._route.model)
        if self._model == request.fields.get("model") and fields == request.fields:
            return request.path, request.body
        return request.path, write_fields(fields)

    def _fit_embedding(self, fields: dict[str, Raw], plan: Lengths | None, dropped: Collection[str]) -> None:
        route = self._route
        fields.pop("dimensions", None)
        if plan is not None and plan.send is not None and route.dimensions_param is not None:
            fields[route.dimensions_param] = Raw(str(plan.send).encode())
        if route.base64 is False:
            fields.pop("encoding_format", None)
        self._fit_input_type(fields)

    def _fit_input_type(self, fields: dict[str, Raw]) -> None:
        """`input_type` query or document, in the words of this route: a parameter, a prefix, or nothing."""
        rules = self._route.input_type
        asked = text_of(fields.get("input_type"))
        neutral = asked if asked in _NEUTRAL else None
        if neutral is not None and self._provider.wire != "cohere":  # its own wire translates the word
            fields.pop("input_type")
        if rules.parameter is not None and (neutral is not None or asked is None):
            value = {"query": rules.query, "document": rules.document, None: rules.default}[neutral]
            if value is not None:
                fields[rules.parameter] = Raw(msgspec.json.encode(value))
        prefix = {"query": rules.query_prefix, "document": rules.document_prefix, None: ""}[neutral]
        if prefix:
            fields["input"] = _prefixed(fields.get("input"), prefix)


def _prefixed(raw: Raw | None, prefix: str) -> Raw:
    """The input with a prefix before each text; token arrays stay as they are."""
    value = msgspec.json.decode(raw) if raw is not None else ""
    if isinstance(value, str):
        return Raw(msgspec.json.encode(prefix + value))
    if isinstance(value, list):
        value = [prefix + item if isinstance(item, str) else item for item in value]
    return Raw(msgspec.json.encode(value))


def _without_keys(query: bytes) -> str:
    parts = query.decode("latin-1").split("&") if query else []
    return "&".join(part for part in parts if part.split("=", 1)[0].lower() not in _KEY_QUERY)


def may_drop(name: str, fields: Mapping[str, Raw]) -> bool:
    """Whether the request holds a droppable parameter with a value that can be done without: a format of vectors that
    nobody knows is the caller's own mistake."""
    return name in fields and (name != "encoding_format" or text_of(fields[name]) in _FORMATS)


def asked_dimensions(fields: Mapping[str, Raw]) -> int | None:
    """The `dimensions` that an embeddings request asks for."""
    return number_of(fields.get("dimensions"))
