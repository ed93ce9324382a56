"""Carries out one exchange on an httpx or httpx2 client, sync or async. The caller's client is used, never changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio

from shim._addresses import LOCAL
from shim._core.outcome import Fault, Judgement, Outcome
from shim._http import in_process, intake
from shim._http.flavour import Flavour
from shim._http.live import Live
from shim._http.pools import Pools
from shim._http.sockets import end_late, shut, sweep
from shim._http.stand_in import StandIn
from shim._run.exchange import Exchange, Reply, during
from shim._run.flight import Flight
from shim._run.injections import Injections
from shim._run.system import Clock
from shim._run.watchdog import Watch, watchdog

_MOST_STALE = 100  # kept-alive connections that may turn out dead one after the other before it counts as a failure
_LOOP_IS_CLOSED = "Event loop is closed"
_PLAIN = {"stream": True, "auth": None, "follow_redirects": False}
_GRACE = 0.05  # seconds for the library's own timeout to end a stall before the watchdog shuts the socket


class _Sender:
    """What the two faces share."""

    def __init__(
        self,
        flavour: Flavour,
        pools: Pools,
        local: Callable[[], in_process.InProcess],
        clock: Clock,
        secrets: tuple[str, ...],
        injections: Injections,
    ) -> None:
        self._secrets = secrets
        self._injections = injections
        self.flavour = flavour
        self._pools = pools
        self._local = local
        self._clock = clock

    def _build(self, exchange: Exchange) -> tuple[Any, intake.Limits]:
        prepared = exchange.prepared
        limits = intake.Limits(exchange.until, exchange.connect, self._clock.now)
        url = self._pools.url(prepared.url, self._secrets)
        request = self.flavour.request(prepared.method, url, prepared.headers, prepared.body, {"timeout": limits})
        return request, limits

    def _stand_in(self, exchange: Exchange) -> StandIn | None:
        """What carries out the fault that this attempt meets, None for a plain exchange."""
        if not self._injections.active:
            return None
        met = self._injections.meet(exchange.provider, exchange.model)
        return None if met is None else StandIn(met.effect, self.flavour, exchange, self._clock)

    def _in_process(self, exchange: Exchange) -> Reply:
        return in_process.reply(self._local(), exchange, self._stand_in(exchange), self.flavour, self._clock.now)

    def _may_send_again(self, limits: intake.Limits, outcome: Outcome, exchange: Exchange) -> bool:
        """A kept-alive connection that the server had closed meanwhile says nothing of the server: use a fresh one."""
        return (
            outcome.fault is Fault.RESET
            and not limits.has_connected
            and not limits.is_aborted
            and self._clock.now() < exchange.until
        )


class SyncSender(_Sender):
    """`Send` over a sync client."""

    def __call__(self, exchange: Exchange, /) -> Reply:
        if exchange.prepared.url.startswith(LOCAL):
            return self._in_process(exchange)
        stand_in = self._stand_in(exchange)
        for _ in range(_MOST_STALE):
            reply, again = self._once(exchange, stand_in)
            if not again:
                break
        return reply

    def abort(self, exchange: Exchange) -> None:
        """End the exchange from another thread."""
        exchange.is_aborted = True
        if exchange.abort is not None:
            exchange.abort()

    def close(self, reply: Reply) -> None:
        """Close a stream that nobody will read."""
        if isinstance(reply.live, Live):
            reply.live.response.close()
            reply.live.release()
            if reply.live.guard is not None:
                reply.live.guard.stop()

    @staticmethod
    def _is_aborted(exchange: Exchange) -> bool:
        """Asked again and again: another thread sets it."""
        return exchange.is_aborted

    def _once(self, exchange: Exchange, stand_in: StandIn | None) -> tuple[Reply, bool]:
        client, release = self._pools.lease()
        request, limits = self._build(exchange)
        limits.has_connected = stand_in is not None  # nothing that is injected is a connection gone stale
        exchange.abort = lambda: shut(client, request, limits)
        if self._is_aborted(exchange):  # before it could begin
            release()
            return Reply(Outcome(fault=Fault.RESET, detail="cancelled")), False
        watch = watchdog(self._clock).watch(exchange.until + _GRACE, exchange.abort)
        response, reply = None, None
        try:
            ask = partial(client.send, request, **_PLAIN)
            response = ask() if stand_in is None else stand_in.send(ask, request)
            reply = self._read(exchange, client, response, watch, release)
            return reply, False
        except self.flavour.caught as error:
            outcome = self.flavour.outcome(error, is_overdue=watch.is_overdue, during=during(exchange))
            return Reply(outcome), response is None and self._may_send_again(limits, outcome, exchange)
        finally:
            if reply is None or reply.live is None:
                if response is not None:
                    response.close()
                watch.stop()
                release()
                if client.is_closed:
                    end_late(client)
            if reply is not None and self._is_aborted(exchange):
                self.close(reply)

    def _read(self, exchange: Exchange, client: Any, response: Any, watch: Watch, release: Callable[[], None]) -> Reply:
        at = self._clock.now()
        headers = intake.lower(response.headers)
        intake.forget_cookies(client, response, headers)
        refused = intake.too_large(headers, response.status_code)
        if refused is not None:
            return Reply(refused, at)
        if not intake.is_live(exchange, response.status_code, headers):
            response.read()
            return intake.whole(response, headers, at)
        stream = exchange.watch
        assert stream is not None
        chunks = response.iter_bytes()
        first = b""
        for chunk in chunks:
            first = stream.feed(chunk)
            if stream.committed or stream.error is not None:
                break
        if watch.is_overdue:
            return Reply(Outcome(fault=Fault.FIRST_CHUNK_TIMEOUT), at)
        live = Live(self.flavour, response, chunks, first, stream, exchange.idle, self._clock, release)
        live.guard = watch
        watch.move(float("inf"))
        return intake.opened(stream, response, headers, at, live)


class AsyncSender(_Sender):
    """`AsyncSend` over an async client."""

    async def __call__(self, exchange: Exchange, /) -> Reply:
        if exchange.prepared.url.startswith(LOCAL):
            return await asyncio.to_thread(self._in_process, exchange)
        stand_in = self._stand_in(exchange)
        for _ in range(_MOST_STALE):
            reply, again = await self._once(exchange, stand_in)
            if not again:
                break
        return reply

    async def discard(self, task: asyncio.Task[Reply | Judgement]) -> None:
        """Wait until a cancelled attempt has closed its connection, and close a stream that nobody will read."""
        await asyncio.wait([task])
        if not task.cancelled() and task.exception() is None:
            result = task.result()
            if isinstance(result, Reply):
                await self._close(result)

    async def drop(self, flight: Flight) -> None:
        """The call was won, and its answer will reach nobody: give back what it holds."""
        won = flight.winner
        flight.abandon()
        if won is not None:
            await self._close(won.reply)

    async def _close(self, reply: Reply) -> None:
        if isinstance(reply.live, Live):
            with anyio.CancelScope(shield=True):
                await reply.live.response.aclose()
            reply.live.release()

    async def _once(self, exchange: Exchange, stand_in: StandIn | None) -> tuple[Reply, bool]:
        client, release = self._pools.lease()
        request, limits = self._build(exchange)
        limits.has_connected = stand_in is not None  # nothing that is injected is a connection gone stale
        loop = asyncio.get_running_loop()
        response, reply, is_cut = None, None, False
        try:
            async with asyncio.timeout_at(loop.time() + exchange.until - self._clock.now()):
                ask = partial(client.send, request, **_PLAIN)
                response = await (ask() if stand_in is None else stand_in.async_send(ask, request))
                reply = await self._read(exchange, client, response, release)
                return reply, False
        except asyncio.CancelledError:
            is_cut = True
            raise
        except TimeoutError:
            is_cut = True
            return Reply(Outcome(fault=during(exchange))), False
        except self.flavour.caught as error:
            outcome = self.flavour.outcome(error, is_overdue=False, during=during(exchange))
            return Reply(outcome), response is None and self._may_send_again(limits, outcome, exchange)
        except RuntimeError as error:
            if _LOOP_IS_CLOSED not in str(error) or response is not None:
                raise
            # A connection that a caller's own client kept from an event loop that is gone. It is out of the pool now.
            return Reply(Outcome(fault=Fault.RESET, detail=_LOOP_IS_CLOSED)), True
        finally:
            if reply is None or reply.live is None:
                try:
                    if response is not None and not response.is_closed:
                        with anyio.CancelScope(shield=True):
                            await response.aclose()
                finally:
                    if is_cut:
                        sweep(client, request)
                    release()

    async def _read(self, exchange: Exchange, client: Any, response: Any, release: Callable[[], None]) -> Reply:
        at = self._clock.now()
        headers = intake.lower(response.headers)
        intake.forget_cookies(client, response, headers)
        refused = intake.too_large(headers, response.status_code)
        if refused is not None:
            return Reply(refused, at)
        if not intake.is_live(exchange, response.status_code, headers):
            await response.aread()
            return intake.whole(response, headers, at)
        stream = exchange.watch
        assert stream is not None
        chunks = response.aiter_bytes()
        first = b""
        async for chunk in chunks:
            first = stream.feed(chunk)
            if stream.committed or stream.error is not None:
                break
        live = Live(self.flavour, response, chunks, first, stream, exchange.idle, self._clock, release)
        return intake.opened(stream, response, headers, at, live)
