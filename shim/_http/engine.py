"""Serves a request of an httpx or httpx2 client through the router's providers. Knows neither which hook of the SDK
called it nor which flavour it serves."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from shim._core.catalog import Resolution
from shim._core.plan import account_of, model_name
from shim._core.request import Request
from shim._core.state import State, needs_state
from shim._http.answer import answer_of, local_refusal
from shim._http.codec import NotAModel, endpoint_at, read_request
from shim._http.flavour import Flavour
from shim._http.in_process import InProcess
from shim._http.pools import Pools
from shim._http.sender import AsyncSender, SyncSender
from shim._http.stored import exchange_for, find_stored, response_for
from shim._run import aio, sync
from shim._run.board import Board
from shim._run.bounds import Options
from shim._run.flight import Flight
from shim.config import FamilyConfig

HINT = "x-shim-route"
_HINT, _FALLBACK = HINT.encode(), b"x-shim-fallback"


class Home(NamedTuple):
    """Where a call goes: its family, and where state or the caller says so the one provider or route and account."""

    family: FamilyConfig
    pinned: str | None
    account: str = ""


class Engine:
    """One per router. `send` and `async_send` return None for a request that is not ours."""

    def __init__(self, board: Board, local: Callable[[], InProcess]) -> None:
        self.board = board
        self.local = local

    def sender(self, flavour: Flavour, pools: Pools, *, is_async: bool) -> SyncSender | AsyncSender:
        """What carries out exchanges over the connections of a client; made once for each."""
        face = AsyncSender if is_async else SyncSender
        return face(flavour, pools, self.local, self.board.clock, self.board.secrets, self.board.injections)

    def send(self, request: Any, sender: SyncSender, own_base: str, options: Options) -> Any:
        """The response to a routed request, through a sync client; None to let it pass."""
        endpoint = endpoint_at(request)
        if endpoint is None:
            return self._send_stored(request, sender, own_base, options)
        flight = self._flight(request, endpoint, request.read(), sender.flavour, own_base, options)
        if not isinstance(flight, Flight):
            return flight
        try:
            sync.run(flight, sender, self.board.clock)
            return answer_of(flight, sender.flavour, request, is_async=False)
        except BaseException:  # also KeyboardInterrupt, between the end of the call and its answer
            flight.drop(sender)
            raise

    async def async_send(self, request: Any, sender: AsyncSender, own_base: str, options: Options) -> Any:
        """As `send`, through an async client."""
        endpoint = endpoint_at(request)
        if endpoint is None:
            return await self._async_send_stored(request, sender, own_base, options)
        flight = self._flight(request, endpoint, await request.aread(), sender.flavour, own_base, options)
        if not isinstance(flight, Flight):
            return flight
        try:
            await aio.run(flight, sender, self.board.clock)
            return answer_of(flight, sender.flavour, request, is_async=True)
        except BaseException:  # also CancelledError, while the losers of a race are seen out
            await sender.drop(flight)
            raise

    def _send_stored(self, request: Any, sender: SyncSender, own_base: str, options: Options) -> Any:
        stored = find_stored(self.board, request)
        if stored is None:
            return None
        started = self.board.clock.now()
        reply = sender(exchange_for(stored, self.board, request, request.read(), own_base, options))
        return response_for(stored, self.board, sender.flavour, request, reply, started)

    async def _async_send_stored(self, request: Any, sender: AsyncSender, own_base: str, options: Options) -> Any:
        stored = find_stored(self.board, request)
        if stored is None:
            return None
        started = self.board.clock.now()
        reply = await sender(exchange_for(stored, self.board, request, await request.aread(), own_base, options))
        return response_for(stored, self.board, sender.flavour, request, reply, started)

    def _flight(
        self, request: Any, endpoint: str, body: bytes, flavour: Flavour, own_base: str, options: Options
    ) -> Flight | Any | None:
        """The call to make, a refusal of our own, or None."""
        try:
            read = read_request(request, endpoint, body, own_base)
        except NotAModel as wrong:
            return local_refusal(flavour, request, self._wrong_model(str(wrong)), "model")
        if read is None:
            return None
        found = self.board.catalog.resolve(read.model, read.kind)
        if found is None:
            return None
        home = Home(found.family, found.pinned)
        state = needs_state(endpoint, body, read.fields)
        if state is not None:
            read.state = state.name
            settled = self._home(state, read, found)
            if settled is None:
                return self._without_home(request, flavour, read, found.family)
            home = settled
        hints = read.headers.hints
        if home.pinned is not None or _HINT in hints or _FALLBACK in hints:
            options = _with_hints(hints, options, home.pinned)
        if state is not None:
            options = replace(options, only_first=True, account=home.account)
        return self._checked(request, flavour, read, home.family, options)

    def _home(self, state: State, read: Request, found: Resolution) -> Home | None:
        """Where the state of a call is: with its maker, where the caller says, or behind the client's own base URL."""
        maker = self.board.maker_of(state.response)
        if maker is not None:
            return Home(self.board.families[maker.family].config, maker.route, maker.account)
        if found.pinned is not None or _HINT in read.headers.hints:
            return Home(found.family, found.pinned)
        for route in found.family.routes:
            provider = self.board.catalog.provider(route)
            if provider.base_url == read.own_base and route.enabled and provider.enabled:
                return Home(found.family, route.route, account_of(read, provider))
        return None

    def _without_home(self, request: Any, flavour: Flavour, read: Request, family: FamilyConfig) -> Any | None:
        """Nobody here knows where the state is: the client's own provider, which need not know our families' names."""
        if not _is_ours_alone(read.model, family):
            return None
        providers = ", ".join(dict.fromkeys(route.provider for route in family.routes))
        message = (
            f"{read.state} refers to something that one provider keeps, and it is not known here which provider of "
            f"family '{family.name}' that is: name it as model='{family.name}/<provider>' (providers: {providers}), "
            "or name a model of the client's own provider to send the call there"
        )
        return local_refusal(flavour, request, message, read.state)

    def _checked(
        self, request: Any, flavour: Flavour, read: Request, family: FamilyConfig, options: Options
    ) -> Flight | Any:
        pinned = options.pinned
        if pinned is not None and not any(pinned in (route.provider, route.route) for route in family.routes):
            known = ", ".join(route.route for route in family.routes)
            message = f"{HINT}: no route {pinned!r} in family '{family.name}'; its routes: {known}"
            return local_refusal(flavour, request, message, HINT)
        return Flight(self.board, read, family, options)

    def about(self, request: Any) -> str:
        """What a request asks for and what it may have meant, for a message; "" where that cannot be told."""
        endpoint = endpoint_at(request)
        body = getattr(request, "_content", None)
        if endpoint is None or not isinstance(body, bytes):
            return ""
        with contextlib.suppress(NotAModel):
            read = read_request(request, endpoint, body, "")
            if read is not None and read.model in ("", "auto"):
                return f" for model {read.model!r} (no default_{read.kind.value} is configured)"
            if read is not None and self.board.catalog.resolve(read.model, read.kind) is not None:
                state = needs_state(endpoint, body, read.fields)
                name = "something" if state is None else state.name
                return f" for model {read.model!r} with {name}, which no provider here is known to keep,"
            if read is not None:
                near = self.board.catalog.closest(read.model, read.kind)
                return f" for model {read.model!r}" + (f" (did you mean {near[0]!r}?)" if near else "")
        return ""

    def _wrong_model(self, seen: str) -> str:
        names = ", ".join(self.board.catalog.config.families) or "none"
        return f"model must be a text, got {seen}; families of this configuration: {names}"


def _is_ours_alone(model: str, family: FamilyConfig) -> bool:
    """Whether a name means something to this configuration and nothing to a provider. An alias, and a family that is
    called like the model of one of its routes, may be known to the client's own provider."""
    if model != family.name:
        return model == "auto"
    return model not in family.aliases and all(model_name(route.model) != model.lower() for route in family.routes)


def _with_hints(hints: Mapping[bytes, bytes], options: Options, pinned: str | None) -> Options:
    """The caller's own hints: a header that pins a route, one that switches fallback off."""
    hint = hints.get(_HINT, b"").decode("latin-1")
    only_first = hints.get(_FALLBACK, b"").lower() in (b"off", b"false", b"0", b"no")
    return Options(
        deadline=options.deadline,
        read_timeout=options.read_timeout,
        connect_timeout=options.connect_timeout,
        max_retries=0 if only_first else options.max_retries,
        pinned=pinned or hint or None,  # what the name or a stored response says is not for a hint to change
        only_first=only_first or options.only_first,
    )
