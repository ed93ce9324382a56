"""What the job can do about an attempt that failed."""

from __future__ import annotations

from typing import Any

import pytest

from shim import Attempt, Purpose, Scope, Verdict
from shim.embed.cells import ErrorKind
from shim.embed.trouble import Failure, Trouble, is_like_validation, kind_of, sorted_out, words_of


def _attempt(verdict: Verdict | None, status: int | None, reason: str = "x", message: str = "x") -> Attempt:
    given: dict[str, Any] = {"family": "f", "provider": "p", "model": "m", "key": "k", "purpose": Purpose.FIRST}
    return Attempt(
        number=1, verdict=verdict, scope=Scope.MODEL, reason=reason, message=message, status=status, started_at=0,
        duration=0, **given,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("attempt", "trouble"),
    [
        pytest.param(_attempt(Verdict.TRANSIENT, 429, "rate_limit"), Trouble.LIMITED, id="429"),
        pytest.param(_attempt(Verdict.BROKEN, 429, "quota"), Trouble.BROKEN, id="429 for want of credit"),
        pytest.param(_attempt(Verdict.TRANSIENT, 503), Trouble.DOWN, id="503"),
        pytest.param(_attempt(Verdict.TRANSIENT, None, "timeout"), Trouble.DOWN, id="a timeout"),
        pytest.param(_attempt(None, None), Trouble.DOWN, id="cancelled"),
        pytest.param(_attempt(Verdict.TRANSIENT, 200, "null_vector"), Trouble.SPOILT, id="a null vector"),
        pytest.param(_attempt(Verdict.TRANSIENT, 200, "short_answer"), Trouble.SPOILT, id="too few vectors"),
        pytest.param(_attempt(Verdict.TRANSIENT, 200, "malformed"), Trouble.DOWN, id="no JSON"),
        pytest.param(_attempt(Verdict.BROKEN, 200, "wrong_length"), Trouble.BROKEN, id="another length"),
        pytest.param(_attempt(Verdict.FATAL, 400), Trouble.REFUSED, id="400"),
        pytest.param(_attempt(Verdict.CANNOT, 400, "context_too_long"), Trouble.UNSUITABLE, id="too long"),
        pytest.param(_attempt(Verdict.CANNOT, 400, "too_many_inputs"), Trouble.UNSUITABLE, id="too many"),
        pytest.param(_attempt(Verdict.CANNOT, 200, "blank_input"), Trouble.UNSUITABLE, id="a blank text"),
        pytest.param(_attempt(Verdict.CANNOT, 400, "unsupported_parameter"), Trouble.UNABLE, id="a parameter"),
        pytest.param(_attempt(Verdict.CANNOT, 200, "wrong_length"), Trouble.UNABLE, id="dimensions ignored"),
        pytest.param(_attempt(Verdict.TRANSIENT, 413), Trouble.UNSUITABLE, id="413"),
        pytest.param(
            _attempt(Verdict.TRANSIENT, 500, message="Input should be a valid string"),
            Trouble.REFUSED,
            id="pydantic's 500",
        ),
        pytest.param(_attempt(Verdict.TRANSIENT, 500, message="boom"), Trouble.DOWN, id="a plain 500"),
    ],
)
def test_sorted_out(attempt: Attempt, trouble: Trouble) -> None:
    assert sorted_out(attempt) is trouble


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (Failure(Trouble.SPOILT, "zero_vector", "row 0 is all zeros", 200), "this row is all zeros"),
        (
            Failure(Trouble.SPOILT, "null_vector", "the embedding of row 0 is null", 200),
            "the embedding of this row is null",
        ),
        (Failure(Trouble.REFUSED, "bad_request", "row 0 is not allowed", 400), "row 0 is not allowed"),
    ],
)
def test_a_place_in_the_answer_is_not_told_as_a_place_in_the_column(failure: Failure, words: str) -> None:
    """Case D11: what we say of a text that was asked for alone. A provider's own words stay."""
    assert words_of(failure) == words


@pytest.mark.parametrize(
    ("status", "message", "is_like"),
    [
        (500, "llama_decode returned -1", True),
        (500, "1 validation error for CreateEmbeddingRequest", True),
        (500, "internal server error", False),
        (503, "validation of the backend failed", False),
        (None, "invalid", False),
    ],
)
def test_a_500_that_reads_like_a_complaint_about_the_input(status: int | None, message: str, is_like: bool) -> None:
    assert is_like_validation(status, message) is is_like


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        pytest.param(Failure(Trouble.REFUSED, "bad_request", "no", 400), ErrorKind.REJECTED, id="refused"),
        pytest.param(Failure(Trouble.UNSUITABLE, "context_too_long", "x", 400), ErrorKind.OVERSIZE, id="too long"),
        pytest.param(Failure(Trouble.UNSUITABLE, "bad_request", "no", 400), ErrorKind.REJECTED, id="cannot"),
        pytest.param(Failure(Trouble.SPOILT, "zero_vector", "x", 200), ErrorKind.BAD_VECTOR, id="zeros"),
        pytest.param(Failure(Trouble.DOWN, "server_error", "x", 503), ErrorKind.EXHAUSTED, id="an outage"),
        pytest.param(Failure(Trouble.DOWN, "timeout", "x", None), ErrorKind.EXHAUSTED, id="a timeout"),
        pytest.param(Failure(Trouble.DOWN, "server_error", "x", 500), ErrorKind.REJECTED, id="its own 500"),
    ],
)
def test_what_a_lost_row_is_called(failure: Failure, kind: ErrorKind) -> None:
    assert kind_of(failure) is kind
