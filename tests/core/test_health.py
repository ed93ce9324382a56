"""What a verdict does to the health of a route, its key, its account and its provider."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim._core.breaker import FOREVER, BreakerRules
from shim._core.health import Cooldown, KeyHealth, RouteHealth, acquire, release, settle
from shim._core.outcome import Judgement
from shim.events import BreakerState, Scope, Verdict
from tests.core.builders import key, provider_health, route_health

TRANSIENT, BROKEN, CANNOT, FATAL = Verdict.TRANSIENT, Verdict.BROKEN, Verdict.CANNOT, Verdict.FATAL
OK = Judgement(Verdict.OK, Scope.REQUEST, "ok", "")


def judged(
    verdict: Verdict = TRANSIENT,
    scope: Scope = Scope.MODEL,
    *,
    cooldown: float | None = None,
    told: bool = False,
    counts: bool = False,
    moot: bool = False,
) -> Judgement:
    return Judgement(verdict, scope, "a reason", "a message", cooldown=cooldown, told=told, counts=counts, moot=moot)


def attempt(route: RouteHealth, judgement: Judgement, now: float = 0.0, index: int = 0, seconds: float = 1.0) -> None:
    """One attempt on a route from permit to verdict, whatever stands in its way."""
    permits = acquire(route, index, now, early=True)
    if permits is None:  # it began before the cooldown was put
        permits = acquire(route, index, route.ready_at(index, now), early=True)
    assert permits is not None
    settle(route, index, permits, judgement, seconds, now, 0.5)


class Site:
    """A provider with two keys and two models, and a second provider."""

    def __init__(self) -> None:
        self.provider = provider_health("alpha", keys=2)
        self.m = route_health(self.provider, "m")
        self.n = route_health(self.provider, "n")
        self.other = route_health(provider_health("beta"), "m")

    def resting(self) -> set[str]:
        """Which of the ways to be served are benched at 0."""
        ways = {
            "m/1": self.m.benched_until(0),
            "m/2": self.m.benched_until(1),
            "n/1": self.n.benched_until(0),
            "n/2": self.n.benched_until(1),
            "other": self.other.benched_until(0),
        }
        return {way for way, until in ways.items() if until > 0.0}


PLACES = [
    ("the key for this model", Scope.KEY_MODEL, {"m/1"}),
    ("the key for all models", Scope.KEY, {"m/1", "n/1"}),
    ("the account, here of one key", Scope.ACCOUNT, {"m/1", "n/1"}),
    ("the model with all keys", Scope.MODEL, {"m/1", "m/2"}),
    ("the provider with everything", Scope.PROVIDER, {"m/1", "m/2", "n/1", "n/2"}),
    ("the request: nothing", Scope.REQUEST, set()),
]


@pytest.mark.parametrize(("scope", "benched"), [p[1:] for p in PLACES], ids=[p[0] for p in PLACES])
@pytest.mark.parametrize("verdict", [TRANSIENT, BROKEN])
def test_a_cooldown_lies_where_its_scope_says(verdict: Verdict, scope: Scope, benched: set[str]) -> None:
    site = Site()
    attempt(site.m, judged(verdict, scope, cooldown=30.0, told=True))
    assert site.resting() == benched


@pytest.mark.parametrize("verdict", [CANNOT, FATAL])
@pytest.mark.parametrize("scope", list(Scope))
def test_what_is_no_fault_of_the_route_benches_nothing(verdict: Verdict, scope: Scope) -> None:
    site = Site()
    attempt(site.m, judged(verdict, scope, cooldown=30.0))
    assert site.resting() == set()


@pytest.mark.parametrize("scope", [Scope.KEY, Scope.ACCOUNT, Scope.PROVIDER])
def test_a_provider_without_keys_is_its_own_key_and_account(scope: Scope) -> None:
    provider = provider_health("alpha", keys=0)
    m, n = route_health(provider, "m"), route_health(provider, "n")
    attempt(m, judged(scope=scope, cooldown=30.0), index=-1)
    assert (m.ready_at(-1, 0.0), n.ready_at(-1, 0.0)) == (30.0, 30.0)


def test_a_key_and_model_of_a_provider_without_keys_is_the_route() -> None:
    provider = provider_health("alpha", keys=0)
    m, n = route_health(provider, "m"), route_health(provider, "n")
    attempt(m, judged(scope=Scope.KEY_MODEL, cooldown=30.0), index=-1)
    assert (m.ready_at(-1, 0.0), n.ready_at(-1, 0.0)) == (30.0, 0.0)


def test_keys_of_one_account_rest_together() -> None:
    provider = provider_health(keys=0)
    account = Cooldown()
    provider.keys = [key("a", account), key("b", account), key("c")]
    route = route_health(provider)
    attempt(route, judged(BROKEN, Scope.ACCOUNT, cooldown=60.0, told=True))
    assert [route.ready_at(index, 0.0) for index in range(3)] == [60.0, 60.0, 0.0]


PUTS = [
    ("a guess never shortens what was told", [(100, True), (10, False)], 100, True),
    ("a guess may lengthen what was told", [(100, True), (200, False)], 200, True),
    ("a guess after a longer one never goes below what was told", [(100, True), (200, False), (50, False)], 200, True),
    ("a later guess replaces a guess", [(100, False), (10, False)], 10, False),
    ("what is told replaces a guess", [(100, False), (10, True)], 10, True),
    ("what is told may be told longer", [(10, True), (100, True)], 100, True),
    ("what is told is not told shorter", [(100, True), (10, True)], 100, True),
]


@pytest.mark.parametrize(("puts", "until", "told"), [p[1:] for p in PUTS], ids=[p[0] for p in PUTS])
def test_who_said_it_decides(puts: list[tuple[float, bool]], until: float, told: bool) -> None:
    cooldown = Cooldown()
    for at, is_told in puts:
        cooldown.put(at, is_told, "", 0.0)
    assert (cooldown.until, cooldown.told) == (until, told)


def test_what_was_told_and_is_over_binds_nobody() -> None:
    cooldown = Cooldown()
    cooldown.put(10.0, True, "", 0.0)
    cooldown.put(15.0, False, "", 12.0)
    assert (cooldown.until, cooldown.told) == (15.0, False)


@given(st.lists(st.tuples(st.floats(0.1, 100), st.booleans(), st.floats(0, 20)), max_size=12))
def test_told_cooldowns_are_kept_to_the_end(puts: list[tuple[float, bool, float]]) -> None:
    """Whatever is put later, nothing ends before any told instant that still lies ahead."""
    cooldown, now, promises = Cooldown(), 0.0, [0.0]
    for seconds, told, pause in puts:
        now += pause
        cooldown.put(now + seconds, told, "", now)
        if told:
            promises.append(now + seconds)
        ahead = [promise for promise in promises if promise > now]
        assert not ahead or cooldown.until >= max(ahead)


def test_clear_forgets_all() -> None:
    cooldown = Cooldown(9.0, True, "x", 3)
    cooldown.clear()
    assert cooldown == Cooldown()


GUESSED = [Scope.KEY_MODEL, Scope.KEY, Scope.ACCOUNT, Scope.MODEL, Scope.PROVIDER]


@pytest.mark.parametrize("scope", GUESSED)
@pytest.mark.parametrize("keys", [0, 1])
def test_a_rate_limit_without_a_time_rests_twice_as_long_each_time(scope: Scope, keys: int) -> None:
    route = route_health(provider_health(keys=keys))
    index, now, lengths = keys - 1, 0.0, []
    for _ in range(7):
        attempt(route, judged(scope=scope), now, index)
        lengths.append(route.benched_until(index) - now)
        now = route.benched_until(index)
    assert lengths == [10, 20, 40, 80, 160, 300, 300]


@pytest.mark.parametrize("scope", GUESSED)
@pytest.mark.parametrize("keys", [0, 1])
def test_the_guess_is_forgotten_after_an_answer(scope: Scope, keys: int) -> None:
    route = route_health(provider_health(keys=keys))
    index = keys - 1
    attempt(route, judged(scope=scope), 0.0, index)
    attempt(route, judged(scope=scope), 100.0, index)
    attempt(route, OK, 200.0, index)
    attempt(route, judged(scope=scope), 300.0, index)
    assert route.benched_until(index) == 310.0


def test_a_guess_with_a_cooldown_beyond_the_cap_is_that_cooldown() -> None:
    route = route_health(provider_health(), rules=BreakerRules(cooldown=900.0, max_cooldown=900.0))
    attempt(route, judged())
    attempt(route, judged(), 900.0)
    assert route.benched_until(0) == 1800.0


def test_without_a_cooldown_nothing_is_guessed_for_what_counts_on_a_breaker() -> None:
    route = route_health(provider_health())
    attempt(route, judged(counts=True))
    assert route.benched_until(0) == 0.0


def test_a_failure_that_counts_and_names_its_cooldown_does_both() -> None:
    route = route_health(provider_health(), rules=BreakerRules(failures=1))
    attempt(route, judged(counts=True, cooldown=30.0, told=True))
    assert route.benched_until(0) == 30.0
    assert route.breaker.state is BreakerState.OPEN


COUNTS = [
    ("a failure of the model is the route's", judged(counts=True), "open", "closed"),
    ("a failure of a key is the route's", judged(scope=Scope.KEY, counts=True), "open", "closed"),
    ("a failure of the provider is the provider's", judged(scope=Scope.PROVIDER, counts=True), "closed", "open"),
    ("a rate limit is nobody's", judged(scope=Scope.KEY, cooldown=0.0), "closed", "closed"),
    ("a fatal verdict is nobody's", judged(FATAL, Scope.REQUEST), "closed", "closed"),
    ("a cannot is nobody's", judged(CANNOT, Scope.REQUEST), "closed", "closed"),
    ("an answer is nobody's failure", OK, "closed", "closed"),
]


@pytest.mark.parametrize(("judgement", "own", "shared"), [c[1:] for c in COUNTS], ids=[c[0] for c in COUNTS])
def test_on_which_breaker_a_verdict_counts(judgement: Judgement, own: str, shared: str) -> None:
    route = route_health(provider_health(rules=BreakerRules(failures=2)), rules=BreakerRules(failures=2))
    attempt(route, judgement)
    attempt(route, judgement)
    assert (route.breaker.state.value, route.provider.breaker.state.value) == (own, shared)


@pytest.mark.parametrize(
    "answer", [OK, judged(CANNOT, Scope.REQUEST), judged(scope=Scope.KEY, cooldown=5.0)], ids=["ok", "cannot", "429"]
)
def test_an_answered_probe_closes_both_breakers(answer: Judgement) -> None:
    """A server that answers, whatever it says, is up."""
    route = route_health(provider_health(rules=BreakerRules(failures=1)), rules=BreakerRules(failures=1))
    attempt(route, judged(counts=True))
    route.provider.breaker.failure(route.provider.breaker.acquire(0.0) or pytest.fail("denied"), 0.0, 0.5)
    attempt(route, answer, 10.0)
    assert route.breaker.state is BreakerState.CLOSED
    assert route.provider.breaker.state is BreakerState.CLOSED


def test_a_connection_fault_on_a_probe_of_the_route_leaves_its_breaker_half_open_with_its_slot() -> None:
    route = route_health(provider_health(), rules=BreakerRules(failures=1))
    attempt(route, judged(counts=True))
    attempt(route, judged(scope=Scope.PROVIDER, counts=True), 10.0)
    assert route.breaker.state is BreakerState.HALF_OPEN
    assert route.breaker.ready_at(10.0) <= 10.0


def test_what_says_nothing_of_the_route_moves_nothing() -> None:
    """A timeout of the caller's own making, on a probe: the next one may probe at once, and nobody is benched."""
    route = route_health(provider_health(), rules=BreakerRules(failures=1))
    attempt(route, judged(counts=True))
    before = route.last_message
    attempt(route, judged(moot=True), 10.0)
    assert route.breaker.state is BreakerState.HALF_OPEN
    assert route.ready_at(0, 10.0) <= 10.0
    assert route.last_message == before


