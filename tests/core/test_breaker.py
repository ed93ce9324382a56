"""The circuit breaker: tables of histories, and what holds on every walk through its states."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from shim._core.breaker import FOREVER, LOOK_AGAIN, Breaker, BreakerRules, Permit
from shim.events import BreakerState

CLOSED, OPEN, HALF_OPEN, FORCED = (
    BreakerState.CLOSED,
    BreakerState.OPEN,
    BreakerState.HALF_OPEN,
    BreakerState.FORCED_OPEN,
)
STREAK_ONLY = BreakerRules(failures=3, window_min=1000)
RATE_ONLY = BreakerRules(failures=1000, failure_rate=0.5, window=60.0, window_min=4)


def take(breaker: Breaker, now: float = 0.0, *, early: bool = False) -> Permit:
    permit = breaker.acquire(now, early=early)
    assert permit is not None
    return permit


def play(breaker: Breaker, history: str, start: float = 0.0, pace: float = 1.0) -> float:
    """One attempt per letter, `pace` seconds apart: s success, f failure, n neutral, r released. Returns the end."""
    now = start
    for letter in history:
        permit = take(breaker, now)
        match letter:
            case "s":
                breaker.success(permit, now)
            case "f":
                breaker.failure(permit, now, 0.5)
            case "n":
                breaker.neutral(permit)
            case "r":
                breaker.release(permit)
        now += pace
    return now


def opened(rules: BreakerRules = STREAK_ONLY) -> Breaker:
    """A breaker that opened at 0."""
    breaker = Breaker(rules)
    for _ in range(rules.failures):
        breaker.failure(take(breaker), 0.0, 0.5)
    assert breaker.state is OPEN
    return breaker


CLOSED_HISTORIES = [
    ("no attempts", "", CLOSED),
    ("two failures in a row", "ff", CLOSED),
    ("three failures in a row", "fff", OPEN),
    ("a success breaks the row", "ffsff", CLOSED),
    ("a neutral answer does not break the row", "ffnf", OPEN),
    ("a released permit does not break the row", "ffrf", OPEN),
    ("neutral and released alone", "nrnrnr", CLOSED),
    ("three in a row after successes", "ssssfff", OPEN),
]


@pytest.mark.parametrize(("history", "state"), [h[1:] for h in CLOSED_HISTORIES], ids=[h[0] for h in CLOSED_HISTORIES])
def test_failures_in_a_row_open_it(history: str, state: BreakerState) -> None:
    breaker = Breaker(STREAK_ONLY)
    play(breaker, history)
    assert breaker.state is state


RATES = [
    ("half of four failed", "sfsf", 1.0, OPEN),
    ("a third of six failed", "ssfssf", 1.0, CLOSED),
    ("three failures are fewer than the window wants", "fff", 1.0, CLOSED),
    ("the first outcomes have left the window", "ff" + "s" * 3 + "f", 20.0, CLOSED),
    ("failures spread beyond the window do not add up", "ffffff", 25.0, CLOSED),
    ("failures within the window add up", "ffff", 15.0, OPEN),
    ("neutral answers are no outcomes", "nnnnfff", 1.0, CLOSED),
]


@pytest.mark.parametrize(("history", "pace", "state"), [r[1:] for r in RATES], ids=[r[0] for r in RATES])
def test_the_failure_rate_of_a_full_window_opens_it(history: str, pace: float, state: BreakerState) -> None:
    breaker = Breaker(RATE_ONLY)
    play(breaker, history, pace=pace)
    assert breaker.state is state


def test_a_probe_that_goes_on_lets_others_in_and_may_still_fail() -> None:
    """A stream that has begun to answer may last for minutes."""
    breaker = opened()
    probe = take(breaker, 10.0)
    assert breaker.acquire(10.0) is None
    ordinary = breaker.proved(probe)
    assert (breaker.state, ordinary.is_probe) == (CLOSED, False)
    take(breaker, 10.0)
    for _ in range(3):
        breaker.failure(ordinary, 11.0, 0.5)
    assert breaker.state is OPEN
    assert breaker.proved(ordinary) is ordinary
    assert breaker.proved(probe) is probe
    assert breaker.state is OPEN


def test_a_long_rest_empties_the_window() -> None:
    breaker = Breaker(RATE_ONLY)
    play(breaker, "fff")
    play(breaker, "f", start=1000.0)
    assert breaker.state is CLOSED


def test_the_window_begins_empty_after_it_closed() -> None:
    breaker = Breaker(RATE_ONLY)
    play(breaker, "ffff")
    now = breaker.open_until
    breaker.success(take(breaker, now), now)
    play(breaker, "fff", start=now)
    assert breaker.state is CLOSED


def test_the_first_opening_lasts_the_cooldown_to_the_letter() -> None:
    breaker = Breaker(STREAK_ONLY)
    for jitter in (0.9, 0.9, 0.99):
        breaker.failure(take(breaker, 5.0), 5.0, jitter)
    assert breaker.open_until == 15.0
    assert breaker.ready_at(6.0) == 15.0
    assert breaker.acquire(14.999) is None


@pytest.mark.parametrize(("jitter", "factor"), [(0.0, 0.9), (0.5, 1.0), (0.999999, 1.1)])
def test_it_opens_for_twice_as_long_each_time_with_jitter_up_to_the_cap(jitter: float, factor: float) -> None:
    breaker = opened()
    lengths = []
    for _ in range(7):
        now = breaker.open_until
        breaker.failure(take(breaker, now), now, jitter)
        lengths.append(breaker.open_until - now)
    doubled = [20, 40, 80, 160, 300, 300, 300]
    assert lengths == pytest.approx([min(300, length * factor) for length in doubled], rel=1e-4)


def test_the_doubling_begins_anew_after_it_closed() -> None:
    breaker = opened()
    now = breaker.open_until
    breaker.failure(take(breaker, now), now, 0.5)
    now = breaker.open_until
    breaker.success(take(breaker, now), now)
    for _ in range(3):
        breaker.failure(take(breaker, now), now, 0.9)
    assert breaker.open_until == now + 10.0


def test_many_openings_do_not_overflow() -> None:
    breaker = opened()
    for _ in range(3000):
        now = breaker.open_until
        breaker.failure(take(breaker, now), now, 0.5)
    assert breaker.open_until - now == pytest.approx(300.0)


@pytest.mark.parametrize("probes", [1, 3])
def test_half_open_lets_its_probes_through_and_no_more(probes: int) -> None:
    breaker = opened(BreakerRules(probes=probes))
    permits = [take(breaker, 10.0) for _ in range(probes)]
    assert all(permit.is_probe for permit in permits)
    assert breaker.state is HALF_OPEN
    assert breaker.acquire(10.0) is None
    assert breaker.probe_at(10.0) == FOREVER
    assert breaker.ready_at(10.0) == 10.0 + LOOK_AGAIN


def test_an_early_probe_may_end_the_cooldown_at_any_time() -> None:
    breaker = opened()
    probe = take(breaker, 2.0, early=True)
    assert breaker.ready_at(2.0) == 2.0 + LOOK_AGAIN
    assert breaker.probe_at(2.0) == FOREVER
    breaker.release(probe)
    assert breaker.ready_at(2.0) == breaker.open_until


def test_a_probe_that_is_answered_closes_it() -> None:
    breaker = opened()
    breaker.success(take(breaker, 10.0), 10.0)
    assert breaker.state is CLOSED
    assert not take(breaker, 10.0).is_probe


def test_a_neutral_answer_to_a_probe_closes_it() -> None:
    breaker = opened()
    breaker.neutral(take(breaker, 10.0))
    assert breaker.state is CLOSED


def test_a_probe_that_fails_opens_it_at_once() -> None:
    breaker = opened()
    breaker.failure(take(breaker, 10.0), 12.0, 0.5)
    assert breaker.state is OPEN
    assert breaker.open_until == 32.0


def test_a_released_probe_gives_its_slot_back() -> None:
    breaker = opened()
    breaker.release(take(breaker, 10.0))
    assert breaker.state is HALF_OPEN
    assert breaker.ready_at(11.0) <= 11.0
    assert take(breaker, 11.0).is_probe


@pytest.mark.parametrize("outcome", ["success", "failure", "neutral", "release"])
def test_an_outcome_from_before_it_opened_moves_nothing(outcome: str) -> None:
    breaker = Breaker(STREAK_ONLY)
    late = take(breaker)
    play(breaker, "fff")
    tell(breaker, late, outcome, 5.0)
    assert breaker.state is OPEN
    assert breaker.open_until == 12.0
    take(breaker, 12.0)
    tell(breaker, late, outcome, 13.0)
    assert breaker.state is HALF_OPEN
    assert breaker.acquire(13.0) is None


@pytest.mark.parametrize("outcome", ["success", "failure", "neutral", "release"])
def test_the_second_of_two_probes_moves_nothing_after_the_first_has(outcome: str) -> None:
    breaker = opened(BreakerRules(probes=2))
    first, second = take(breaker, 10.0), take(breaker, 10.0)
    breaker.failure(first, 10.0, 0.5)
    tell(breaker, second, outcome, 11.0)
    assert breaker.state is OPEN
    assert breaker.open_until == 30.0


def test_a_late_release_gives_back_no_slot_of_later_probes() -> None:
    breaker = opened(BreakerRules(probes=2))
    first, late = take(breaker, 10.0), take(breaker, 10.0)
    breaker.failure(first, 10.0, 0.5)
    for _ in range(2):
        take(breaker, 30.0)
    breaker.release(late)
    assert breaker.acquire(31.0) is None


def test_late_failures_do_not_reach_a_breaker_that_closed_meanwhile() -> None:
    breaker = Breaker(STREAK_ONLY)
    late = [take(breaker) for _ in range(3)]
    play(breaker, "fff")
    breaker.success(take(breaker, 12.0), 12.0)
    for permit in late:
        breaker.failure(permit, 13.0, 0.5)
    assert breaker.state is CLOSED


def tell(breaker: Breaker, permit: Permit, outcome: str, now: float) -> None:
    match outcome:
        case "success":
            breaker.success(permit, now)
        case "failure":
            breaker.failure(permit, now, 0.5)
        case "neutral":
            breaker.neutral(permit)
        case _:
            breaker.release(permit)


def test_an_early_probe_goes_through_an_open_breaker_once() -> None:
    breaker = opened(BreakerRules(probes=2))
    assert take(breaker, 1.0, early=True).is_probe
    assert breaker.acquire(2.0) is None, "the others still wait for the cooldown"


def test_a_cancelled_early_probe_leaves_the_cooldown_as_it_was() -> None:
    """A cancelled attempt moves nothing (DESIGN.md 2.6)."""
    breaker = opened()
    breaker.release(take(breaker, 1.0, early=True))
    assert breaker.ready_at(2.0) == 10.0
    assert breaker.acquire(2.0) is None
    assert take(breaker, 10.0).is_probe


def test_forced_open_lets_nothing_through_until_reset() -> None:
    breaker = Breaker(STREAK_ONLY)
    before = take(breaker)
    breaker.force_open()
    assert breaker.acquire(1e9) is None
    assert breaker.acquire(1e9, early=True) is None
    assert breaker.ready_at(1e9) == FOREVER
    breaker.success(before, 1.0)
    assert breaker.state is FORCED
    breaker.reset()
    assert breaker.state is CLOSED
    assert breaker.ready_at(3.0) == 3.0


def test_reset_forgets_the_row_of_failures() -> None:
    breaker = Breaker(STREAK_ONLY)
    play(breaker, "ff")
    breaker.reset()
    play(breaker, "ff")
    assert breaker.state is CLOSED


def test_a_cooldown_of_zero_leaves_nothing_alone() -> None:
    breaker = opened(BreakerRules(cooldown=0.0))
    assert breaker.ready_at(0.0) == 0.0
    assert take(breaker, 0.0).is_probe
    breaker.failure(Permit(breaker._generation, True), 0.0, 0.999)
    assert breaker.ready_at(0.0) == 0.0


ARROWS = {
    (CLOSED, OPEN),
    (OPEN, HALF_OPEN),
    (HALF_OPEN, CLOSED),
    (HALF_OPEN, OPEN),
    (CLOSED, FORCED),
    (OPEN, FORCED),
    (HALF_OPEN, FORCED),
    (FORCED, CLOSED),
    (OPEN, CLOSED),  # reset alone
}


class Walk(RuleBasedStateMachine):
    """Permits come, go and come late, while time passes."""

    def __init__(self) -> None:
        super().__init__()
        self.law = BreakerRules(failures=2, window_min=4, window=30.0, cooldown=5.0, max_cooldown=20.0, probes=2)
        self.breaker = Breaker(self.law)
        self.now = 0.0
        self.out: list[Permit] = []
        self.was = CLOSED
        self.generation = 0
        self.is_reset = False

    @rule(seconds=st.floats(0.0, 12.0))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    @rule(early=st.booleans())
    def acquire(self, early: bool) -> None:
        ready = self.breaker.ready_at(self.now) <= self.now
        permit = self.breaker.acquire(self.now, early=early)
        assert early or ready == (permit is not None), "ready_at and acquire disagree"
        if permit is not None:
            self.out.append(permit)

    @precondition(lambda self: self.out)
    @rule(data=st.data(), outcome=st.sampled_from(["success", "failure", "neutral", "release"]))
    def settle(self, data: st.DataObject, outcome: str) -> None:
        permit = self.out.pop(data.draw(st.integers(0, len(self.out) - 1)))
        is_late = permit.generation != self.breaker._generation
        before = (self.breaker.state, self.breaker.open_until)
        tell(self.breaker, permit, outcome, self.now)
        if is_late or outcome == "release":
            assert (self.breaker.state, self.breaker.open_until) == before

    @rule()
    def force_open(self) -> None:
        self.breaker.force_open()

    @rule()
    def reset(self) -> None:
        self.breaker.reset()
        self.is_reset = True

    @invariant()
    def permits_never_exceed_probes(self) -> None:
        live = [p for p in self.out if p.is_probe and p.generation == self.breaker._generation]
        assert len(live) <= self.law.probes
        if self.breaker.state is HALF_OPEN:
            assert (self.breaker.acquire(FOREVER) is None) == (len(live) == self.law.probes)
            self._give_back(live)

    def _give_back(self, live: list[Permit]) -> None:
        if len(live) < self.law.probes:
            self.breaker.release(Permit(self.breaker._generation, True))

    @invariant()
    def only_drawn_arrows_are_taken(self) -> None:
        state = self.breaker.state
        if state is not self.was:
            assert (self.was, state) in ARROWS
            assert (self.was, state) not in {(OPEN, CLOSED), (FORCED, CLOSED)} or self.is_reset
        self.was, self.is_reset = state, False

    @invariant()
    def it_never_opens_for_longer_than_allowed(self) -> None:
        if self.breaker.state is OPEN:
            assert self.breaker.open_until - self.now <= self.law.max_cooldown


Walk.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestWalk = Walk.TestCase
