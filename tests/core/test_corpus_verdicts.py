"""Every recorded answer of the corpus gets the verdict and scope that the taxonomy of providers asks for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from shim._core.judge import failure, payload_failure
from shim._core.outcome import Judgement, Outcome
from shim.events import Scope, Verdict
from tests.shared_data import corpus_dir

NOW = 1_759_845_400.0
"""Twenty seconds before the epoch that OpenRouter's recorded rate limit names."""

Expected = tuple[Verdict, Scope] | None

FATAL: Expected = (Verdict.FATAL, Scope.REQUEST)
CANNOT: Expected = (Verdict.CANNOT, Scope.REQUEST)
BEYOND_MODEL: Expected = (Verdict.CANNOT, Scope.MODEL)
BAD_KEY: Expected = (Verdict.BROKEN, Scope.KEY)
NO_MODEL: Expected = (Verdict.BROKEN, Scope.MODEL)
NO_ACCESS: Expected = (Verdict.BROKEN, Scope.KEY_MODEL)
NO_MONEY: Expected = (Verdict.BROKEN, Scope.ACCOUNT)
SICK: Expected = (Verdict.TRANSIENT, Scope.MODEL)
LIMITED: Expected = (Verdict.TRANSIENT, Scope.KEY_MODEL)

BY_SITUATION: dict[str, Expected] = {
    "refusal": None,
    "incomplete": None,
    "content_filter": None,
    "bad_key": BAD_KEY,
    "bad_model": NO_MODEL,
    "model_retired": NO_MODEL,
    "forbidden": NO_ACCESS,
    "payment_required": NO_MONEY,
    "rate_limit": LIMITED,
    "server_error": SICK,
    "empty_body": SICK,
    "bad_request": FATAL,
    "moderation": FATAL,
    "validation": CANNOT,
    "context_length": CANNOT,
    "unsupported_param": CANNOT,
    "capability": CANNOT,
    "batch_too_large": CANNOT,
    "error_mid_stream": CANNOT,
}

# Where the taxonomy has a row that says more than the situation does.
BY_ID: dict[str, Expected] = {
    "openai-responses-context-length-400-01": BEYOND_MODEL,
    "azure-chat-capability-404-01": NO_MODEL,
    "openai-chat-capability-404-02": NO_MODEL,
    "cerebras-chat-stream-forbidden-403-01": CANNOT,
    "doubleword-chat-forbidden-403-01": BAD_KEY,
    "deepseek-chat-bad-request-400-01": CANNOT,
    "huggingface-chat-stream-bad-request-400-01": CANNOT,
    "llamacpp-embeddings-bad-request-400-01": CANNOT,
    "llamacpp-chat-server-error-500-01": CANNOT,
    "ollama-ollama-native-server-error-500-01": CANNOT,
    "pollinations-chat-bad-request-400-01": CANNOT,
    "gemini-gemini-native-quota-429-01": LIMITED,
    "gemini-gemini-native-rate-limit-429-01": SICK,
    "groq-chat-stream-error-first-event-200-01": CANNOT,
    "openai-chat-bad-model-404-01": NO_ACCESS,
    "openai-chat-bad-model-404-03": NO_ACCESS,
    "openai-chat-stream-bad-model-400-01": NO_ACCESS,
    "openai-embeddings-bad-model-404-01": NO_ACCESS,
    "openai-embeddings-bad-model-404-02": NO_ACCESS,
    "openai-chat-server-error-500-01": (Verdict.TRANSIENT, Scope.REQUEST),
    "openai-responses-quota-429-01": NO_MONEY,
    "openai-responses-stream-error-first-event-200-02": NO_MONEY,
    "openrouter-chat-error-in-200-200-01": CANNOT,
    "openrouter-chat-error-in-200-200-02": SICK,
    "openrouter-chat-error-in-200-200-03": SICK,
    "openrouter-chat-rate-limit-429-01": (Verdict.TRANSIENT, Scope.ACCOUNT),
    "openrouter-chat-stream-error-first-event-200-01": CANNOT,
    "openrouter-chat-stream-error-first-event-200-02": SICK,
}

BARE_400 = "A bare 400 that no row calls unsuitable for the host alone is the caller's own."
KEY_SEES = "The taxonomy: a model that a key may not see looks the same as one that is gone."
MID_STREAM = "Judged alike wherever it stands; what follows after content is the stream's affair."

