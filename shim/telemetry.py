"""OpenTelemetry, where the user has it: a span for every call and attempt, and metrics, by the GenAI conventions.

A router joins by itself with the first call after a tracer or meter provider was set, and `opentelemetry` is never
imported before. Names are those of github.com/open-telemetry/semantic-conventions-genai; what is ours begins with
`shim.`. No bodies, no keys, no texts.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from shim.config import Config
from shim.events import Attempt, Call, CallFinished, CallStarted, Ending, Event, Kind, Purpose, Verdict

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import Histogram, MeterProvider
    from opentelemetry.trace import TracerProvider

    from shim.router import Router

__all__ = ["instrument", "uninstrument"]

Attributes = dict[str, str | bool | int | float]

_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_TOKENS = tuple(4**power for power in range(14))
_OPERATIONS = {Kind.EMBEDDING: "embeddings"}  # for the others the conventions have our word, or none
_PROVIDERS = {
    "azure": "azure.ai.openai",
    "cohere-chat": "cohere",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "xai": "x_ai",
}
"""What the conventions call a preset, where it is not its own name."""
_GOOD = (None, Verdict.OK)  # None: cancelled, nobody's failure
_PORTS = {"http": 80, "https": 443}


def instrument(
    router: Router, *, tracer_provider: TracerProvider | None = None, meter_provider: MeterProvider | None = None
) -> None:
    """Tell OpenTelemetry of every call of `router` from now on, whatever the environment says.

    None is the global provider. Again replaces what was before. Raises ImportError without `opentelemetry-api`.
    """
    observer = Telemetry(router.config, tracer_provider, meter_provider)
    uninstrument(router)
    router.subscribe(observer)


def uninstrument(router: Router) -> None:
    """Tell OpenTelemetry nothing of `router`, until `instrument`."""
    bus = router._board.bus
    bus.latecomers.clear()
    for observer in bus.observers:
        if isinstance(observer, Telemetry):
            bus.unsubscribe(observer)


def latecomer(config: Config) -> Callable[[], Telemetry | None] | None:
    """What the bus asks with each call for the observer of a router, until there is one; None where the environment
    has switched it off: `OTEL_SDK_DISABLED=true`, or `shim` in `OTEL_PYTHON_DISABLED_INSTRUMENTATIONS`."""
    if _is_switched_off(os.environ):
        return None
    return lambda: Telemetry(config) if _is_set_up(sys.modules) else None


def _is_switched_off(environ: Mapping[str, str]) -> bool:
    named = environ.get("OTEL_PYTHON_DISABLED_INSTRUMENTATIONS", "").split(",")
    is_all = environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    return is_all or not {"shim", "*"}.isdisjoint(name.strip() for name in named)


def _is_set_up(modules: Mapping[str, Any]) -> bool:
    """Whether a provider was set that is not one of the API's own stand-ins, which do nothing. Imports nothing."""
    trace, metrics = modules.get("opentelemetry.trace"), modules.get("opentelemetry.metrics")
    return (trace is not None and _is_real(getattr(trace, "get_tracer_provider", None), "opentelemetry.trace")) or (
        metrics is not None and _is_real(getattr(metrics, "get_meter_provider", None), "opentelemetry.metrics")
    )


def _is_real(get: Callable[[], object] | None, stand_ins: str) -> bool:
    """`get` is None while another thread is still importing the module."""
    return get is not None and not type(get()).__module__.startswith(stand_ins)


