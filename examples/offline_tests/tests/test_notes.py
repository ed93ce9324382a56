"""The program, offline: with a real model's answers from a cassette, with scripted providers, with faults."""

from __future__ import annotations

import pytest
from notes import BASE_URL, answer, client_for, nearest

from shim import AllProvidersFailedError, OpenAI, attempts
from shim.testing import faults
from shim.testing.answers import rate_limited, says

NOTES = ["The boiler is serviced every May.", "The spare key hangs behind the clock.", "Rubbish goes out on Tuesday."]
RECORDED = {
    "hosts": {BASE_URL: "https://notes.invalid"},
    "about": {"server": "shim.local wordllama-256"},
}


@pytest.mark.shim_cassette(**RECORDED)
@pytest.mark.parametrize(
    ("question", "expected"),
    [("Where is the second key?", 1), ("When was the boiler repaired?", 0), ("Which day is rubbish day?", 2)],
    ids=["key", "boiler", "rubbish"],
)
def test_a_question_finds_its_note(question: str, expected: int) -> None:
    """A real model's vectors, recorded once."""
    with client_for() as client:
        assert nearest(client, question, NOTES) == NOTES[expected]


@pytest.mark.shim_cassette("cassettes/twice.yaml", **RECORDED, all_used=True)
def test_a_hiccup_of_the_server_goes_unnoticed() -> None:
    """The same recorded answer, after an attempt that fails: faults act on a cassette as on a live server."""
    with client_for() as client, faults.inject(client, faults.status("lab", 503, times=1)) as injection:
        assert nearest(client, "Where is the second key?", NOTES) == NOTES[1]
    assert injection.met == (1,)


def test_the_answer_is_made_from_the_note(fake_provider, shim_router) -> None:
    model = fake_provider(says("Behind the clock."))
    with OpenAI(router=shim_router(model)) as client:
        assert answer(client, "Where is the second key?", NOTES[1]) == "Behind the clock."
    assert NOTES[1] in model.seen[0].json["messages"][0]["content"]


def test_a_busy_provider_is_passed_over(fake_provider, shim_router) -> None:
    busy, well = fake_provider(rate_limited(30)), fake_provider(says("Tuesday."))
    with OpenAI(router=shim_router(busy, well)) as client:
        said = client.chat.completions.create(model="test", messages=[{"role": "user", "content": "When?"}])
    assert [(one.provider, one.reason) for one in attempts(said)] == [("a", "rate_limit"), ("b", "ok")]


def test_when_nobody_answers_the_error_says_so(fake_provider, shim_router, fake_clock) -> None:
    model = fake_provider(says("never heard"))
    router = shim_router(model, attempt_timeout=20, max_retries=0)
    silence = faults.hang(waits=3600)
    with OpenAI(router=router) as client, faults.inject(model, silence), pytest.raises(AllProvidersFailedError):
        answer(client, "Where is the second key?", NOTES[1])
    assert sum(fake_clock.waits) == pytest.approx(20)  # of the test's own clock: nobody waited