# Where we deviate from the collector's advisory label (its scope or its advice), and why.
DEVIATIONS: dict[str, str] = {
    "openai-responses-context-length-400-01": "the window is the model's: every host of the same model is passed over",
    "baseten-chat-stream-bad-request-400-01": BARE_400,
    "gemini-chat-bad-request-400-01": BARE_400,
    "groq-chat-stream-bad-request-400-01": BARE_400,
    "openai-chat-bad-request-400-01": BARE_400,
    "openai-embeddings-bad-request-400-01": BARE_400,
    "openai-responses-bad-request-400-01": BARE_400,
    "xiaomi-chat-stream-bad-request-400-01": BARE_400,
    "openai-chat-bad-model-404-01": KEY_SEES,
    "openai-chat-bad-model-404-03": KEY_SEES,
    "openai-chat-stream-bad-model-400-01": KEY_SEES,
    "openai-embeddings-bad-model-404-01": KEY_SEES,
    "openai-embeddings-bad-model-404-02": KEY_SEES,
    "groq-chat-stream-error-mid-stream-200-01": MID_STREAM,
    "groq-chat-stream-error-mid-stream-200-02": MID_STREAM,
    "gemini-gemini-native-rate-limit-429-01": "Exhausted capacity without a quota is the model's, not the key's.",
    "openrouter-chat-moderation-403-01": "Moderation stops the call by default; another host is not asked to take it.",
}

_ADVICE: dict[str, set[Verdict]] = {
    "no": {Verdict.FATAL},
    "next": {Verdict.TRANSIENT, Verdict.BROKEN},
    "next_no_penalty": {Verdict.CANNOT},
    "split_or_next": {Verdict.CANNOT},
}


def _load() -> list[dict[str, Any]]:
    folder = corpus_dir()
    index = json.loads((folder / "index.json").read_text("utf-8"))
    return [json.loads((folder / entry["file"]).read_text("utf-8")) for entry in index]


ITEMS = _load()


def _events(body: str) -> Iterator[tuple[str | None, bytes]]:
    for block in re.split(r"\r?\n\r?\n", body):
        lines = [line.partition(":") for line in re.split(r"\r?\n", block)]
        data = [value.removeprefix(" ") for field, _, value in lines if field == "data"]
        if data:
            yield next((value.strip() for field, _, value in lines if field == "event"), None), "\n".join(data).encode()


def _judged(item: dict[str, Any]) -> Judgement | None:
    """As the engine would: a stream by its events, up to the first that fails; anything else whole."""
    response, preset = item["response"], item["provider"]
    if "stream" in item["kind"] and response["status"] == 200 and response["body"].strip():
        found = (payload_failure(data, event=name, preset=preset, now=NOW) for name, data in _events(response["body"]))
        return next((judgement for judgement in found if judgement is not None), None)
    headers = {name.lower(): value for name, value in response["headers"]}
    outcome = Outcome(status=response["status"], headers=headers, body=response["body"].encode())
    return failure(outcome, preset=preset, now=NOW)


def _expected(item: dict[str, Any]) -> Expected:
    if item["id"] in BY_ID:
        return BY_ID[item["id"]]
    return None if item["situation"].startswith("success") else BY_SITUATION[item["situation"]]


@pytest.mark.parametrize("item", ITEMS, ids=[item["id"] for item in ITEMS])
def test_a_recorded_answer_gets_its_verdict(item: dict[str, Any]) -> None:
    judgement = _judged(item)
    assert (judgement and (judgement.verdict, judgement.scope)) == _expected(item)


@pytest.mark.parametrize("item", ITEMS, ids=[item["id"] for item in ITEMS])
def test_a_judgement_departs_from_the_label_only_where_we_say_why(item: dict[str, Any]) -> None:
    judgement, label = _judged(item), item["label"]
    advice, scope = label["failover"].partition(" (")[0], label["scope"].partition(" (")[0]
    agrees = advice == "no" if judgement is None else judgement.verdict in _ADVICE[advice] and judgement.scope == scope
    if label["cls"] == "ok_truncated":
        agrees = judgement is None
    assert agrees != (item["id"] in DEVIATIONS)


def test_all_two_hundred_are_there_and_every_exception_is_one_of_them() -> None:
    names = {item["id"] for item in ITEMS}
    assert len(names) == len(ITEMS) == 200
    assert names >= set(BY_ID) | set(DEVIATIONS)


COOLDOWNS = {
    "gemini-gemini-native-quota-429-01": 48.9,
    "openrouter-chat-rate-limit-429-01": 20.0,
    "together-chat-rate-limit-429-01": 4.0,
    "together-chat-rate-limit-429-02": 5.0,
}


@pytest.mark.parametrize("item", ITEMS, ids=[item["id"] for item in ITEMS])
def test_a_cooldown_is_told_only_where_it_was(item: dict[str, Any]) -> None:
    judgement = _judged(item)
    told = judgement.cooldown if judgement is not None and judgement.told else None
    expected = COOLDOWNS.get(item["id"])
    assert told == (None if expected is None else pytest.approx(expected, abs=0.05))


@pytest.mark.parametrize("item", ITEMS, ids=[item["id"] for item in ITEMS])
def test_every_failure_has_words_of_bounded_length(item: dict[str, Any]) -> None:
    judgement = _judged(item)
    assert judgement is None or (0 < len(judgement.message) <= 300 and judgement.reason.replace("_", "").isalpha())
