"""Compares the outcomes of the same tests in two runs and settles which differences are real."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

# Test id -> "passed", "failed" or "skipped".
Outcomes = Mapping[str, str]
# Runs the named tests alone and gives their outcomes.
Rerun = Callable[[list[str]], Outcomes]

# More suspects than this are no flakes: re-running them one by one would only delay the bad news.
_TOO_MANY = 150


@dataclass(frozen=True, slots=True)
class Comparison:
    """What one run with our classes brought, held against the official run."""

    ours: Outcomes
    only_ours_fail: tuple[str, ...]
    both_fail: int
    flaky: tuple[str, ...]

    def line(self) -> str:
        """`N passed, M failed, K skipped`, where failed means: with ours alone."""
        counts = Counter(self.ours.values())
        passed = counts["passed"] + len(self.flaky)
        failed = len(self.only_ours_fail)
        return f"{passed} passed, {failed} failed, {counts['skipped']} skipped, {self.both_fail} fail officially too"


def suspects(official: Outcomes, ours: Outcomes) -> list[str]:
    """Tests that passed officially and did anything else with ours, a test that never ran included."""
    return sorted(test for test, outcome in official.items() if outcome == "passed" and ours.get(test) != "passed")


def compare(
    official: Outcomes, ours: Outcomes, again_official: Rerun, again_ours: Rerun, rounds: int = 2
) -> Comparison:
    """Compare two runs; a difference counts when it is there again each time both sides run it alone."""
    first = suspects(official, ours)
    left = first
    for _ in range(rounds if len(first) <= _TOO_MANY else 0):
        if not left:
            break
        left = suspects(_only(again_official(left), left), again_ours(left))
    both = sum(1 for test, outcome in official.items() if outcome == "failed" and ours.get(test) == "failed")
    return Comparison(ours, tuple(left), both, tuple(sorted(set(first) - set(left))))


def _only(outcomes: Outcomes, tests: Iterable[str]) -> Outcomes:
    # A test that the official side did not report again keeps its first judgement: passed.
    return {test: outcomes.get(test, "passed") for test in tests}
