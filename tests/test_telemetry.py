"""OpenTelemetry: the spans and metrics of calls, who joins when, and that nothing of it breaks a call."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai
import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import shim
from shim import Router, telemetry
from tests.embed.serving import Provider
from tests.support import answers
from tests.support.faces import HELLO, MODEL, Face, all_of, configuration, each, out
from tests.support.fixtures import Serve, face, flavour, plain, serve
from tests.support.server import PATIENCE, Peer, Script, Seen

__all__ = ["face", "flavour", "plain", "serve"]

DURATION, TOKENS, CALLS = "gen_ai.client.operation.duration", "gen_ai.client.token.usage", "shim.call.duration"
SECRET = "a text that nobody may read"


@dataclass(slots=True)
class Told:
    """What OpenTelemetry was told: spans in memory, metrics in memory."""

    exporter: InMemorySpanExporter
    reader: InMemoryMetricReader
    tracers: TracerProvider
    meters: MeterProvider

    def watch(self, configuration: dict[str, Any]) -> Router:
        router = Router(configuration)
        telemetry.instrument(router, tracer_provider=self.tracers, meter_provider=self.meters)
        return router

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())

    @property
    def calls(self) -> list[ReadableSpan]:
        return [span for span in self.spans if "shim.call.id" in (span.attributes or {})]

    @property
    def attempts(self) -> list[ReadableSpan]:
        return [span for span in self.spans if "shim.attempt" in (span.attributes or {})]

    def points(self, name: str) -> list[HistogramDataPoint]:
        data = self.reader.get_metrics_data()
        scopes = [scope for resource in data.resource_metrics for scope in resource.scope_metrics] if data else []
        return [
            point for scope in scopes for one in scope.metrics if one.name == name for point in one.data.data_points
        ]


@pytest.fixture
def told() -> Any:
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers = TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    meters = MeterProvider([reader], shutdown_on_exit=False)
    yield Told(exporter, reader, tracers, meters)
    tracers.shutdown()
    meters.shutdown()


async def ask(client: Any, **extra: Any) -> Any:
    return await out(client.chat.completions.create(model=MODEL, messages=HELLO, **extra))


def is_child(span: ReadableSpan, parent: ReadableSpan) -> bool:
    return span.parent is not None and span.parent.span_id == parent.context.span_id


def of(span: ReadableSpan, *names: str) -> list[Any]:
    return [(span.attributes or {}).get(name) for name in names]


async def test_a_call_is_a_span_below_the_callers_own_and_above_its_attempts(
    face: Face, serve: Serve, told: Told
) -> None:
    bad, good = serve(answers.fails(500)), serve(answers.says())
    router = told.watch(configuration("chat", bad, good))
    client = face.client(router)
    with told.tracers.get_tracer("a test").start_as_current_span("mine"):
        await ask(client)
    (call,), (failed, answered), mine = told.calls, told.attempts, told.spans[-1]
    assert [call.name, failed.name, answered.name] == ["chat fam", "chat m-a", "chat m-b"]
    assert [call.kind, failed.kind] == [SpanKind.INTERNAL, SpanKind.CLIENT]
    assert [is_child(call, mine), is_child(failed, call), is_child(answered, call)] == [True] * 3
    assert dict(call.attributes or {}) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "fam",
        "gen_ai.response.model": "m-b",
        "gen_ai.provider.name": "b",
        "shim.call.id": router.calls[0].id,
        "shim.mode": "sequential",
        "shim.ending": "ok",
        "shim.attempts": 2,
        "shim.route": "b/m-b",
    }
    assert dict(failed.attributes or {}) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "a",
        "gen_ai.request.model": "m-a",
        "server.address": "127.0.0.1",
        "server.port": int(bad.base_url.split(":")[2].split("/")[0]),
        "error.type": "server_error",
        "http.response.status_code": 500,
        "shim.family": "fam",
        "shim.provider": "a",
        "shim.route": "a/m-a",
        "shim.purpose": "first",
        "shim.verdict": "transient",
        "shim.reason": "server_error",
        "shim.scope": "model",
        "shim.attempt": 1,
        "shim.key": router.calls[0].attempts[0].key,
        "shim.breaker": "closed",
        "shim.first_byte": router.calls[0].attempts[0].first_byte,
    }
    names = "shim.purpose", "shim.verdict", "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens", "error.type"
    assert of(answered, *names) == ["fallback", "ok", *_tokens_of(router), None]
    assert [span.status.status_code for span in (call, failed, answered)] == [
        StatusCode.UNSET,
        StatusCode.ERROR,
        StatusCode.UNSET,
    ]


def _tokens_of(router: Router) -> list[Any]:
    won = router.calls[-1].attempts[-1]
    assert won.input_tokens
    return [won.input_tokens, won.output_tokens]


async def test_times_are_those_of_the_records(plain: Face, serve: Serve, told: Told) -> None:
    router = told.watch(configuration("chat", serve(answers.fails(500)), serve(answers.says())))
    await ask(plain.client(router))
    records = [router.calls[0], *router.calls[0].attempts]
    spans = [*told.calls, *told.attempts]
    for record, span in zip(records, spans, strict=True):
        assert span.start_time == int(record.started_at * 1e9)
        assert span.end_time - span.start_time == int(record.duration * 1e9)


REFUSAL = answers.error("no", type="invalid_request_error")
ENDINGS: dict[str, tuple[Script, str, list[Any]]] = {
    "exhausted": (answers.fails(500), "exhausted", ["transient", "server_error"]),
    "no such key": (answers.fails(401), "exhausted", ["broken", "bad_key"]),
    "refused": (answers.fails(400, REFUSAL), "refused", ["fatal", "bad_request"]),
    "reset": (answers.resets(), "exhausted", ["transient", "reset"]),
}


@pytest.mark.parametrize(("script", "ending", "attempt"), ENDINGS.values(), ids=ENDINGS)
async def test_a_call_that_failed_is_an_error(
    plain: Face, serve: Serve, told: Told, script: Script, ending: str, attempt: list[Any]
) -> None:
    client = plain.client(told.watch(configuration("chat", serve(script))))
    with pytest.raises(openai.APIError):
        await ask(client)
    (call,), (one,) = told.calls, told.attempts
    assert of(call, "shim.ending", "error.type", "gen_ai.provider.name") == [ending, ending, None]
    assert of(one, "shim.verdict", "error.type") == attempt
    assert {span.status.status_code for span in (call, one)} == {StatusCode.ERROR}
    assert [point.attributes["error.type"] for point in told.points(DURATION)] == attempt[1:]
    assert [point.attributes["error.type"] for point in told.points(CALLS)] == [ending]


async def test_a_call_that_was_cancelled_is_no_error(serve: Serve, told: Told) -> None:
    server = serve(answers.hangs())
    async with shim.AsyncOpenAI(router=told.watch(configuration("chat", server))) as client:
        task = asyncio.ensure_future(ask(client))
        assert await asyncio.to_thread(server.wait_for_requests, 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    (call,), (one,) = told.calls, told.attempts
    assert of(call, "shim.ending", "error.type") == ["cancelled", None]
    assert of(one, "shim.verdict", "error.type") == ["cancelled", None]
    assert {span.status.status_code for span in (call, one)} == {StatusCode.UNSET}


PROVIDERS = {
    "openai": "openai",
    "azure": "azure.ai.openai",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "xai": "x_ai",
    "together": "together",
    "": "lab",
}


@pytest.mark.parametrize(("preset", "expected"), PROVIDERS.items(), ids=[name or "none" for name in PROVIDERS])
def test_providers_are_called_as_the_conventions_call_them(
    serve: Serve, told: Told, preset: str, expected: str
) -> None:
    lab = {"base_url": serve(answers.says()).base_url, "api_key": "key-of-lab-0123456789"}
    families = {"fam": {"kind": "chat", "routes": ["lab/m"]}}
    router = told.watch({"providers": {"lab": lab | ({"preset": preset} if preset else {})}, "families": families})
    with shim.OpenAI(router=router) as client:
        client.chat.completions.create(model="fam", messages=HELLO)  # type: ignore[arg-type]
    (call,), (one,) = told.calls, told.attempts
    assert of(call, "gen_ai.provider.name") == of(one, "gen_ai.provider.name") == [expected]
    assert of(one, "shim.provider") == ["lab"]


async def test_the_loser_of_a_race_is_a_span_and_no_error(face: Face, serve: Serve, told: Told) -> None:
    client = face.client(
        told.watch(configuration("chat", serve(answers.hangs()), serve(answers.says()), policy={"mode": "race"}))
    )
    with told.tracers.get_tracer("a test").start_as_current_span("mine"):
        await ask(client)
    (call,), mine = told.calls, told.spans[-1]
    loser, winner = told.attempts
    assert is_child(call, mine), "also where the race runs on a loop of its own"
    assert of(loser, "shim.provider", "shim.verdict", "error.type") == ["a", "cancelled", None]
    assert of(winner, "shim.provider", "shim.verdict") == ["b", "ok"]
    assert loser.status.status_code is StatusCode.UNSET


async def test_probes_of_the_space_check_are_what_they_are(plain: Face, serve: Serve, told: Told) -> None:
    router = told.watch(
        configuration("embedding", serve(answers.embeds()), serve(answers.embeds()), policy={"space_check": True})
    )
    await out(plain.client(router).embeddings.create(model=MODEL, input=SECRET))
    probes = [one for one in told.attempts if of(one, "shim.purpose") == ["space check"]]
    (call,), (real,) = told.calls, [one for one in told.attempts if one not in probes]
    assert probes
    assert {one.name for one in probes} == {"space check m-a"}
    assert [call.name, real.name] == ["embeddings fam", "embeddings m-a"]
    assert of(call, "shim.attempts", "gen_ai.response.model") == [1, "m-a"]
    assert all(is_child(one, call) for one in told.attempts)
    assert all(real.start_time < one.start_time < one.end_time <= real.end_time for one in probes)
    assert SECRET not in "".join(span.to_json() for span in told.spans)
    assert "key-of" not in "".join(span.to_json() for span in told.spans)


STREAMS: dict[str, tuple[list[bytes], bool, list[Any]]] = {
    "read to its end": (answers.chat_events(["a", "b"]), False, ["ok", None]),
    "closed early": (answers.chat_events(["a", "b"]), True, ["ok", None]),
    "broken after its first content": (answers.chat_events(["a", "b"])[:3], False, ["interrupted", "interrupted"]),
}


@pytest.mark.parametrize(("parts", "is_closed", "expected"), STREAMS.values(), ids=STREAMS)
async def test_the_span_of_a_stream_ends_with_the_stream(
    face: Face, serve: Serve, told: Told, parts: list[bytes], is_closed: bool, expected: list[Any]
) -> None:
    client = face.client(told.watch(configuration("chat", serve(answers.streams(parts)))))
    with told.tracers.get_tracer("a test").start_as_current_span("mine"):
        stream = await ask(client, stream=True)
    (mine,) = told.spans
    if is_closed:
        async for _ in each(stream):
            break
        assert told.calls == []
        await out(stream.close())
    else:
        with contextlib.suppress(shim.StreamInterruptedError):
            await all_of(stream)
    (call,), (one,) = told.calls, told.attempts
    assert is_child(call, mine), "though it ended after it, and outside of it"
    assert of(call, "shim.ending", "error.type") == expected
    assert of(one, "error.type") == [None] if expected[1] is None else one.status.status_code is StatusCode.ERROR


async def test_metrics_count_attempts_tokens_and_calls(plain: Face, serve: Serve, told: Told) -> None:
    client = plain.client(told.watch(configuration("chat", serve(answers.fails(500)), serve(answers.says()))))
    for _ in range(2):
        await ask(client)
    failed, good = sorted(told.points(DURATION), key=lambda point: str(point.attributes["shim.provider"]))
    assert [failed.count, good.count] == [2, 2]
    assert failed.attributes["error.type"] == "server_error"
    assert failed.explicit_bounds[0] == 0.01
    assert failed.explicit_bounds[-1] == 81.92
    tokens = {point.attributes["gen_ai.token.type"]: point for point in told.points(TOKENS)}
    assert {kind: point.count for kind, point in tokens.items()} == {"input": 2, "output": 2}
    assert tokens["input"].explicit_bounds == (*(4**power for power in range(14)),)
    (calls,) = told.points(CALLS)
    assert calls.count == 2
    assert dict(calls.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "fam",
        "shim.mode": "sequential",
        "shim.ending": "ok",
    }


async def test_a_rehearsal_is_seen_and_in_no_figure(plain: Face, serve: Serve, told: Told) -> None:
    router = told.watch(configuration("chat", serve(answers.says()), serve(answers.says())))
    with router.rehearse("a", status=503):
        await ask(plain.client(router))
    assert [of(one, "shim.provider", "shim.is_rehearsal") for one in told.attempts] == [["a", True], ["b", None]]
    assert [point.attributes["shim.provider"] for point in told.points(DURATION)] == ["b"]
    assert told.points(CALLS) == []


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_the_calls_of_a_dataset_are_below_the_span_that_began_it(
    serve: Serve, told: Told, is_async: bool, tmp_path: Path
) -> None:
    router = told.watch(configuration("embedding", serve(Provider()), serve(Provider())))
    choices: dict[str, Any] = {"store": tmp_path / "store", "progress": False}
    texts = [f"row {number}" for number in range(1000)]

    async def main() -> None:
        async with shim.AsyncOpenAI(router=router) as client:
            await client.embed(texts, **choices)

    with told.tracers.get_tracer("a test").start_as_current_span("mine"):
        if is_async:
            asyncio.run(main())
        else:
            with shim.OpenAI(router=router) as client:
                client.embed(texts, **choices)
    mine = told.spans[-1]
    assert len(told.calls) == len(router.calls) > 1
    assert all(is_child(call, mine) for call in told.calls)
    assert {of(call, "shim.mode")[0] for call in told.calls} == {"job"}


def test_calls_of_several_threads_and_routers_keep_to_their_own_parents(serve: Serve, told: Told) -> None:
    server, tracer = serve(answers.says()), told.tracers.get_tracer("a test")
    routers = [told.watch(configuration("chat", server)) for _ in range(2)]
    parents: dict[str, int] = {}

    def work(router: Router, name: str) -> None:
        with shim.OpenAI(router=router) as client, tracer.start_as_current_span(name) as span:
            parents[name] = span.get_span_context().span_id
            for _ in range(5):
                client.chat.completions.create(model=MODEL, messages=HELLO)  # type: ignore[arg-type]

    threads = [threading.Thread(target=work, args=(routers[n % 2], f"thread {n}")) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    found = [call.parent.span_id for call in told.calls if call.parent is not None]
    assert sorted(found) == sorted([*parents.values()] * 5)


class Broken:
    """A span processor whose every step fails."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def fail(*_: Any, **__: Any) -> Any:
            raise RuntimeError("a broken exporter")

        return fail


