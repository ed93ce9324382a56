"""Carries out a fault that an attempt meets: in place of the provider's answer, or on the bytes of it.

What comes is made of the HTTP library's own responses and exceptions, so that all that reads an answer reads this one
in the same way. Waiting is the clock's: on a clock that a test moves it takes no time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import cache
from typing import Any, assert_never

from shim._core.fault_steps import Break, Rest, Tamper
from shim._core.faults import BadRows, Cut, Drip, Effect, ErrorEvent, Hang, Instead
from shim._core.outcome import Fault, Outcome
from shim._http.flavour import Flavour
from shim._http.intake import MOST_BYTES
from shim._run.exchange import Exchange
from shim._run.system import Clock

_INJECTED = "injected fault"
_SLICE = 0.05  # seconds between looks at whether another thread has ended the exchange
_OF_THE_WIRE = frozenset({"content-encoding", "content-length", "transfer-encoding"})


class StandIn:
    """One effect on one exchange. `send` and `async_send` give the response, or raise what the library would."""

    def __init__(self, effect: Effect, flavour: Flavour, exchange: Exchange, clock: Clock) -> None:
        self._effect = effect
        self._flavour = flavour
        self._exchange = exchange
        self._clock = clock
        self._events = 0
        self._since = clock.now()

    def send(self, ask: Callable[[], Any], request: Any) -> Any:
        """`ask` sends the request to the provider."""
        match self._effect:
            case Instead(outcome=outcome):
                return self._instead(outcome, request)
            case Hang(seconds=seconds):
                self._rest(seconds, request)
                return ask()
            case Cut() | Drip() | ErrorEvent() | BadRows() as change:
                response = ask()
                return self._changed(response, self._steps(response, Tamper(change), request), request)
            case _:
                assert_never(self._effect)

    async def async_send(self, ask: Callable[[], Awaitable[Any]], request: Any) -> Any:
        """As `send`."""
        match self._effect:
            case Instead(outcome=outcome):
                return self._instead(outcome, request)
            case Hang(seconds=seconds):
                await self._async_rest(seconds, request)
                return await ask()
            case Cut() | Drip() | ErrorEvent() | BadRows() as change:
                response = await ask()
                return self._changed(response, self._async_steps(response, Tamper(change), request), request)
            case _:
                assert_never(self._effect)

    # -- in place of the answer

    def _instead(self, outcome: Outcome, request: Any) -> Any:
        if outcome.fault is Fault.TOO_LARGE:
            outcome = Outcome(200, {"content-length": str(MOST_BYTES + 1)})
        if outcome.fault is not None:
            raise self._flavour.error(outcome.fault, request, outcome.detail)
        hx = self._flavour.module
        return hx.Response(
            outcome.status, headers=dict(outcome.headers), stream=hx.ByteStream(outcome.body), request=request
        )

    # -- on the bytes of the answer

    def _changed(self, response: Any, steps: Any, request: Any) -> Any:
        """The provider's response with another body, decoded: what is changed is what the caller would have read."""
        headers = [pair for pair in response.headers.multi_items() if pair[0].lower() not in _OF_THE_WIRE]
        sync_body, async_body = _bodies(self._flavour)
        return self._flavour.module.Response(
            response.status_code,
            headers=headers,
            stream=(async_body if hasattr(steps, "aclose") else sync_body)(steps, response),
            request=request,
            extensions=response.extensions,
        )

    def _steps(self, response: Any, tamper: Tamper, request: Any) -> Iterator[bytes]:
        for chunk in response.iter_bytes():
            for step in tamper.feed(chunk):
                if isinstance(step, Rest):
                    self._rest(step.seconds, request)
                elif isinstance(step, bytes):
                    yield step
                else:
                    return self._end(step, request)
        yield from self._last(tamper, request)

    async def _async_steps(self, response: Any, tamper: Tamper, request: Any) -> AsyncIterator[bytes]:
        async for chunk in response.aiter_bytes():
            for step in tamper.feed(chunk):
                if isinstance(step, Rest):
                    await self._async_rest(step.seconds, request)
                elif isinstance(step, bytes):
                    yield step
                else:
                    self._end(step, request)
                    return
        for last in self._last(tamper, request):
            yield last

    def _last(self, tamper: Tamper, request: Any) -> Iterator[bytes]:
        for step in tamper.end():
            if isinstance(step, bytes):
                yield step
            elif isinstance(step, Break):
                self._end(step, request)

    def _end(self, step: Break, request: Any) -> None:
        """The body ends: properly, or by the library's exception."""
        if step.fault is not None:
            raise self._flavour.error(step.fault, request, _INJECTED)

    # -- waiting

    def _allowed(self) -> float:
        """Seconds that may pass now before a limit of the attempt, or of a stream's silence, is reached."""
        now, watch = self._clock.now(), self._exchange.watch
        if watch is None or not watch.committed:
            return max(0.0, self._exchange.until - now)
        if watch.events != self._events:
            self._events, self._since = watch.events, now
        return max(0.0, self._since + self._exchange.idle - now)

    def _rest(self, seconds: float, request: Any) -> None:
        allowed = self._allowed()
        left = min(seconds, allowed)
        while left > 0.0 and not self._exchange.is_aborted:
            self._clock.wait(min(left, _SLICE))
            left -= _SLICE
        if seconds > allowed or self._exchange.is_aborted:
            raise self._flavour.error(Fault.TIMEOUT, request, _INJECTED)

    async def _async_rest(self, seconds: float, request: Any) -> None:
        allowed = self._allowed()
        await self._clock.async_wait(min(seconds, allowed))
        if seconds > allowed:
            raise self._flavour.error(Fault.TIMEOUT, request, _INJECTED)


@cache
def _bodies(flavour: Flavour) -> tuple[Any, Any]:
    """A sync and an async body over changed bytes; closing it closes the provider's response as well."""
    hx: Any = flavour.module

    class SyncBody(hx.SyncByteStream):  # type: ignore[misc]
        def __init__(self, steps: Any, response: Any) -> None:
            self._steps, self._response = steps, response

        def __iter__(self) -> Iterator[bytes]:
            return self._steps  # type: ignore[no-any-return]

        def close(self) -> None:
            self._steps.close()
            self._response.close()

    class AsyncBody(hx.AsyncByteStream):  # type: ignore[misc]
        def __init__(self, steps: Any, response: Any) -> None:
            self._steps, self._response = steps, response

        def __aiter__(self) -> AsyncIterator[bytes]:
            return self._steps  # type: ignore[no-any-return]

        async def aclose(self) -> None:
            await self._steps.aclose()
            await self._response.aclose()

    return SyncBody, AsyncBody
