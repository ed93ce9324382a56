"""Asks a provider in this process: the OpenAI wire format without a wire."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from shim._addresses import LOCAL
from shim._core.outcome import Outcome
from shim._http.flavour import Flavour
from shim._http.intake import lower
from shim._http.stand_in import StandIn
from shim._run.exchange import Exchange, Reply, during


class InProcess(Protocol):
    """A provider in this process."""

    def handle(self, method: str, path: str, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]: ...


def reply(
    provider: InProcess, exchange: Exchange, stand_in: StandIn | None, flavour: Flavour, now: Callable[[], float]
) -> Reply:
    """What the provider says, or what the fault that the attempt meets makes of it."""
    prepared, hx = exchange.prepared, flavour.module

    def answer() -> tuple[int, list[tuple[str, str]], bytes]:
        return provider.handle(prepared.method, prepared.url.removeprefix(LOCAL), prepared.body)

    def ask() -> Any:
        status, headers, body = answer()
        return hx.Response(status, headers=headers, content=body)

    if stand_in is None:
        status, headers, body = answer()
        return Reply(Outcome(status, {name.lower(): value for name, value in headers}, body), now())
    try:
        response = stand_in.send(ask, hx.Request(prepared.method, "https://in-process.invalid"))
        response.read()
    except flavour.caught as error:
        return Reply(flavour.outcome(error, is_overdue=False, during=during(exchange)))
    return Reply(Outcome(response.status_code, lower(response.headers), response.content), now())