def test_a_probe_is_due_only_when_nothing_but_a_breaker_stands_in_the_way() -> None:
    route = route_health(provider_health(), rules=BreakerRules(failures=1))
    attempt(route, judged(counts=True))
    assert route.probe_at(0, 1.0) == 10.0
    route.cooldown.put(5.0, False, "rate_limit", 1.0)
    assert route.probe_at(0, 1.0) == FOREVER
    assert route.probe_at(0, 6.0) == 10.0


EVERY_JUDGEMENT = [
    OK,
    judged(moot=True),
    *(
        judged(verdict, scope, counts=counts, cooldown=cooldown)
        for verdict in (TRANSIENT, BROKEN, CANNOT, FATAL)
        for scope in Scope
        for counts in (False, True)
        for cooldown in (None, 0.0)
    ),
]


@pytest.mark.parametrize("judgement", [*EVERY_JUDGEMENT, None], ids=str)
def test_permits_come_back_in_every_branch(judgement: Judgement | None) -> None:
    """After the verdict on the probe of a half-open route and provider, neither holds a permit for ever."""
    rules = BreakerRules(failures=1)
    route = route_health(provider_health(rules=rules), rules=rules)
    for breaker in (route.breaker, route.provider.breaker):
        breaker.failure(breaker.acquire(0.0) or pytest.fail("denied"), 0.0, 0.5)
    permits = acquire(route, 0, 10.0, early=False)
    assert permits is not None
    assert route.in_flight == 1
    if judgement is None:
        release(route, permits)
    else:
        settle(route, 0, permits, judgement, 1.0, 10.0, 0.5)
    assert route.in_flight == 0
    later = max(route.ready_at(0, 10.0), 10.0)
    assert later < 1e6
    assert acquire(route, 0, later, early=False) is not None


