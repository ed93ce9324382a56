"""The judge of the official suite: what counts as failing only with ours."""

from __future__ import annotations

import pytest

from tests.official.outcomes import Outcomes, compare, suspects


@pytest.mark.parametrize(
    ("official", "ours", "expected"),
    [
        pytest.param({"a": "passed"}, {"a": "passed"}, [], id="passes on both sides"),
        pytest.param({"a": "passed"}, {"a": "failed"}, ["a"], id="fails only with ours"),
        pytest.param({"a": "passed"}, {"a": "skipped"}, ["a"], id="a test that ours skip is not passed"),
        pytest.param({"a": "passed"}, {}, ["a"], id="a test that never ran is not passed"),
        pytest.param({"a": "failed"}, {"a": "failed"}, [], id="fails officially too"),
        pytest.param({"a": "skipped"}, {"a": "failed"}, [], id="was never passed officially"),
    ],
)
def test_suspects(official: Outcomes, ours: Outcomes, expected: list[str]) -> None:
    """Only what passed officially and did anything else with ours is suspected."""
    assert suspects(official, ours) == expected


@pytest.mark.parametrize(
    ("official_again", "ours_again", "failing", "flaky"),
    [
        pytest.param(["passed"], ["passed"], (), ("a",), id="passes alone"),
        pytest.param(["passed", "passed"], ["failed", "passed"], (), ("a",), id="passes alone the second time"),
        pytest.param(["failed"], ["failed"], (), ("a",), id="fails officially as well when alone"),
        pytest.param(["passed", "passed"], ["failed", "failed"], ("a",), (), id="fails each time with ours alone"),
    ],
)
def test_a_difference_must_survive_two_runs_alone(
    official_again: list[str], ours_again: list[str], failing: tuple[str, ...], flaky: tuple[str, ...]
) -> None:
    """A suspect is re-run by itself on both sides before it is judged."""
    official, ours = iter(official_again), iter(ours_again)
    result = compare(
        {"a": "passed"}, {"a": "failed"}, lambda tests: {"a": next(official)}, lambda tests: {"a": next(ours)}
    )
    assert (result.only_ours_fail, result.flaky) == (failing, flaky)


def _never(tests: list[str]) -> Outcomes:
    raise AssertionError(f"{len(tests)} tests were run again")


def test_a_flood_of_suspects_is_not_run_again() -> None:
    """Hundreds of differences are a broken client, and are reported at once."""
    official = {str(n): "passed" for n in range(500)}
    result = compare(official, {}, _never, _never)
    assert len(result.only_ours_fail) == 500


def test_the_line_counts_a_flake_as_passed() -> None:
    """The closing line says what was settled, not what was first seen."""
    ours = {"a": "failed", "b": "failed", "c": "skipped", "d": "passed"}
    official = {"a": "passed", "b": "failed", "c": "skipped", "d": "passed"}
    result = compare(official, ours, lambda tests: {}, lambda tests: dict.fromkeys(tests, "passed"))
    assert result.line() == "2 passed, 0 failed, 1 skipped, 1 fail officially too"
