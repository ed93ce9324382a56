"""Serves a request of an httpx or httpx2 client through the router's providers. Knows neither which hook of the SDK
called it nor which flavour it serves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from shim._core.request import Request, needs_state
from shim._http.answer import answer_of, local_refusal
from shim._http.codec import NotAModel, endpoint_at, read_request
from shim._http.flavour import Flavour
from shim._http.pools import Pools
from shim._http.sender import AsyncSender, InProcess, SyncSender
from shim._run import aio, sync
from shim._run.board import Board
from shim._run.flight import Flight, Options
from shim.config import FamilyConfig

HINT = "x-shim-route"
_HINT, _FALLBACK = HINT.encode(), b"x-shim-fallback"


class Engine:
    """One per router. `send` and `async_send` return None for a request that is not ours."""

    def __init__(self, board: Board, local: Callable[[], InProcess]) -> None:
        self.board = board
        self.local = local

    def sender(self, flavour: Flavour, pools: Pools, *, is_async: bool) -> SyncSender | AsyncSender:
        """What carries out exchanges over the connections of a client; made once for each."""
        face = AsyncSender if is_async else SyncSender
        return face(flavour, pools, self.local, self.board.clock, self.board.secrets)

    def send(self, request: Any, sender: SyncSender, own_base: str, options: Options) -> Any:
        """The response to a routed request, through a sync client; None to let it pass."""
        endpoint = endpoint_at(request)
        if endpoint is None:
            return None
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
            return None
        flight = self._flight(request, endpoint, await request.aread(), sender.flavour, own_base, options)
        if not isinstance(flight, Flight):
            return flight
        try:
            await aio.run(flight, sender, self.board.clock)
            return answer_of(flight, sender.flavour, request, is_async=True)
        except BaseException:  # also CancelledError, while the losers of a race are seen out
            await sender.drop(flight)
            raise

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
        family, pinned = found.family, found.pinned
        if endpoint == "/responses" and (state := needs_state(read.fields)) is not None:
            maker = self.board.maker_of(state)
            if maker is None or maker[0] not in self.board.families:
                return None  # where the state is, nobody here knows: the client's own provider
            family, pinned = self.board.families[maker[0]].config, maker[1]
        hints = read.headers.hints
        if pinned is not None or _HINT in hints or _FALLBACK in hints:
            options = _with_hints(hints, options, pinned)
        return self._checked(request, flavour, read, family, options)

    def _checked(
        self, request: Any, flavour: Flavour, read: Request, family: FamilyConfig, options: Options
    ) -> Flight | Any:
        pinned = options.pinned
        if pinned is not None and not any(pinned in (route.provider, route.route) for route in family.routes):
            known = ", ".join(route.route for route in family.routes)
            message = f"{HINT}: no route {pinned!r} in family '{family.name}'; its routes: {known}"
            return local_refusal(flavour, request, message, HINT)
        return Flight(self.board, read, family, options)

    def _wrong_model(self, seen: str) -> str:
        names = ", ".join(self.board.catalog.config.families) or "none"
        return f"model must be a text, got {seen}; families of this configuration: {names}"


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
