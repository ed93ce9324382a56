"""`OpenAI` and `AsyncOpenAI`: the official clients, with their requests handed to a router where it knows the model."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

import openai
from openai import DEFAULT_TIMEOUT

from shim.discovery import find
from shim.served import MARK

if TYPE_CHECKING:
    from collections.abc import Callable

    from shim._arguments import Arguments, AsyncArguments, AsyncChanges, Changes
    from shim.embeddings import AsyncEmbeddings, Embeddings
    from shim.events import JobProgress
    from shim.router import Router

__all__ = ["AsyncOpenAI", "OpenAI"]

PLACEHOLDER = "shim-has-no-key-for-this"
"""What the official constructor gets where it insists on a key and all keys are configured; forgotten at once."""

_RAW = "x-stainless-raw-response"
PACKED = "x-shim-vectors"
_KEPT_URLS = 256
_PROMISES = ("provider", "workload_identity", "data_residency")


class _Routed:
    """What both clients share: the router, what the caller said of time and retries, and the making of exceptions."""

    _router: Router | None
    _given: Mapping[str, object]
    _is_ours: bool
    _is_keyless: bool
    _known_parts: tuple[Any, Any, Any, str] | None = None
    _kept_urls: tuple[Any, dict[str, Any]] | None = None

    # -- construction

    def _take(self, given: dict[str, Any]) -> dict[str, Any]:
        """Settle on a router and on whether the key can be left out; the arguments for the official constructor."""
        asked = given.pop("router", None)
        self._router = _router_for(asked, given)
        self._given = dict(given)
        self._is_ours = given.get("http_client") is None
        self._is_keyless = False
        # Who names an endpoint in code and asks for no router wants to reach that endpoint: openai's own error stands.
        may_lack_key = asked is not None or given.get("base_url") is None
        if self._router is not None and may_lack_key and _lacks_key(given):
            self._is_keyless = True
            return {**given, "api_key": PLACEHOLDER}
        return given

    def _forget_placeholder(self) -> None:
        if self._is_keyless:
            self.api_key = ""

    def _validate_headers(self, headers: Any, custom_headers: Any) -> None:
        """A client without a key may ask for a family: only a request that passes through needs one."""
        if not self._is_keyless:
            super()._validate_headers(headers, custom_headers)  # type: ignore[misc]

    def _inherit(self, parent: _Routed, changed: Mapping[str, Any]) -> None:
        """A copy keeps who made the HTTP client and what the caller said of time and retries."""
        self._is_ours = parent._is_ours and changed.get("http_client") is None
        self._given = {**parent._given, **{name: value for name, value in changed.items() if name[0] != "_"}}
        self._is_keyless = parent._is_keyless and not changed.get("api_key")

    @property
    def router(self) -> Router | None:
        """The router of this client; None when nothing is configured and every call goes where the official client's
        would."""
        return self._router

    # -- sending

    def _options(self, request: Any) -> Any:
        from shim._run.bounds import Options

        timeout = request.extensions.get("timeout") or {}
        read, connect = timeout.get("read"), timeout.get("connect")
        was_given = "timeout" in self._given or read != DEFAULT_TIMEOUT.read
        return Options(
            deadline=read if was_given else None,
            read_timeout=read if was_given else None,
            connect_timeout=connect,
            max_retries=self.max_retries if "max_retries" in self._given else None,  # type: ignore[attr-defined]
        )

    def _parts(self, *, is_async: bool) -> tuple[Any, Any, str]:
        """The engine, what sends over the HTTP client (None for one of another kind), and the client's own base URL."""
        assert self._router is not None
        http_client, base_url = self._client, self._base_url  # type: ignore[attr-defined]
        known = self._known_parts
        if known is None or known[0] is not http_client or known[1] is not base_url:
            from shim._http.clients import pools_of
            from shim._http.flavour import flavour_of

            flavour, sender = flavour_of(http_client), None
            if flavour is not None:
                pools = pools_of(http_client, flavour, is_ours=self._is_ours)
                sender = self._router._engine.sender(flavour, pools, is_async=is_async)
            known = self._known_parts = (http_client, base_url, sender, str(base_url).rstrip("/"))
        return self._router._engine, known[2], known[3]

    def _prepare_url(self, url: str) -> Any:
        """As the official client's, kept for each path: it parses the URL anew for every request."""
        base_url = self._base_url  # type: ignore[attr-defined]
        if self._kept_urls is None or self._kept_urls[0] is not base_url:
            self._kept_urls = (base_url, {})
        kept = self._kept_urls[1]
        known = kept.get(url)
        if known is None:
            known = super()._prepare_url(url)  # type: ignore[misc]
            if len(kept) < _KEPT_URLS:
                kept[url] = known
        return known

    def _build_request(self, options: Any, **rest: Any) -> Any:
        """As the official client's; an input that is no text is named, where JSON's own error counts bytes."""
        try:
            return super()._build_request(options, **rest)  # type: ignore[misc]
        except UnicodeEncodeError as error:
            from shim._core.surrogates import place_of

            error.reason = place_of(options.json_data) or error.reason
            raise

    def _refuse_keyless(self, request: Any) -> None:
        if self._is_keyless and "authorization" not in request.headers:
            assert self._router is not None
            about = self._router._engine.about(request)
            raise openai.OpenAIError(
                f"the request to {request.url.path}{about} belongs to no family of the configuration, and this client "
                "has no key of its own to pass it on with: name a family as `model`, or set api_key or OPENAI_API_KEY"
            )

    def _post_for_vectors(self, body: Any, headers: Mapping[str, str]) -> Any:
        """A raw response that carries its vectors packed: what dataset jobs send. Awaitable for an async client."""
        told = {**headers, PACKED: "float32", _RAW: "raw"}
        return self.post("/embeddings", cast_to=object, body=body, options={"headers": told, "max_retries": 0})  # type: ignore[attr-defined]

    # -- datasets

    def embed(
        self,
        data: object,
        *,
        family: str | None = None,
        column: str | None = None,
        into: str | None = None,
        out: str | os.PathLike[str] | None = None,
        dry_run: bool = False,
        dimensions: int | None = None,
        input_type: Literal["document", "query", ""] = "document",
        oversize: Literal["error", "truncate", "split-mean"] = "error",
        normalise: bool = False,
        dtype: Literal["float32", "float16"] = "float32",
        batch_size: int | None = None,
        concurrency: int = 8,
        on_error: Literal["null", "raise"] = "null",
        max_error_rate: float | None = None,
        limit_usd: float | None = None,
        limit_rows: int | None = None,
        patience: float = 300.0,
        store: str | os.PathLike[str] | None = None,
        fresh: bool = False,
        progress: bool | Callable[[JobProgress], Any] | None = None,
    ) -> Any:
        """Embed a whole column, once, and know where every vector came from. Needs the extra `embed`.

        `data` is a list, a pandas or polars Series or frame, an Arrow array or table, a NumPy array, a Hugging Face
        dataset, an iterator, or the path of a Parquet, Arrow, CSV, JSON Lines or text file; `column` names the texts in
        what has several. `family` may be left out where the configuration has one, or a default.

        Returns a finished `shim.embed.Job` (an async client a `shim.embed.AsyncJob`, to be awaited: where an event loop
        is running it starts at once, and `cancel()` ends it with all that is done kept): `.vectors` (n x d float32,
        input order, NaN where a row failed), `.errors`, `.provenance`, `.summary()`, `.retry_failed()`. With
        `into`, the same frame with a column of vectors; with `out`, the vectors are written to that file (.parquet,
        .arrow, .jsonl, .npy) as they come; with `dry_run`, a `shim.embed.Estimate`, and nothing is sent.

        What is done is kept on the disk: run the same again after a crash, an interruption or a limit, and it goes on.
        Failed rows become error rows; `EmbeddingStoppedError` is raised when no route is left or too many rows failed,
        `SourceError` for input that cannot be read, `StoreError` for a store that cannot be used. `docs/datasets.md`
        tells what the further choices mean."""
        return _embedded(self, locals())

    # -- what comes back

    def _read_already(self, response: Any, rest: Mapping[str, Any]) -> Any:
        """The result of an embeddings call whose vectors the engine has read; None for all others."""
        served = response.extensions.get("shim")
        if served is None or served.embedded is None or _RAW in response.request.headers:
            return None
        from shim.embeddings import fast_answer

        return fast_answer(rest["options"], response)

    def _mark(self, result: Any, response: Any) -> Any:
        served = response.extensions.get("shim")
        if served is not None:
            if PACKED not in response.request.headers:
                served.embedded = None  # the answer has been made of it
            if hasattr(result, "__dict__"):
                object.__setattr__(result, MARK, served)
        return result

    def _make_status_error(self, err_msg: str, *, body: object, response: Any) -> Any:
        """The exception for an exhausted call; the official one for any other status."""
        served = response.extensions.get("shim")
        call = None if served is None else served.call
        if call is None or call.ending.value != "exhausted":
            return super()._make_status_error(err_msg, body=body, response=response)  # type: ignore[misc]
        from shim.errors import exhausted_error_class

        error = body.get("error", body) if isinstance(body, dict) else body
        cls = exhausted_error_class(served.flight.common_way())
        return cls(err_msg, response=response, body=error, call=call)

    def __reduce__(self) -> tuple[Any, ...]:
        for name in ("http_client", "provider", "workload_identity"):
            if self._given.get(name) is not None:
                raise TypeError(
                    f"a client with its own {name} cannot be pickled: pickle client.router and build the client where "
                    "it is used"
                )
        given = {name: value for name, value in self._given.items() if not name.startswith("set_default")}
        given["default_headers"] = dict(self._custom_headers)  # type: ignore[attr-defined]  # of the official client
        given["default_query"] = dict(self._custom_query)  # type: ignore[attr-defined]
        if "base_url" in given:
            given["base_url"] = str(given["base_url"])
        return (_rebuilt, (type(self), given, self._router or False))


