"""Faults on a live router: what a call makes of each, on both libraries, sync and async, without any time passing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import openai
import pytest

import shim
from shim._core.faults import Instead, broken
from shim._core.outcome import Fault
from shim._http.stand_in import StandIn
from shim.events import Verdict
from shim.testing import faults
from shim.testing.clock import FakeClock
from shim.testing.faults import FaultProfile, inject
from tests.support.answers import chat_events, embeds, says, streams
from tests.support.faces import FAMILY, HELLO, MODEL, Face, all_of, configuration, each, out
from tests.support.server import Server


def router(kind: str, *servers: Server | str, clock: FakeClock | None = None, **policy: object) -> shim.Router:
    return shim.Router(configuration(kind, *servers, policy=policy), clock=clock or FakeClock())


async def chat(client: Any, **more: Any) -> Any:
    return await out(client.chat.completions.create(model=MODEL, messages=HELLO, **more))


async def embed(client: Any) -> Any:
    return await out(client.embeddings.create(model=MODEL, input=["one", "two", "three"]))


def trail(answer: Any) -> list[tuple[str, str]]:
    return [(attempt.provider, attempt.reason) for attempt in shim.attempts(answer)]


@pytest.mark.parametrize(
    ("profile", "reason"),
    [
        pytest.param(faults.rate_limit("a", retry_after=30), "rate_limit", id="429"),
        pytest.param(faults.status("a", 503), "overloaded", id="503"),
        pytest.param(faults.status("a", 401), "bad_key", id="401"),
        pytest.param(faults.status("a/m-a", 500), "server_error", id="500 of a route"),
        pytest.param(faults.html_page("a"), "server_error", id="a page"),
        pytest.param(faults.connection_failed("a"), "connect", id="nobody listens"),
        pytest.param(faults.timeout("a"), "timeout", id="timeout"),
        pytest.param(faults.hang("a", waits=3600), "timeout", id="hangs beyond the limit"),
        pytest.param(faults.reset("a"), "reset", id="reset at once"),
        pytest.param(faults.reset("a", at=20), "reset", id="reset within the body"),
        pytest.param(faults.truncated("a", at=20), "malformed answer", id="short body"),
        pytest.param(faults.drip("a", every=5), "timeout", id="drip"),
    ],
)
async def test_a_chat_moves_on(profile: FaultProfile, reason: str, face: Face, serve: Callable[..., Server]) -> None:
    routed = router("chat", serve(says("from a")), serve(says("from b")))
    client = face.client(routed)
    with inject(routed, profile) as injection:
        answer = await chat(client)
    assert answer.choices[0].message.content == "from b"
    assert trail(answer) == [("a", reason), ("b", "ok")]
    assert injection.met == (1,)


@pytest.mark.parametrize(
    "profile",
    [
        pytest.param(faults.short_data("a"), id="short data"),
        pytest.param(faults.short_data("a", times=0), id="never"),
        pytest.param(faults.nan_row("a"), id="a number that is none"),
        pytest.param(faults.bad_rows(faults.Rows.ZERO, "a", row=1), id="a row of zeros"),
    ],
)
async def test_an_embedding_moves_on(profile: FaultProfile, face: Face, serve: Callable[..., Server]) -> None:
    routed = router("embedding", serve(embeds()), serve(embeds()))
    with inject(routed, profile) as injection:
        answer = await embed(face.client(routed))
    moved = [("a", Verdict.TRANSIENT), ("b", Verdict.OK)] if injection.met == (1,) else [("a", Verdict.OK)]
    assert [(attempt.provider, attempt.verdict) for attempt in shim.attempts(answer)] == moved


async def test_rows_in_another_order_are_put_right(face: Face, serve: Callable[..., Server]) -> None:
    routed = router("embedding", serve(embeds()))
    plain = await embed(face.client(routed))
    with inject(routed, faults.reordered("a")) as injection:
        answer = await embed(face.client(routed))
    assert injection.met == (1,)
    assert [row.embedding for row in answer.data] == [row.embedding for row in plain.data]


async def test_a_hang_within_the_limit_is_only_slow(face: Face, serve: Callable[..., Server]) -> None:
    clock = FakeClock()
    routed = router("chat", serve(says("late")), clock=clock, attempt_timeout=30)
    with inject(routed, faults.hang("a", waits=3)):
        answer = await chat(face.client(routed))
    assert answer.choices[0].message.content == "late"
    assert sum(clock.waits) == pytest.approx(3)
    assert shim.attempts(answer)[0].duration == pytest.approx(3)


async def test_twice_then_well_opens_and_closes_nothing_for_good(face: Face, serve: Callable[..., Server]) -> None:
    clock = FakeClock()
    routed = router("chat", serve(says()), clock=clock, max_retries=5)
    with inject(routed, faults.rate_limit("a", times=2, retry_after=30)) as injection:
        answer = await chat(face.client(routed, max_retries=5))
    assert [reason for _, reason in trail(answer)] == ["rate_limit", "rate_limit", "ok"]
    assert injection.met == (2,)
    assert sum(clock.waits) >= 60  # each Retry-After was waited for, on the clock


async def test_a_stream_moves_before_its_content(face: Face, serve: Callable[..., Server]) -> None:
    routed = router("chat", serve(streams(chat_events(["a"]))), serve(streams(chat_events(["b"]))))
    with inject(routed, faults.error_event("a", events=0)):
        stream = await chat(face.client(routed), stream=True)
        chunks = await all_of(stream)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "b"


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        pytest.param(faults.error_event("a", events=3), shim.StreamInterruptedError, id="error event"),
        pytest.param(faults.reset("a", at=600), shim.StreamConnectionError, id="reset"),
        pytest.param(faults.truncated("a", at=600), shim.StreamInterruptedError, id="clean end"),
        pytest.param(faults.drip("a", every=1, size=1), None, id="drip that is quick enough"),
    ],
)
async def test_a_stream_breaks_after_its_content(
    profile: FaultProfile, expected: type[Exception] | None, face: Face, serve: Callable[..., Server]
) -> None:
    texts = ["one ", "two ", "three ", "four "]
    routed = router(
        "chat", serve(streams(chat_events(texts))), idle_timeout=600, first_chunk_timeout=3600, deadline=1e6
    )
    with inject(routed, profile):
        stream = await chat(face.client(routed), stream=True)
        seen, error = await read(stream)
    if expected is None:
        assert (seen, error) == ("".join(texts), None)
    else:
        assert type(error) is expected
        assert error.partial == seen != ""  # type: ignore[attr-defined]


async def read(stream: Any) -> tuple[str, openai.APIError | None]:
    """The text of a stream, and how it ended."""
    seen = ""
    try:
        async for chunk in each(stream):
            seen += chunk.choices[0].delta.content or ""
    except openai.APIError as error:
        return seen, error
    return seen, None


async def test_a_stall_after_content_is_a_stall(face: Face, serve: Callable[..., Server]) -> None:
    routed = router(
        "chat", serve(streams(chat_events(["x" * 400, "y" * 400]))), idle_timeout=60, first_chunk_timeout=1e5
    )
    with inject(routed, faults.drip("a", every=100, size=700)):
        stream = await chat(face.client(routed), stream=True)
        with pytest.raises(shim.StreamTimeoutError):
            await all_of(stream)


async def test_faults_flap_with_the_attempts(plain: Face, serve: Callable[..., Server]) -> None:
    routed = router("chat", serve(says("a")), serve(says("b")))
    client = plain.client(routed)
    with inject(routed, faults.status("a", 500, flap=1)):
        said = [(await chat(client)).choices[0].message.content for _ in range(4)]
    assert said == ["a", "b", "a", "b"]


async def test_blocks_nest_and_the_inner_one_is_asked_first(plain: Face, serve: Callable[..., Server]) -> None:
    routed = router("chat", serve(says("a")), serve(says("b")))
    client = plain.client(routed)
    with inject(routed, faults.status("a", 500)):
        with inject(routed, faults.rate_limit("a", retry_after=0)):
            assert trail(await chat(client))[0] == ("a", "rate_limit")
        routed.reset()
        assert trail(await chat(client))[0] == ("a", "server_error")
    routed.reset()
    assert trail(await chat(client)) == [("a", "ok")]


async def test_an_injected_reset_is_no_connection_gone_stale(
    face: Face, serve: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reset on a kept-alive connection is tried again at once, unseen; one that was asked for is not."""
    tried = 0
    real = StandIn._instead

    def counted(self: StandIn, *given: Any) -> Any:
        nonlocal tried
        tried += 1
        return real(self, *given)

    monkeypatch.setattr(StandIn, "_instead", counted)
    routed = router("chat", serve(says("a")), serve(says("b")))
    with inject(routed, FaultProfile(Instead(broken(Fault.RESET)), "a", name="reset")):
        answer = await chat(face.client(routed))
    assert trail(answer) == [("a", "reset"), ("b", "ok")]
    assert tried == 1


