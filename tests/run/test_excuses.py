"""Failures that say nothing of a route's health, in view of the call that met them."""

from __future__ import annotations

from typing import Any

import pytest

import shim
from shim._core.outcome import Judgement
from shim._run.judging import excused
from shim.events import BreakerState, Scope, Verdict
from tests.support import answers
from tests.support.faces import HELLO, MODEL, Face, configuration, out
from tests.support.fixtures import Serve
from tests.support.server import Peer, Seen


def _judged(reason: str, status: int | None = None, scope: Scope = Scope.MODEL, *, told: bool = False) -> Judgement:
    return Judgement(Verdict.TRANSIENT, scope, reason, "a message", status, told=told, counts=True)


@pytest.mark.parametrize(
    ("judgement", "is_rushed", "is_job", "counts", "moot"),
    [
        pytest.param(_judged("timeout"), True, False, False, True, id="the caller left too little time"),
        pytest.param(_judged("timeout"), False, True, True, False, id="a job's request that hangs"),
        pytest.param(_judged("null_vector"), False, True, False, False, id="a job's text without a vector"),
        pytest.param(_judged("short_answer"), False, True, False, False, id="a job's batch with a text left out"),
        pytest.param(_judged("null_vector"), False, False, True, False, id="a caller's text without a vector"),
        pytest.param(_judged("server_error", 500), False, True, False, False, id="a job's 500"),
        pytest.param(_judged("server_error", 500), False, False, True, False, id="a caller's 500"),
        pytest.param(_judged("server_error", 500, told=True), False, True, True, False, id="a 500 that names a time"),
        pytest.param(_judged("html", 500, Scope.PROVIDER), False, True, True, False, id="a gateway's 500"),
        pytest.param(_judged("overloaded", 503), False, True, True, False, id="a job's 503"),
        pytest.param(_judged("reset"), False, True, True, False, id="a job's connection that breaks"),
    ],
)
def test_what_is_excused(judgement: Judgement, is_rushed: bool, is_job: bool, counts: bool, moot: bool) -> None:
    found = excused(judgement, is_rushed=is_rushed, is_job=is_job)
    assert (found.counts, found.moot) == (counts, moot)
    assert (found.verdict, found.reason, found.message) == (judgement.verdict, judgement.reason, judgement.message)


async def test_a_caller_in_a_hurry_benches_nobody(face: Face, serve: Serve) -> None:
    """The route usually takes longer than this caller waits: the next one finds it as it was."""

    def slow(request: Seen, peer: Peer) -> None:
        peer.is_gone(0.3)
        peer.answer(200, answers.chat())

    router = shim.Router(configuration("chat", serve(slow), policy={"breaker": {"failures": 1}}))
    client: Any = face.client(router)
    await out(client.chat.completions.create(model=MODEL, messages=HELLO))

    with pytest.raises(shim.AllProvidersFailedError) as caught:
        await out(client.with_options(timeout=0.05).chat.completions.create(model=MODEL, messages=HELLO))

    assert caught.value.attempts[0].reason == "timeout"
    (route,) = router.status().routes
    assert route.breaker is BreakerState.CLOSED
    assert route.cooldown == 0.0