def _rebuilt(cls: Any, given: dict[str, Any], router: Router | Literal[False]) -> Any:
    return cls(**given, router=router)


def _router_for(asked: Any, given: Mapping[str, Any]) -> Router | None:
    """The router of a new client. One that promises where its data go is never routed unless asked in so many words."""
    if asked is False:
        return None
    if asked is None:
        if any(given.get(name) is not None for name in _PROMISES):
            return None
        asked = find()
        if asked is None:
            return None
    from shim.router import as_router

    return as_router(asked)


def _lacks_key(given: Mapping[str, Any]) -> bool:
    named = ("api_key", "admin_api_key", *_PROMISES)
    if any(given.get(name) for name in named) or given.get("_enforce_credentials") is False:
        return False
    return not (os.environ.get("OPENAI_API_KEY") or os.environ.get("OPENAI_ADMIN_KEY"))


class OpenAI(_Routed, openai.OpenAI):
    """The official client, which survives its providers. Takes one more argument:

    `router`: a `Router`, a configuration as a mapping, the path of one, or False for no routing at all. Without it the
    first configuration found is used (`$SHIM_CONFIG`, `./shim.toml`, `[tool.shim]` in `./pyproject.toml`,
    `~/.config/shim/config.toml`); with none this is the official client. A call whose model belongs to no family passes
    through unchanged.
    """

    if TYPE_CHECKING:

        def __init__(self, **given: Unpack[Arguments]) -> None: ...

        def copy(self, **changed: Unpack[Changes]) -> Self: ...  # type: ignore[override]  # router is one more

        def with_options(self, **changed: Unpack[Changes]) -> Self: ...  # type: ignore[override]  # router is one more

    else:  # wrapped, so that signatures show what the installed openai takes

        @functools.wraps(openai.OpenAI.__init__)
        def __init__(self, **given: Any) -> None:
            super().__init__(**self._take(given))
            self._forget_placeholder()

        @functools.wraps(openai.OpenAI.copy)
        def copy(self, **changed: Any) -> Any:
            return _copy(self, super().copy, changed)

        with_options = copy

    @functools.cached_property
    def embeddings(self) -> Embeddings:
        from shim.embeddings import Embeddings

        return Embeddings(self)

    def _send_request(self, request: Any, *, stream: bool, **rest: Any) -> Any:
        if self._router is not None:
            engine, sender, own = self._parts(is_async=False)
            if sender is not None:
                answer = engine.send(request, sender, own, self._options(request))
                if answer is not None:
                    return answer
            self._refuse_keyless(request)
        return super()._send_request(request, stream=stream, **rest)

    def _process_response(self, *, response: Any, **rest: Any) -> Any:
        result = self._read_already(response, rest)
        if result is None:
            result = super()._process_response(response=response, **rest)
        return self._mark(result, response)