async def test_a_client_is_as_good_as_its_router(plain: Face, serve: Callable[..., Server]) -> None:
    client = plain.client(router("chat", serve(says("a")), serve(says("b"))))
    with inject(client, faults.connection_failed("a")):
        assert trail(await chat(client)) == [("a", "connect"), ("b", "ok")]


async def test_a_local_model_meets_faults_too(plain: Face) -> None:
    pytest.importorskip("wordllama")
    config = {
        "providers": {"local": {}},
        "families": {FAMILY: {"kind": "embedding", "aliases": [MODEL], "routes": ["local/wordllama-256"]}},
        "policy": {"max_retries": 1},
    }
    client = plain.client(shim.Router(config, clock=FakeClock()), max_retries=1)
    with inject(client, faults.status("local", 503, times=1), faults.hang("local", waits=1)):
        answer = await embed(client)
    assert [reason for _, reason in trail(answer)] == ["overloaded", "ok"]


def test_a_subject_that_nobody_has_is_refused() -> None:
    routed = router("chat", "http://127.0.0.1:9/v1")
    message = r"no provider or route 'opnai'; there are: a, a/m-a"
    with pytest.raises(ValueError, match=message), inject(routed, faults.rate_limit("opnai")):
        pass


@pytest.mark.parametrize("target", [None, 3, openai.OpenAI(api_key="k")], ids=["none", "a number", "another client"])
def test_what_takes_no_faults_is_refused(target: Any) -> None:
    with pytest.raises(TypeError, match="takes a router"), inject(target, faults.rate_limit()):
        pass


def test_an_unknown_timing_is_refused() -> None:
    with pytest.raises(TypeError, match="tims"):
        faults.rate_limit("a", tims=2)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("word", "says"),
    [
        (lambda: faults.rate_limit(times=-1), "times: a number of at least 0, not -1"),
        (lambda: faults.rate_limit(share=20), "share: a probability from 0 to 1, not 20"),
        (lambda: faults.timeout(seconds=float("nan")), "seconds: a number of at least 0, not nan"),
        (lambda: faults.hang(waits=-3), "hang: seconds of at least 0, not -3"),
        (lambda: faults.drip(every=1, size=0), "drip: pieces of at least 1 byte"),
    ],
    ids=["times", "a share in per cent", "seconds", "a wait", "a size"],
)
def test_what_can_never_be_met_is_refused(word: Callable[[], FaultProfile], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        word()


@pytest.mark.parametrize("code", [200, 204])
def test_a_success_is_no_fault(code: int) -> None:
    with pytest.raises(ValueError, match=f"faults.status: {code} is a success: give a `body`"):
        faults.status("a", code)
    assert faults.status("a", 200, body=b"{}").name == f"status {200}"