def test_a_cancelled_attempt_counts_for_nothing() -> None:
    route = route_health(provider_health(), rules=BreakerRules(failures=1))
    permits = acquire(route, 0, 0.0, early=False)
    assert permits is not None
    release(route, permits)
    assert (route.attempts, route.in_flight, route.verdicts, route.breaker.state) == (0, 0, {}, BreakerState.CLOSED)


def test_no_permit_for_a_key_that_rests() -> None:
    site = Site()
    attempt(site.m, judged(scope=Scope.KEY, cooldown=30.0, told=True))
    assert acquire(site.m, 0, 10.0, early=True) is None, "not even early"
    assert acquire(site.m, 1, 10.0, early=False) is not None


def test_a_cooldown_that_we_guessed_bars_first_choices_and_not_a_retry() -> None:
    site = Site()
    attempt(site.m, judged(scope=Scope.KEY, cooldown=30.0))
    assert acquire(site.m, 0, 10.0, early=False) is None
    assert acquire(site.m, 0, 10.0, early=True) is not None


def test_a_late_word_never_shortens_what_is_misconfigured() -> None:
    site = Site()
    attempt(site.m, judged(Verdict.BROKEN, scope=Scope.MODEL, cooldown=86_400.0))
    attempt_late = site.m.cooldown.until
    site.m.cooldown.put(5.0, True, "overloaded", 2.0)
    assert site.m.cooldown.until == attempt_late