async def test_a_broken_exporter_breaks_no_call(
    face: Face, serve: Serve, told: Told, caplog: pytest.LogCaptureFixture
) -> None:
    tracers = TracerProvider(shutdown_on_exit=False, active_span_processor=Broken())  # type: ignore[arg-type]
    router = Router(configuration("chat", serve(answers.says())))
    telemetry.instrument(router, tracer_provider=tracers, meter_provider=told.meters)
    client = face.client(router)
    for _ in range(3):
        await ask(client)
    assert caplog.text.count("RuntimeError: a broken exporter") == 1
    observer = next(one for one in router._board.bus.observers if isinstance(one, telemetry.Telemetry))
    assert observer._begun == {}, "nothing of an ended call is kept"


async def test_a_broken_provider_breaks_no_call(
    plain: Face, serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(trace, "get_tracer_provider", Broken().make)
    client = plain.client(configuration("chat", serve(answers.says())))
    for _ in range(3):
        await ask(client)
    assert caplog.text.count("RuntimeError: a broken exporter") == 1


async def test_uninstrument_and_instrument_again(plain: Face, serve: Serve, told: Told) -> None:
    router = told.watch(configuration("chat", serve(answers.says())))
    telemetry.instrument(router, tracer_provider=told.tracers, meter_provider=told.meters)
    client = plain.client(router)
    await ask(client)
    assert len(told.calls) == 1, "the second replaced the first"
    telemetry.uninstrument(router)
    await ask(client)
    assert len(told.calls) == 1


async def test_a_call_that_began_unseen_is_told_where_it_ends(plain: Face, serve: Serve, told: Told) -> None:
    def script(request: Seen, peer: Peer) -> None:
        telemetry.instrument(router, tracer_provider=told.tracers, meter_provider=told.meters)
        peer.answer(200, answers.chat())

    router = Router(configuration("chat", serve(script)))
    await ask(plain.client(router))
    (call,), (one,) = told.calls, told.attempts
    assert call.parent is None
    assert is_child(one, call)


def test_who_asks_for_it_without_opentelemetry_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ImportError, match=r"pip install 'openai-shim\[otel\]'"):
        telemetry.instrument(Router({}))