class Telemetry:
    """Keeps where a call began; its spans are made, with their true times, when it is over and its record complete."""

    def __init__(
        self,
        config: Config,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
    ) -> None:
        try:
            from opentelemetry import context, metrics, trace
        except ImportError as error:
            raise ImportError("spans and metrics need OpenTelemetry: pip install 'openai-shim[otel]'") from error
        self._context, self._trace = context, trace
        self._config = config
        self._begun: dict[str, Context] = {}
        version = str(sys.modules["shim"].__version__)
        self._tracer = trace.get_tracer("shim", version, tracer_provider)
        meter = metrics.get_meter("shim", version, meter_provider)

        def histogram(name: str, unit: str, told: str, bounds: Sequence[float]) -> Histogram:
            return meter.create_histogram(name, unit, told, explicit_bucket_boundaries_advisory=bounds)

        self._attempts = histogram("gen_ai.client.operation.duration", "s", "GenAI operation duration.", _SECONDS)
        self._tokens = histogram("gen_ai.client.token.usage", "{token}", "Input and output tokens used.", _TOKENS)
        self._calls = histogram("shim.call.duration", "s", "Duration of a call, its waits included.", _SECONDS)

    def __call__(self, event: Event, /) -> None:
        if isinstance(event, CallStarted):
            self._begun[event.call_id] = self._context.get_current()
        elif isinstance(event, CallFinished):
            parent = self._begun.pop(event.call.id, None)
            self._over(event.call, self._context.get_current() if parent is None else parent)

    def _over(self, call: Call, parent: Context) -> None:
        told, error = _of_call(call), _error_of(call)
        told.update(self._of_winner(call))
        name = f"{_operation(call.kind)} {call.family}"
        inside = self._span(name, self._trace.SpanKind.INTERNAL, told, parent, call, error)
        for one in call.attempts:
            self._attempt(call.kind, one, inside)
        if not any(one.is_rehearsal for one in call.attempts):  # rehearsals are in no figure
            measured: Attributes = {name: told[name] for name in ("gen_ai.operation.name", "gen_ai.request.model")}
            measured |= {"shim.mode": call.mode, "shim.ending": call.ending.value} | _as_error(error)
            self._calls.record(call.duration, measured, inside)

    def _attempt(self, kind: Kind, one: Attempt, inside: Context) -> None:
        measured = self._of_attempt(kind, one)
        error = None if one.verdict in _GOOD else one.reason
        name = f"{_operation(kind)} {one.model}"
        if one.purpose is Purpose.SPACE_CHECK:
            name = f"{one.purpose.value} {one.model}"
        own = self._span(name, self._trace.SpanKind.CLIENT, measured | _details(one), inside, one, error)
        if one.is_rehearsal:
            return
        self._attempts.record(one.duration, measured | _as_error(error), own)
        for token, count in (("input", one.input_tokens), ("output", one.output_tokens)):
            if count is not None:
                self._tokens.record(count, {**measured, "gen_ai.token.type": token}, own)

    def _span(
        self, name: str, kind: Any, told: Attributes, parent: Context, record: Call | Attempt, error: str | None
    ) -> Context:
        """A span that is over already; the context in which it is the current one."""
        began = int(record.started_at * 1e9)
        span = self._tracer.start_span(name, parent, kind, told | _as_error(error), start_time=began)
        if error is not None:
            span.set_status(self._trace.StatusCode.ERROR, error)
        span.end(began + int(record.duration * 1e9))
        return self._trace.set_span_in_context(span, parent)

    def _of_winner(self, call: Call) -> Attributes:
        won = next((one for one in reversed(call.attempts) if one.number == call.winner), None)
        if won is None:
            return {}
        provider = self._provider(won)
        return {"gen_ai.provider.name": provider, "gen_ai.response.model": won.model, "shim.route": won.route}

    def _of_attempt(self, kind: Kind, one: Attempt) -> Attributes:
        told: Attributes = {
            "gen_ai.operation.name": _operation(kind),
            "gen_ai.provider.name": self._provider(one),
            "gen_ai.request.model": one.model,
            "shim.family": one.family,
            "shim.provider": one.provider,
            "shim.purpose": one.purpose.value,
            "shim.verdict": "cancelled" if one.verdict is None else one.verdict.value,
        }
        url = urlsplit(self._config.providers[one.provider].base_url)
        if url.hostname:
            told["server.address"] = url.hostname
            told["server.port"] = url.port or _PORTS.get(url.scheme, 443)
        return told

    def _provider(self, one: Attempt) -> str:
        preset = self._config.providers[one.provider].preset or one.provider
        return _PROVIDERS.get(preset, preset)


def _operation(kind: Kind) -> str:
    return _OPERATIONS.get(kind, kind.value)


def _as_error(error: str | None) -> Attributes:
    return {} if error is None else {"error.type": error}


def _error_of(call: Call) -> str | None:
    return None if call.ending in (Ending.OK, Ending.CANCELLED) else call.ending.value


def _of_call(call: Call) -> Attributes:
    """Without tokens: they stand at the attempts, and who adds up spans would count them twice."""
    return {
        "gen_ai.operation.name": _operation(call.kind),
        "gen_ai.request.model": call.family,
        "shim.call.id": call.id,
        "shim.mode": call.mode,
        "shim.ending": call.ending.value,
        "shim.attempts": sum(one.purpose is not Purpose.SPACE_CHECK for one in call.attempts),
    }


def _details(one: Attempt) -> Attributes:
    """What stands at the span alone."""
    found: dict[str, str | bool | int | float | None] = {
        "shim.attempt": one.number,
        "shim.route": one.route,
        "shim.reason": one.reason,
        "shim.scope": None if one.scope is None else one.scope.value,
        "shim.key": one.key or None,
        "shim.breaker": one.breaker.value,
        "shim.first_byte": one.first_byte,
        "shim.cost": one.cost,
        "shim.is_rehearsal": one.is_rehearsal or None,
        "http.response.status_code": one.status,
        "gen_ai.usage.input_tokens": one.input_tokens,
        "gen_ai.usage.output_tokens": one.output_tokens,
    }
    return {name: value for name, value in found.items() if value is not None}