def test_a_permit_of_the_provider_comes_back_when_the_route_has_none() -> None:
    rules = BreakerRules(failures=1)
    route = route_health(provider_health(rules=rules))
    breaker = route.provider.breaker
    breaker.failure(breaker.acquire(0.0) or pytest.fail("denied"), 0.0, 0.5)
    route.breaker.force_open()
    assert acquire(route, 0, 10.0, early=False) is None
    assert breaker.acquire(10.0) is not None
    assert route.in_flight == 0


@pytest.mark.parametrize(
    ("own", "shared", "benched", "expected"), [(7.0, 0.0, 0.0, 7.0), (0.0, 8.0, 0.0, 8.0), (1.0, 2.0, 9.0, 9.0)]
)
def test_a_route_is_ready_when_the_last_of_its_obstacles_is_gone(
    own: float, shared: float, benched: float, expected: float
) -> None:
    route = route_health(provider_health())
    for breaker, until in ((route.breaker, own), (route.provider.breaker, shared)):
        if until:
            breaker.state, breaker.open_until = BreakerState.OPEN, until
    route.cooldown.until = benched
    assert route.ready_at(0, 0.0) == expected


@pytest.mark.parametrize(("own", "account", "model"), [(9, 1, 1), (1, 9, 1), (1, 1, 9)])
def test_a_key_is_ready_when_the_longest_of_its_cooldowns_is_over(own: float, account: float, model: float) -> None:
    health = KeyHealth("k", Cooldown(own), Cooldown(account), {"m": Cooldown(model)})
    assert health.ready_at("m") == 9
    assert health.ready_at("another") == max(own, account)


def test_a_broken_model_is_marked_misconfigured_a_broken_key_is_not() -> None:
    site = Site()
    attempt(site.m, judged(BROKEN, Scope.KEY, cooldown=1.0))
    assert site.m.misconfigured == ""
    attempt(site.m, judged(BROKEN, Scope.MODEL, cooldown=1.0), 5.0)
    assert site.m.misconfigured == "a message"


def test_figures() -> None:
    route = route_health(provider_health())
    assert route.percentile(0.5) is None
    for seconds in (3.0, 1.0, 2.0, 4.0):
        attempt(route, OK, seconds=seconds)
    attempt(route, judged(counts=True), seconds=99.0)
    assert [route.percentile(share) for share in (0.0, 0.5, 0.95, 1.0)] == [1.0, 3.0, 4.0, 4.0]
    assert (route.attempts, route.verdicts) == (5, {"ok": 4, "transient": 1})
    assert (route.last_message, route.provider.last_message, route.last_reason) == (
        "a message",
        "a message",
        "a reason",
    )


def test_percentiles_look_back_on_a_bounded_number_of_answers() -> None:
    route = route_health(provider_health())
    for number in range(300):
        attempt(route, OK, seconds=float(number))
    assert route.percentile(0.0) == 44.0