ASK = """
import sys, shim
client = shim.OpenAI(router=%r)
def ask():
    client.chat.completions.create(model="alias", messages=[{"role": "user", "content": "hi"}])
def set_up():
    global spans
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    trace.set_tracer_provider(provider)
def told():
    return [span.name for span in spans.get_finished_spans()]
def is_joined():
    return bool(client.router._board.bus.observers)
"""
NOT_ASKED_FOR = "ask(); print([name for name in sys.modules if name.startswith('opentelemetry')])"
ONCE = "['chat fam', 'chat m-a']"
JOINING: dict[str, tuple[str, dict[str, str], str]] = {
    "never imported unasked": (NOT_ASKED_FOR, {}, "[]"),
    "the API alone is no wish": (
        "import opentelemetry.trace, opentelemetry.metrics; ask(); print(is_joined())",
        {},
        "False",
    ),
    "a provider set before the first call": ("set_up(); ask(); print(told())", {}, ONCE),
    "a provider set between calls": ("ask(); set_up(); ask(); print(told())", {}, ONCE),
    "meters alone": (
        "from opentelemetry import metrics; from opentelemetry.sdk.metrics import MeterProvider;"
        "metrics.set_meter_provider(MeterProvider()); ask(); print(is_joined())",
        {},
        "True",
    ),
    "the SDK is off": ("set_up(); ask(); print(is_joined(), told())", {"OTEL_SDK_DISABLED": "true"}, "False []"),
    "shim is off": (
        "set_up(); ask(); print(is_joined(), told())",
        {"OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "redis, shim"},
        "False []",
    ),
    "another is off": ("set_up(); ask(); print(told())", {"OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "redis"}, ONCE),
    "uninstrument comes before": (
        "from shim import telemetry; telemetry.uninstrument(client.router); set_up(); ask(); print(told())",
        {},
        "[]",
    ),
}


@pytest.mark.parametrize(("then", "environ", "expected"), JOINING.values(), ids=JOINING)
def test_who_joins_when(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, then: str, environ: dict[str, str], expected: str
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    code = ASK % configuration("chat", serve(answers.says())) + then
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.stdout.strip(), ended.returncode) == (expected, 0), ended.stderr
