"""A busy afternoon, made up: a configuration, the state of its routes, and the events that led there. All synthetic."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

from notebook_ext.fold import Fold
from notebook_ext.model import Snapshot
from notebook_ext.snapshot import Sources, make
from shim.config import Config
from shim.events import (
    Attempt,
    AttemptFinished,
    BreakerState,
    Call,
    CallFinished,
    Ending,
    Event,
    JobProgress,
    JobState,
    Kind,
    Purpose,
    Scope,
    Verdict,
)
from shim.loading import load
from shim.router import ProviderStatus, RouteStatus, SpaceStatus, Status

NOW = 1_800_000_000.0
CONFIGURATION: dict[str, Any] = {
    "default_chat": "fast",
    "default_embedding": "bge-m3",
    "providers": {
        name: {"base_url": f"https://{name}.example/v1", "api_keys": [f"sk-made-up-{name}-1", f"sk-made-up-{name}-2"]}
        for name in ("lab", "together", "openrouter", "groq", "mistral", "cerebras")
    },
    "families": {
        "bge-m3": {
            "kind": "embedding",
            "dimensions": 1024,
            "routes": [
                "lab/bge-m3",
                {"provider": "together", "model": "BAAI/bge-m3", "price": {"input": 0.01}},
                {"provider": "openrouter", "model": "baai/bge-m3", "price": {"input": 0.02}},
            ],
            "policy": {"mode": "hedged"},
        },
        "fast": {
            "kind": "chat",
            "routes": ["groq/llama-3.1-8b-instant", "cerebras/llama3.1-8b", "mistral/ministral-8b"],
        },
    },
}


def config() -> Config:
    return load(CONFIGURATION, environ={})


def attempt(route: str, verdict: Verdict | None = Verdict.OK, **more: Any) -> Attempt:
    """An attempt on `provider/model`; what is not said is as of a good answer that took 80 ms."""
    provider, _, model = route.partition("/")
    told: dict[str, Any] = {
        "number": 1,
        "family": "bge-m3",
        "provider": provider,
        "model": model,
        "key": "key1",
        "purpose": Purpose.FIRST,
        "verdict": verdict,
        "scope": None if verdict is None else Scope.MODEL,
        "reason": "cancelled" if verdict is None else "ok",
        "message": "",
        "status": 200 if verdict is Verdict.OK else None,
        "started_at": NOW - 60,
        "duration": 0.08,
        "input_tokens": 40,
        "cost": 0.000001,
    }
    return Attempt(**{**told, **more})


_numbers = itertools.count(1)


def call(*attempts: Attempt, family: str = "bge-m3", ending: Ending = Ending.OK, **more: Any) -> Call:
    """A call of these attempts; its duration is that of the last to end."""
    started = min((one.started_at for one in attempts), default=NOW)
    over = max((one.started_at + one.duration for one in attempts), default=NOW)
    winner = attempts[-1].number if attempts and ending is Ending.OK else None
    told: dict[str, Any] = {
        "id": f"call-{next(_numbers)}",
        "family": family,
        "kind": Kind.EMBEDDING if family == "bge-m3" else Kind.CHAT,
        "mode": "sequential",
        "ending": ending,
        "started_at": started,
        "duration": over - started,
        "attempts": attempts,
        "winner": winner,
    }
    return Call(**{**told, **more})


def job(state: JobState = JobState.RUNNING, **more: Any) -> JobProgress:
    """A job in its fourth minute."""
    told: dict[str, Any] = {
        "job_id": "job-1",
        "family": "bge-m3",
        "state": state,
        "rows": 250_000,
        "done": 61_240,
        "failed": 3,
        "cached": 2_040,
        "duplicates": 812,
        "requests": 462,
        "tokens": 4_912_220,
        "cost": 0.0491,
        "elapsed": 148.6,
        "rate": 412.0,
        "eta": 458.0,
        "in_flight": 8,
        "shares": {"lab/bge-m3": 41_500, "together/BAAI/bge-m3": 13_100, "openrouter/baai/bge-m3": 3_788},
        "message": "",
        "waiting_until": None,
        "at": NOW - 1,
    }
    return JobProgress(**{**told, **more})


def finished(one: Attempt) -> AttemptFinished:
    return AttemptFinished("call-0", one, "answer")


def failure(route: str, verdict: Verdict, reason: str, message: str, status: int | None, **more: Any) -> Attempt:
    return attempt(route, verdict, reason=reason, message=message, status=status, input_tokens=None, cost=None, **more)


def _answers() -> Iterable[Attempt]:
    speeds = {"lab/bge-m3": 0.035, "together/BAAI/bge-m3": 0.12, "openrouter/baai/bge-m3": 0.21}
    chats = {"groq/llama-3.1-8b-instant": 0.08, "cerebras/llama3.1-8b": 0.07, "mistral/ministral-8b": 0.34}
    for number in range(38):
        for place, (route, seconds) in enumerate(speeds.items()):
            growth = 1 + (number / 18) ** 2 if route.startswith("together") else 1.0
            yield attempt(route, duration=seconds * growth * _wave(number, place))
        for place, (route, seconds) in enumerate(chats.items(), 3):
            yield attempt(route, duration=seconds * _wave(number, place), family="fast")


def _wave(number: int, place: int) -> float:
    """Looks like chance, is always the same."""
    return 1 + 0.7 * (zlib.crc32(f"{number} {place}".encode()) / 2**32) ** 2


def calls() -> list[Call]:
    """Five calls: rescued, hedged, late, raced, exhausted."""
    groq, mistral, cerebras = "groq/llama-3.1-8b-instant", "mistral/ministral-8b", "cerebras/llama3.1-8b"
    limit = failure(
        groq,
        Verdict.TRANSIENT,
        "rate_limit",
        "Rate limit reached for requests",
        429,
        started_at=NOW - 9.0,
        duration=0.31,
        family="fast",
    )
    refused = failure(
        mistral,
        Verdict.BROKEN,
        "invalid_key",
        "Incorrect API key provided",
        401,
        number=2,
        purpose=Purpose.FALLBACK,
        started_at=NOW - 8.69,
        duration=0.1,
        family="fast",
    )
    rescue = attempt(cerebras, number=3, purpose=Purpose.FALLBACK, started_at=NOW - 8.59, duration=1.06, family="fast")
    slow = attempt("lab/bge-m3", None, started_at=NOW - 7, duration=0.42)
    hedge = attempt("together/BAAI/bge-m3", number=2, purpose=Purpose.HEDGE, started_at=NOW - 6.8, duration=0.22)
    late = failure("lab/bge-m3", Verdict.TRANSIENT, "timeout", "timeout", None, started_at=NOW - 30, duration=10.0)
    other = attempt("together/BAAI/bge-m3", number=2, purpose=Purpose.FALLBACK, started_at=NOW - 20, duration=1.19)
    first = attempt(cerebras, started_at=NOW - 5, duration=0.096, family="fast")
    loser = attempt(mistral, None, number=2, purpose=Purpose.RACE, started_at=NOW - 5, duration=0.096, family="fast")
    return [
        call(late, other),
        call(slow, hedge, mode="hedged"),
        call(first, loser, family="fast", mode="race", winner=1),
        call(limit, refused, rescue, family="fast"),
        call(limit, refused, family="fast", ending=Ending.EXHAUSTED),
    ]


def events() -> list[Event]:
    """What happened, in order."""
    told: list[Event] = [finished(one) for one in _answers()]
    for made in calls():
        told += [finished(one) for one in made.attempts]
        told.append(CallFinished(made))
    told.append(finished(failure("openrouter/baai/bge-m3", Verdict.TRANSIENT, "server_error", "overloaded", 503)))
    told.append(
        finished(failure("lab/bge-m3", Verdict.CANNOT, "context_length", "input is longer than 512 tokens", 400))
    )
    told.append(job())
    return told


def _route(family: str, route: str, **more: Any) -> RouteStatus:
    told: dict[str, Any] = {
        "family": family,
        "route": route,
        "enabled": True,
        "breaker": BreakerState.CLOSED,
        "open_for": None,
        "cooldown": 0.0,
        "told": False,
        "misconfigured": "",
        "in_flight": 0,
        "attempts": 48,
        "verdicts": {"ok": 47, "transient": 1},
        "p50": 0.035,
        "p95": 0.057,
        "input_tokens": 23_000,
        "output_tokens": 0,
        "cost": 0.0,
        "last_reason": "",
        "last_message": "",
    }
    return RouteStatus(**{**told, **more})


def _provider(name: str, **more: Any) -> ProviderStatus:
    from shim._run.inspection import KeyStatus

    told: dict[str, Any] = {
        "name": name,
        "enabled": True,
        "missing": "",
        "breaker": BreakerState.CLOSED,
        "open_for": None,
        "keys": (KeyStatus("key1", 0.0, "", False), KeyStatus("key2", 0.0, "", False)),
        "cooldown": 0.0,
        "last_message": "",
    }
    return ProviderStatus(**{**told, **more})


def status(at: float = NOW) -> Status:
    """As of `at`: one breaker open, one half-open, one provider with a bad key, one switched off."""
    from shim._run.inspection import KeyStatus

    cooling = (KeyStatus("key1", 0.0, "", False), KeyStatus("key2", 41.0, "rate_limit", True))
    routes = (
        _route("bge-m3", "lab/bge-m3", in_flight=4, last_reason="timeout", last_message="timeout"),
        _route(
            "bge-m3",
            "together/BAAI/bge-m3",
            p50=0.112,
            p95=0.414,
            verdicts={"ok": 41},
            cost=0.0131,
        ),
        _route(
            "bge-m3",
            "openrouter/baai/bge-m3",
            breaker=BreakerState.HALF_OPEN,
            p50=0.187,
            p95=0.339,
            verdicts={"ok": 50, "transient": 6},
            cost=0.0062,
            last_reason="server_error",
            last_message="overloaded",
        ),
        _route(
            "fast",
            "groq/llama-3.1-8b-instant",
            breaker=BreakerState.OPEN,
            open_for=23.0,
            p50=0.08,
            p95=0.163,
            verdicts={"ok": 47, "transient": 4},
            last_reason="rate_limit",
            last_message="Rate limit reached for requests",
        ),
        _route("fast", "cerebras/llama3.1-8b", p50=0.075, p95=0.111, verdicts={"ok": 54}),
        _route(
            "fast",
            "mistral/ministral-8b",
            is_off=True,
            p50=0.352,
            p95=0.55,
            verdicts={"ok": 41, "broken": 3},
            last_reason="invalid_key",
            last_message="Incorrect API key provided",
        ),
    )
    providers = tuple(
        _provider(name, **({"keys": cooling} if name == "groq" else {})) for name in CONFIGURATION["providers"]
    )
    return Status(at, providers, routes, {"bge-m3": 1024}, 384)


SPACES = (
    SpaceStatus(
        "bge-m3 native any",
        "https://lab.example/v1 bge-m3",
        {"https://lab.example/v1 bge-m3": 0.0, "https://together.example/v1 BAAI/bge-m3": 0.004},
        "0123456789ab",
    ),
)


def fold(told: Sequence[Event] | None = None) -> Fold:
    made = Fold()
    for event in events() if told is None else told:
        made.take(event)
    return made


def snapshot(told: Sequence[Event] | None = None, **more: Any) -> Snapshot:
    """The whole scene, or what other events make of it."""
    sources: dict[str, Any] = {"config": config(), "status": status(), "spaces": SPACES, "seq": 1}
    return make(Sources(**{**sources, **more}), fold(told))