class AsyncOpenAI(_Routed, openai.AsyncOpenAI):
    """The official async client, which survives its providers. See `OpenAI` for `router`."""

    if TYPE_CHECKING:

        def __init__(self, **given: Unpack[AsyncArguments]) -> None: ...

        def copy(self, **changed: Unpack[AsyncChanges]) -> Self: ...  # type: ignore[override]  # router is one more

        def with_options(self, **changed: Unpack[AsyncChanges]) -> Self: ...  # type: ignore[override]  # router too

    else:  # wrapped, so that signatures show what the installed openai takes

        @functools.wraps(openai.AsyncOpenAI.__init__)
        def __init__(self, **given: Any) -> None:
            super().__init__(**self._take(given))
            self._forget_placeholder()

        @functools.wraps(openai.AsyncOpenAI.copy)
        def copy(self, **changed: Any) -> Any:
            return _copy(self, super().copy, changed)

        with_options = copy

    @functools.cached_property
    def embeddings(self) -> AsyncEmbeddings:
        from shim.embeddings import AsyncEmbeddings

        return AsyncEmbeddings(self)

    async def _send_request(self, request: Any, *, stream: bool, **rest: Any) -> Any:
        if self._router is not None:
            engine, sender, own = self._parts(is_async=True)
            if sender is not None:
                answer = await engine.async_send(request, sender, own, self._options(request))
                if answer is not None:
                    return answer
            self._refuse_keyless(request)
        return await super()._send_request(request, stream=stream, **rest)

    async def _process_response(self, *, response: Any, **rest: Any) -> Any:
        result = self._read_already(response, rest)
        if result is None:
            result = await super()._process_response(response=response, **rest)
        return self._mark(result, response)


def _embedded(client: Any, given: dict[str, Any]) -> Any:
    try:
        from shim.embed.async_job import awaited
        from shim.embed.job import finished
    except ImportError as error:
        raise ImportError(f"embed needs {error.name}: pip install 'openai-shim[embed]'") from error
    given = {name: value for name, value in given.items() if name != "self"}
    return (awaited if isinstance(client, AsyncOpenAI) else finished)(client, **given)


def _copy(client: Any, official: Any, changed: dict[str, Any]) -> Any:
    asked = changed.pop("router", None)
    if asked is not None:
        router = asked
    elif any(changed.get(name) for name in _PROMISES):
        router = False  # the copy promises where its data go: that holds unless asked in so many words
    else:
        router = client._router or False
    extra = {**changed.pop("_extra_kwargs", {}), "router": router}
    copied = official(**changed, _extra_kwargs=extra)
    copied._inherit(client, changed)
    return copied
