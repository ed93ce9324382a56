"""What holds for every call, whatever happens: the machine in a small world that decides by chance."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from shim._core.call import FOREVER, Action, Cancel, End, Finish, Lane, Limits, Machine, Start, Wait
from shim.events import Purpose, Scope, Verdict

FIRST_PASS = {Purpose.FIRST, Purpose.FALLBACK, Purpose.HEDGE, Purpose.RACE}
OF_A_KEY = {Scope.KEY, Scope.KEY_MODEL, Scope.ACCOUNT}
SLACK = 1e-6
MOST_STEPS = 3000


@dataclass
class Seen:
    """An attempt as the world saw it."""

    start: Start
    at: float
    verdict: Verdict | None = None
    scope: Scope | None = None
    denied: bool = False
    asked_again: bool = False


@dataclass
class World:
    """Lanes that rest and come back, budgets that run dry, permits that are refused, and answers by chance."""

    lanes: list[Lane]
    limits: Limits
    random: Random
    verdicts: list[Verdict]
    retries: int
    hedges: int
    denials: float
    cooldown: dict[int, float] = field(default_factory=dict)
    breaker: dict[int, float] = field(default_factory=dict)
    now: float = 0.0
    wake: float = FOREVER
    pending: list[tuple[float, int, Verdict, Scope]] = field(default_factory=list)
    seen: dict[int, Seen] = field(default_factory=dict)
    flying: set[int] = field(default_factory=set)
    finished: Finish | None = None
    waits: int = 0
    anew: int = 0

    def ready_at(self, lane: int, now: float) -> float:
        return max(self.cooldown.get(lane, 0.0), self.breaker.get(lane, 0.0))

    retry_at = ready_at

    def probe_at(self, lane: int, now: float) -> float:
        return self.breaker.get(lane, 0.0) if self.cooldown.get(lane, 0.0) <= now else FOREVER

    def take_retry(self) -> bool:
        self.retries -= 1
        return self.retries >= 0

    def take_hedge(self) -> bool:
        self.hedges -= 1
        return self.hedges >= 0

    # -- the run

    def run(self) -> Machine:
        machine = Machine(self.lanes, self.limits, self, self.random.random)
        self.obey(machine, machine.begin(self.now), may_be_early=True)
        for _ in range(MOST_STEPS):
            if self.finished is not None:
                return machine
            self.step(machine)
        raise AssertionError("the call does not end")

    def step(self, machine: Machine) -> None:
        at = self.pending[0][0] if self.pending else FOREVER
        assert min(at, self.wake) < FOREVER, "nothing is in flight, nothing is waited for, and the call is not over"
        if self.wake < at:
            self.now, self.wake = max(self.now, self.wake), FOREVER
            self.obey(machine, machine.on_wake(self.now))
            return
        self.now, number, verdict, scope = heapq.heappop(self.pending)
        if number not in self.flying:
            return
        again = verdict is Verdict.CANNOT and self.anew < 2 and self.random.random() < 0.2
        seen = self.seen[number]
        seen.verdict, seen.scope, seen.asked_again = verdict, scope, again and self.now < self.limits.deadline
        self.anew += again
        self.flying.discard(number)
        self.hurt(seen.start.lane, verdict)
        self.obey(machine, machine.on_verdict(number, verdict, scope, self.now, again=again))

    def hurt(self, lane: int, verdict: Verdict) -> None:
        if verdict in (Verdict.TRANSIENT, Verdict.BROKEN) and self.random.random() < 0.5:
            place = self.cooldown if self.random.random() < 0.5 else self.breaker
            forever = self.random.random() < 0.1
            place[lane] = FOREVER if forever else self.now + self.random.uniform(0.0, 20.0)

    def obey(self, machine: Machine, actions: list[Action], *, may_be_early: bool = False) -> None:
        assert self.finished is None or not actions, "something happened after the end"
        queue = list(actions)
        while queue:
            action = queue.pop(0)
            match action:
                case Start():
                    self.check_start(action, may_be_early=may_be_early)
                    if self.random.random() < self.denials:
                        self.seen[action.number].denied = True
                        queue += machine.on_denied(action.number, self.now)
                    else:
                        self.fly(action)
                case Cancel(number):
                    assert self.finished is None
                    assert number in self.flying, "cancelled what was not in flight"
                    self.flying.discard(number)
                case Wait(until):
                    self.wake = until
                    self.waits += not self.flying
                case Finish():
                    assert self.finished is None, "ended twice"
                    assert not queue, "something follows the end"
                    self.finished = action
        assert len(self.flying) <= self.limits.width
        assert set(machine.in_flight) == self.flying

    def fly(self, start: Start) -> None:
        self.flying.add(start.number)
        verdict = self.random.choice(self.verdicts)
        scope = self.random.choice(list(Scope))
        at = self.now + self.random.uniform(0.0, 15.0)
        if at > start.until:
            at, verdict, scope = start.until, Verdict.TRANSIENT, Scope.MODEL
        heapq.heappush(self.pending, (max(at, self.now), start.number, verdict, scope))

    def check_start(self, start: Start, *, may_be_early: bool) -> None:
        lane, limits = self.lanes[start.lane], self.limits
        assert self.finished is None, "started after the end"
        assert start.number == len(self.seen) + 1, "attempts are numbered from 1 without gaps"
        assert self.now <= start.until + SLACK
        assert start.until <= limits.deadline + SLACK, "longer than the deadline"
        assert start.until <= self.now + limits.attempt_timeout + SLACK, "longer than the attempt timeout"
        others = {self.lanes[self.seen[number].start.lane].route for number in self.flying}
        assert lane.route not in others, "a route twice in flight"
        before = [seen for seen in self.seen.values() if self.lanes[seen.start.lane].route == lane.route]
        asked_anew = bool(before) and before[-1].asked_again
        if start.early:
            assert may_be_early
            assert start.number == 1
            assert all(self.ready_at(other, self.now) > self.now for other in range(len(self.lanes)))
            assert self.cooldown.get(start.lane, 0.0) <= self.now, "probed a cooldown"
        elif not asked_anew:
            assert self.ready_at(start.lane, self.now) <= self.now, "started on a lane that rests"
        if start.purpose in FIRST_PASS:
            for seen in before:
                assert seen.start.lane != start.lane, "a lane twice in the first pass"
                moves_on = seen.denied or seen.asked_again or seen.scope in OF_A_KEY
                assert moves_on, "a route twice in the first pass"
        self.seen[start.number] = Seen(start, self.now)


@st.composite
def worlds(draw: st.DrawFn, modes: tuple[str, ...] = ("sequential", "hedged", "race")) -> World:
    routes = draw(st.lists(st.integers(1, 3), min_size=0, max_size=4))
    providers = [draw(st.sampled_from("pq")) for _ in routes]
    models = [draw(st.sampled_from("mn")) for _ in routes]
    lanes = [
        Lane(route, key, providers[route], models[route]) for route, keys in enumerate(routes) for key in range(keys)
    ]
    mode = draw(st.sampled_from(modes))
    limits = Limits(
        deadline=draw(st.floats(0.5, 120.0)),
        attempt_timeout=draw(st.floats(0.5, 40.0)),
        retries=draw(st.integers(0, 3)),
        width=1 if mode == "sequential" else draw(st.integers(2, 3)),
        delay={"sequential": None, "race": 0.0, "hedged": draw(st.sampled_from([None, 0.1, 1.0, 5.0]))}[mode],
        wait_when_exhausted=draw(st.booleans()),
    )
    verdicts = draw(st.lists(st.sampled_from(list(Verdict)), min_size=1, max_size=6))
    world = World(
        lanes,
        limits,
        draw(st.randoms(use_true_random=False)),
        verdicts,
        retries=draw(st.integers(0, 5)),
        hedges=draw(st.integers(0, 3)),
        denials=draw(st.sampled_from([0.0, 0.0, 0.3])),
    )
    for lane in range(len(lanes)):
        rests = draw(st.sampled_from(["no", "no", "cooldown", "breaker", "for ever"]))
        if rests != "no":
            place = world.breaker if rests == "breaker" else world.cooldown
            place[lane] = FOREVER if rests == "for ever" else draw(st.floats(0.1, 30.0))
    return world


@settings(max_examples=500, deadline=None)
@given(worlds())
def test_every_call_ends_once_within_its_bounds(world: World) -> None:
    """One end, nothing in flight after it, and no more attempts than lanes, retries and waits allow."""
    granted = world.retries
    machine = world.run()
    assert world.finished is not None
    assert machine.in_flight == ()
    assert not world.flying
    waits = world.waits if world.limits.wait_when_exhausted else 0
    assert len(world.seen) <= len(world.lanes) + world.limits.retries + waits + world.anew
    retried = [seen for seen in world.seen.values() if seen.start.purpose is Purpose.RETRY]
    assert len(retried) <= min(granted, world.limits.retries) + waits + world.anew
    hedges = [seen for seen in world.seen.values() if seen.start.purpose is Purpose.HEDGE]
    assert not hedges or world.limits.delay


@settings(max_examples=300, deadline=None)
@given(worlds())
def test_the_end_tells_what_happened(world: World) -> None:
    """`ok` and `fatal` name the attempt that said so; `cannot` means that every lane was ruled out by cannots alone."""
    world.run()
    assert world.finished is not None
    judged = [seen for seen in world.seen.values() if seen.verdict is not None]
    ended = [seen for seen in judged if seen.verdict in (Verdict.OK, Verdict.FATAL)]
    match world.finished:
        case Finish(End.OK | End.FATAL as end, number):
            assert number is not None
            verdict = world.seen[number].verdict
            assert verdict is not None
            assert verdict.value == end.value
            assert len(ended) == 1
        case Finish(End.CANNOT, number):
            assert number is not None
            assert world.seen[number].verdict is Verdict.CANNOT
            assert {seen.verdict for seen in judged} == {Verdict.CANNOT}
        case Finish(End.EXHAUSTED, _):
            assert not ended


@settings(max_examples=300, deadline=None)
@given(worlds(), st.sampled_from([Verdict.OK, Verdict.TRANSIENT]))
def test_late_news_of_a_call_that_is_over_moves_nothing(world: World, verdict: Verdict) -> None:
    machine = world.run()
    for number in [*world.seen, len(world.seen) + 1]:
        assert machine.on_verdict(number, verdict, Scope.MODEL, world.now) == []
        assert machine.on_denied(number, world.now) == []
    assert machine.on_wake(world.now + 1.0) == []
    assert machine.in_flight == ()


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=6),
    st.floats(0.1, 100.0),
    st.floats(0.1, 50.0),
    st.sampled_from([(1, None), (2, None), (2, 0.0), (3, 0.0)]),
)
def test_attempts_that_all_hang_still_reach_every_route(
    keys: list[int], deadline: float, timeout: float, width_and_delay: tuple[int, float | None]
) -> None:
    """The fair shares of one after the other never use up the deadline before the last route had its turn."""
    width, delay = width_and_delay
    lanes = [Lane(route, key, str(route), str(route)) for route, count in enumerate(keys) for key in range(count)]
    limits = Limits(deadline=deadline, attempt_timeout=timeout, retries=0, width=width, delay=delay)
    world = World(lanes, limits, Random(0), [Verdict.OK], 0, 0, 0.0)
    machine = Machine(lanes, limits, world, lambda: 0.0)
    actions = machine.begin(0.0)
    flying: list[Start] = []
    reached = set()
    while flying := [*flying, *(action for action in actions if isinstance(action, Start))]:
        reached |= {lanes[start.lane].route for start in flying}
        flying.sort(key=lambda start: start.until)
        first = flying.pop(0)
        actions = machine.on_verdict(first.number, Verdict.TRANSIENT, Scope.MODEL, first.until)
    assert len(reached) == len(keys)
