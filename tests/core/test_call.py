"""The machine of a call by tables: what happened, and what it does about it.

A lane is written as its route and the number of its key (`A1`), with a provider where it is not the route's own
(`A1@p`) and a model likewise (`A1:m`). The jitter is 0, so the backoff is 0.5, 1, 2 … 8 s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from shim._core.call import FOREVER, Action, Cancel, Finish, Lane, Limits, Machine, Start, Wait
from shim.events import Purpose, Scope, Verdict

Step = tuple[float, str, str]


@dataclass
class Shared:
    """Health as the table tells it: when lanes are ready, when probes are due, and what the budgets hold."""

    names: list[str]
    ready: dict[str, float] = field(default_factory=dict)
    firm: dict[str, float] = field(default_factory=dict)
    probes: dict[str, float] = field(default_factory=dict)
    retries: int = 100
    hedges: int = 100

    def ready_at(self, lane: int, now: float) -> float:
        return self.ready.get(self.names[lane], now)

    def retry_at(self, lane: int, now: float) -> float:
        return self.firm.get(self.names[lane], self.ready_at(lane, now))

    def probe_at(self, lane: int, now: float) -> float:
        return self.probes.get(self.names[lane], FOREVER)

    def take_retry(self) -> bool:
        self.retries -= 1
        return self.retries >= 0

    def take_hedge(self) -> bool:
        self.hedges -= 1
        return self.hedges >= 0


DEFAULTS = Limits()


def lanes_of(text: str) -> tuple[list[str], list[Lane]]:
    """The names and lanes of `A1 A2 B1:model@provider`."""
    names: list[str] = []
    lanes: list[Lane] = []
    routes: dict[str, int] = {}
    for word in text.split():
        head, _, provider = word.partition("@")
        name, _, model = head.partition(":")
        route = routes.setdefault(name[0], len(routes))
        names.append(name)
        lanes.append(Lane(route, int(name[1:]) - 1, provider or name[0], model or name[0]))
    return names, lanes


def told(actions: Sequence[Action], names: list[str]) -> str:
    """The actions in words."""
    words = []
    for action in actions:
        match action:
            case Start(number, lane, _, purpose, early):
                words.append(f"#{number} {purpose.value} {names[lane]}" + (" early" if early else ""))
            case Cancel(number):
                words.append(f"cancel #{number}")
            case Wait(until):
                words.append(f"wait {until:g}")
            case Finish(end, number, retry_at):
                back = f" back {retry_at:g}" if retry_at < FOREVER else ""
                words.append(f"finish {end.value}" + (f" #{number}" if number else "") + back)
    return ", ".join(words)


def feed(machine: Machine, now: float, event: str) -> list[Action]:
    """`begin`, `wake`, `#1 denied`, `#1 ok`, `#1 transient key`, `#1 cannot request again`."""
    if event == "begin":
        return machine.begin(now)
    if event == "wake":
        return machine.on_wake(now)
    number, verdict, *rest = event.lstrip("#").split()
    if verdict == "denied":
        return machine.on_denied(int(number), now)
    scope = Scope(rest[0]) if rest else Scope.MODEL
    return machine.on_verdict(int(number), Verdict(verdict), scope, now, again="again" in rest)


def row(
    name: str,
    lanes: str,
    *steps: Step,
    limits: Limits = DEFAULTS,
    **health: object,
) -> object:
    return pytest.param(lanes, limits, health, steps, id=name)


def hedged(**more: object) -> Limits:
    return Limits(**{"width": 2, "delay": 1.0, **more})  # type: ignore[arg-type]


def race(width: int = 2, **more: object) -> Limits:
    return Limits(width=width, delay=0.0, **more)  # type: ignore[arg-type]


NO_RETRY = Limits(retries=0)

SEQUENTIAL = [
    row("the first answer ends the call", "A1 B1", (0, "begin", "#1 first A1"), (1, "#1 ok", "finish ok #1")),
    row(
        "a transient failure goes to the next route, whose answer counts",
        "A1 B1",
        (0, "begin", "#1 first A1"),
        (1, "#1 transient", "#2 fallback B1"),
        (2, "#2 ok", "finish ok #2"),
    ),
    row(
        "a fatal verdict stops at once with that answer",
        "A1 B1",
        (0, "begin", "#1 first A1"),
        (1, "#1 fatal", "finish fatal #1"),
    ),
    row(
        "a fault of the key moves to the next key of the same route",
        "A1 A2 B1",
        (0, "begin", "#1 first A1"),
        (1, "#1 transient key", "#2 fallback A2"),
        (1, "#2 broken key", "#3 fallback B1"),
    ),
    row(
        "a fault of the key for this model moves to the next key",
        "A1 A2 B1",
        (0, "begin", "#1 first A1"),
        (1, "#1 transient key+model", "#2 fallback A2"),
    ),
    row(
        "a fault of the account moves to the next key, which may be of another account",
        "A1 A2 B1",
        (0, "begin", "#1 first A1"),
        (1, "#1 broken account", "#2 fallback A2"),
    ),
    row(
        "a fault of the model skips the other keys of the route",
        "A1 A2 B1",
        (0, "begin", "#1 first A1"),
        (1, "#1 transient model", "#2 fallback B1"),
    ),
    row(
        "a fault of the model leaves another route of the provider alone",
        "A1@p B1@p",
        (0, "begin", "#1 first A1"),
        (1, "#1 broken model", "#2 fallback B1"),
    ),
    row(
        "a fault of the provider skips all its routes",
        "A1@p B1@p C1@q",
        (0, "begin", "#1 first A1"),
        (1, "#1 transient provider", "#2 fallback C1"),
    ),
    row(
        "a broken provider is not retried either",
        "A1@p B1@p",
        (0, "begin", "#1 first A1"),
        (1, "#1 broken provider", "finish exhausted #1"),
    ),
    row(
        "a route that cannot serve this request hands over with all its keys",
        "A1 A2 B1",
        (0, "begin", "#1 first A1"),
        (1, "#1 cannot request", "#2 fallback B1"),
    ),
    row(
        "what is beyond the model is beyond all its hosts, another model is asked",
        "A1:m B1:m C1:n",
        (0, "begin", "#1 first A1"),
        (1, "#1 cannot model", "#2 fallback C1"),
    ),
    row(
        "what only this host cannot do another host of the model may",
        "A1:m B1:m C1:n",
        (0, "begin", "#1 first A1"),
        (1, "#1 cannot request", "#2 fallback B1"),
    ),
    row(
        "beyond the model at all hosts ends with that answer",
        "A1:m B1:m",
        (0, "begin", "#1 first A1"),
        (1, "#1 cannot model", "finish cannot #1"),
    ),
    row(
        "cannot everywhere ends with the last one's own answer and no retry",
        "A1 B1",
        (0, "begin", "#1 first A1"),
        (1, "#1 cannot request", "#2 fallback B1"),
        (2, "#2 cannot request", "finish cannot #2"),
    ),
    row(
        "cannot on the only route is its own answer",
        "A1",
        (0, "begin", "#1 first A1"),
        (1, "#1 cannot request", "finish cannot #1"),
    ),
    row(
        "cannot after a transient failure is exhausted",
        "A1 B1",
        (0, "begin", "#1 first A1"),
        (1, "#1 transient", "#2 fallback B1"),
        (2, "#2 cannot request", "finish exhausted #2 back 2"),
        limits=NO_RETRY,
    ),
    row(
        "cannot on the retry of what had failed otherwise is exhausted",
        "A1",
        (0, "begin", "#1 first A1"),
        (1, "#1 transient", "wait 1.5"),
        (1.5, "wake", "#2 retry A1"),
        (2, "#2 cannot request", "finish exhausted #2"),
    ),
    row(
        "cannot rules out the whole route, whatever its scope",
        "A1 A2 B1",
        (0, "begin", "#1 first A1"),
        (1, "#1 cannot key", "#2 fallback B1"),
    ),
    row(
        "cannot while another route is only resting is exhausted, for that one might",
        "A1 B1",
        (0, "begin", "#1 first A1"),
        (1, "#1 cannot request", "finish exhausted #1 back 900"),
        limits=Limits(deadline=60),
        ready={"B1": 900.0},
    ),
    row(
        "broken then cannot is exhausted",
        "A1 B1",
        (0, "begin", "#1 first A1"),
        (1, "#1 broken", "#2 fallback B1"),
        (2, "#2 cannot request", "finish exhausted #2"),
    ),
    row(
        "the same lane is asked once more at once when the request was written anew",
        "A1 B1",
        (0, "begin", "#1 first A1"),
        (1, "#1 cannot request again", "#2 retry A1"),
        (2, "#2 ok", "finish ok #2"),
        limits=NO_RETRY,
        retries=0,
    ),
    row(
        "asking anew does not happen beyond the deadline",
        "A1 B1",
        (0, "begin", "#1 first A1"),
        (10, "#1 transient request again", "finish exhausted #1 back 10"),
        limits=Limits(deadline=10),
    ),
    row("no lanes end at once with nobody's answer", "", (0, "begin", "finish exhausted")),
    row(
        "a lane that is not ready is passed by",
        "A1 B1",
        (0, "begin", "#1 first B1"),
        ready={"A1": 5.0},
    ),
    row(
        "a lane that becomes ready meanwhile has its turn after the others",
        "A1 B1",
        (0, "begin", "#1 first B1"),
        (6, "#1 transient", "#2 fallback A1"),
        ready={"A1": 5.0},
    ),
    row(
        "a denied lane is passed by and the next one begins",
        "A1 B1",
        (0, "begin", "#1 first A1"),
        (0, "#1 denied", "#2 fallback B1"),
    ),
    row(
        "a denied key leaves the next key of the route its turn",
        "A1 A2 B1",
        (0, "begin", "#1 first A1"),
        (0, "#1 denied", "#2 fallback A2"),
    ),
]

RETRIES = [
    row(
        "retries follow the first pass after a growing backoff, on the lane that is back first",
        "A1 B1",
        (0, "begin", "#1 first A1"),
        (1, "#1 transient", "#2 fallback B1"),
        (2, "#2 transient", "wait 2.5"),
        (2.5, "wake", "#3 retry A1"),
        (3, "#3 transient", "wait 4"),
        (4, "wake", "#4 retry A1"),
        (5, "#4 transient", "finish exhausted #4 back 5"),
    ),
    row(
        "a wake before its time is told to wait on",
        "A1",
        (0, "begin", "#1 first A1"),
        (1, "#1 transient", "wait 1.5"),
        (1.2, "wake", "wait 1.5"),
    ),
    row(
        "a retry waits for the cooldown of the lane that is back soonest",
        "A1 B1",
        (0, "begin", "#1 first A1"),
        (1, "ready A1 at 40, B1 at 20", ""),
        (1, "#1 transient", "wait 20"),
        (20, "ready B1 at 20", ""),
        (20, "wake", "#2 retry B1"),
    ),
    row(
        "a cooldown that ends before the backoff does not shorten it",
        "A1",
        (0, "begin", "#1 first A1"),
        (1, "ready A1 at 1.1", ""),
        (1, "#1 transient", "wait 1.5"),
    ),
    row(
        "a cooldown that reaches beyond the deadline is never slept for",
        "A1",
        (0, "begin", "#1 first A1"),
        (1, "ready A1 at 10", ""),
        (1, "#1 transient", "finish exhausted #1 back 10"),
        limits=Limits(deadline=10),
    ),
    row(
        "a backoff that reaches beyond the deadline is never slept for",
        "A1",
        (0, "begin", "#1 first A1"),
        (9.6, "#1 transient", "finish exhausted #1 back 9.6"),
        limits=Limits(deadline=10),
    ),
    row(
        "a backoff that ends inside the deadline is",
        "A1",
        (0, "begin", "#1 first A1"),
        (9.4, "#1 transient", "wait 9.9"),
        (9.9, "wake", "#2 retry A1"),
        limits=Limits(deadline=10),
    ),
    row(
        "no retry without leave of the budget",
        "A1",
        (0, "begin", "#1 first A1"),
        (1, "#1 transient", "wait 1.5"),
        (1.5, "wake", "finish exhausted #1 back 1.5"),
        retries=0,
    ),
    row(
        "zero retries end after the first pass",
        "A1 B1",
        (0, "begin", "#1 first A1"),
        (1, "#1 transient", "#2 fallback B1"),
        (2, "#2 transient", "finish exhausted #2 back 2"),
        limits=NO_RETRY,
    ),
    row(
        "a broken route is not retried, the sick one is",
        "A1 B1",
        (0, "begin", "#1 first A1"),
        (1, "#1 broken", "#2 fallback B1"),
        (2, "#2 transient", "wait 2.5"),
        (2.5, "wake", "#3 retry B1"),
    ),
    row(
        "a broken key is not retried, the other key of the route is",
        "A1 A2",
        (0, "begin", "#1 first A1"),
        (1, "#1 broken key", "#2 fallback A2"),
        (2, "#2 transient key", "wait 2.5"),
        (2.5, "wake", "#3 retry A2"),
    ),
    row(
        "all lanes resting at the start are waited for by a retry inside the deadline",
        "A1 B1",
        (0, "begin", "wait 5"),
        (5, "ready B1 at 5", ""),
        (5, "wake", "#1 first B1"),
        limits=Limits(deadline=60),
        ready={"A1": 9.0, "B1": 5.0},
    ),
    row(
        "all lanes resting at the start and no retry allowed is exhausted with the instant of return",
        "A1 B1",
        (0, "begin", "finish exhausted back 5"),
        limits=Limits(deadline=60, retries=0),
        ready={"A1": 9.0, "B1": 5.0},
    ),
    row(
        "a first attempt after a rest takes nothing from the budget",
        "A1",
        (0, "begin", "wait 5"),
        (5, "wake", "#1 first A1"),
        ready={"A1": 5.0},
        retries=0,
    ),
    row(
        "a retry of lanes that are all ready goes to the first, however long the others have been so",
        "A1 B1",
        (4, "begin", "#1 first A1"),
        (4, "#1 transient", "#2 fallback B1"),
        (4, "#2 transient", "wait 4.5"),
        (4.5, "wake", "#3 retry A1"),
        ready={"A1": 3.0, "B1": 2.0},
    ),
    row(
        "a return that nobody can foresee is not waited for",
        "A1",
        (0, "begin", "finish exhausted"),
        ready={"A1": FOREVER},
    ),
    row(
        "a denied only lane is tried again after the backoff",
        "A1",
        (0, "begin", "#1 first A1"),
        (0, "#1 denied", "wait 0.5"),
        (0.5, "wake", "#2 retry A1"),
    ),
]

WAITING = [
    row(
        "waiting for a cooldown spends no retry",
        "A1",
        (0, "begin", "#1 first A1"),
        (1, "ready A1 at 20", ""),
        (1, "#1 transient", "wait 20"),
        (20, "ready A1 at 20", ""),
        (20, "wake", "#2 retry A1"),
        (21, "ready A1 at 50", ""),
        (21, "#2 transient", "wait 50"),
        (50, "wake", "#3 retry A1"),
        (51, "ready A1 at 51", ""),
        (51, "#3 transient", "wait 51.5"),
        (51.5, "wake", "#4 retry A1"),
        (52, "#4 ok", "finish ok #4"),
        limits=Limits(deadline=100, retries=0, wait_when_exhausted=True),
        retries=0,
    ),
    row(
        "an early wake in a wait for a cooldown does not make it cost a retry",
        "A1",
        (0, "begin", "#1 first A1"),
        (1, "ready A1 at 20", ""),
        (1, "#1 transient", "wait 20"),
        (10, "ready A1 at 5", ""),
        (10, "wake", "wait 20"),
        (20, "wake", "#2 retry A1"),
        limits=Limits(deadline=100, retries=0, wait_when_exhausted=True),
        retries=0,
    ),
    row(
        "waiting never goes beyond the deadline",
        "A1",
        (0, "begin", "#1 first A1"),
        (1, "ready A1 at 100", ""),
        (1, "#1 transient", "finish exhausted #1 back 100"),
        limits=Limits(deadline=100, wait_when_exhausted=True),
    ),
    row(
        "everything resting at the start is waited for",
        "A1 B1",
        (0, "begin", "wait 30"),
        (30, "wake", "#1 first B1"),
        limits=Limits(deadline=100, retries=0, wait_when_exhausted=True),
        ready={"A1": 40.0, "B1": 30.0},
        retries=0,
    ),
    row(
        "a lane that another call took meanwhile is waited for once more",
        "A1",
        (0, "begin", "wait 30"),
        (30, "ready A1 at 35", ""),
        (30, "wake", "wait 35"),
        (35, "wake", "#1 first A1"),
        limits=Limits(deadline=100, retries=0, wait_when_exhausted=True),
        ready={"A1": 30.0},
    ),
    row(
        "who waits goes on after the last retry, a backoff apart, until the deadline",
        "A1",
        (0, "begin", "#1 first A1"),
        (1, "#1 transient", "wait 1.5"),
        (1.5, "wake", "#2 retry A1"),
        (2, "#2 transient", "wait 3"),
        (3, "wake", "#3 retry A1"),
        (3.5, "#3 transient", "finish exhausted #3 back 3.5"),
        limits=Limits(deadline=4, retries=1, wait_when_exhausted=True),
    ),
    row(
        "a cooldown that was only guessed does not hold up a retry",
        "A1",
        (0, "begin", "#1 first A1"),
        (1, "ready A1 at 11", ""),
        (1, "firm A1 at 0", ""),
        (1, "#1 transient", "wait 1.5"),
        (1.5, "wake", "#2 retry A1 early"),
        limits=Limits(deadline=100, retries=1),
    ),
]

ALL_OPEN = [
    row(
        "with every breaker open the one due soonest gets one early probe",
        "A1 B1",
        (0, "begin", "#1 first B1 early"),
        (1, "#1 ok", "finish ok #1"),
        ready={"A1": 9.0, "B1": 5.0},
        probes={"A1": 9.0, "B1": 5.0},
    ),
    row(
        "the probe is one: when it fails the others stay unseen",
        "A1 B1",
        (0, "begin", "#1 first B1 early"),
        (1, "#1 transient", "finish exhausted #1 back 5"),
        ready={"A1": 9.0, "B1": 5.0},
        probes={"A1": 9.0, "B1": 5.0},
        limits=NO_RETRY,
    ),
    row(
        "a told cooldown is never probed, the later breaker is",
        "A1 B1",
        (0, "begin", "#1 first A1 early"),
        ready={"A1": 9.0, "B1": 5.0},
        probes={"A1": 9.0},
    ),
    row(
        "told cooldowns everywhere are not probed at all",
        "A1 B1",
        (0, "begin", "finish exhausted back 5"),
        ready={"A1": 9.0, "B1": 5.0},
        limits=NO_RETRY,
    ),
    row(
        "nothing is probed early while one lane is ready",
        "A1 B1",
        (0, "begin", "#1 first B1"),
        ready={"A1": 9.0},
        probes={"A1": 9.0},
    ),
    row(
        "a race probes one breaker early and no second",
        "A1 B1",
        (0, "begin", "#1 first A1 early"),
        ready={"A1": 5.0, "B1": 9.0},
        probes={"A1": 5.0, "B1": 9.0},
        limits=race(),
    ),
]

HEDGED = [
    row(
        "a hedge starts after the delay and its answer cancels the first",
        "A1 B1",
        (0, "begin", "#1 first A1, wait 1"),
        (1, "wake", "#2 hedge B1"),
        (2, "#2 ok", "cancel #1, finish ok #2"),
    ),
    row(
        "no hedge before the delay",
        "A1 B1",
        (0, "begin", "#1 first A1, wait 1"),
        (0.5, "wake", "wait 1"),
    ),
    row(
        "no hedge on a lane that is not ready",
        "A1 B1",
        (0, "begin", "#1 first A1, wait 1"),
        (1, "wake", ""),
        (2, "#1 ok", "finish ok #1"),
        ready={"B1": 9.0},
    ),
    row(
        "no hedge without leave of the budget",
        "A1 B1",
        (0, "begin", "#1 first A1, wait 1"),
        (1, "wake", ""),
        hedges=0,
    ),
    row(
        "no hedge on another key of the route in flight",
        "A1 A2",
        (0, "begin", "#1 first A1, wait 1"),
        (1, "wake", ""),
    ),
    row(
        "a failure before the delay falls back at once and the delay starts anew",
        "A1 B1 C1",
        (0, "begin", "#1 first A1, wait 1"),
        (0.5, "#1 transient", "#2 fallback B1, wait 1.5"),
        (1.5, "wake", "#3 hedge C1"),
    ),
    row(
        "a hedge that fails leaves the first in flight",
        "A1 B1",
        (0, "begin", "#1 first A1, wait 1"),
        (1, "wake", "#2 hedge B1"),
        (1.5, "#2 transient", "wait 2"),
        (2, "wake", ""),
        (3, "#1 ok", "finish ok #1"),
    ),
    row(
        "a width of three adds one hedge per delay",
        "A1 B1 C1",
        (0, "begin", "#1 first A1, wait 1"),
        (1, "wake", "#2 hedge B1, wait 2"),
        (2, "wake", "#3 hedge C1"),
        limits=hedged(width=3),
    ),
    row(
        "without a delay there is no hedge",
        "A1 B1",
        (0, "begin", "#1 first A1"),
        (9, "wake", ""),
        limits=hedged(delay=None),
    ),
    row(
        "a denied hedge leaves the first in flight",
        "A1 B1",
        (0, "begin", "#1 first A1, wait 1"),
        (1, "wake", "#2 hedge B1"),
        (1, "#2 denied", "wait 2"),
    ),
]

RACE = [
    row(
        "a race starts as many as its width at once",
        "A1 B1 C1",
        (0, "begin", "#1 first A1, #2 race B1"),
        (1, "#2 ok", "cancel #1, finish ok #2"),
    ),
    row(
        "a loser that fails is replaced, and the winner cancels the others",
        "A1 B1 C1",
        (0, "begin", "#1 first A1, #2 race B1"),
        (1, "#1 transient", "#3 fallback C1"),
        (2, "#3 ok", "cancel #2, finish ok #3"),
    ),
    row(
        "a race never runs two keys of one route",
        "A1 A2 B1",
        (0, "begin", "#1 first A1, #2 race B1"),
        limits=race(3),
    ),
    row(
        "a race starts only what is ready",
        "A1 B1 C1",
        (0, "begin", "#1 first A1, #2 race C1"),
        ready={"B1": 5.0},
    ),
    row(
        "a fatal verdict ends a race at once",
        "A1 B1",
        (0, "begin", "#1 first A1, #2 race B1"),
        (1, "#1 fatal", "cancel #2, finish fatal #1"),
    ),
    row(
        "a race goes on to retries one by one when all have failed",
        "A1 B1",
        (0, "begin", "#1 first A1, #2 race B1"),
        (1, "#1 transient", ""),
        (2, "#2 transient", "wait 2.5"),
        (2.5, "wake", "#3 retry A1"),
    ),
    row(
        "cannot by all racers is the last one's own answer",
        "A1 B1",
        (0, "begin", "#1 first A1, #2 race B1"),
        (1, "#2 cannot request", ""),
        (2, "#1 cannot request", "finish cannot #1"),
    ),
    row(
        "a denied racer is replaced",
        "A1 B1 C1",
        (0, "begin", "#1 first A1, #2 race B1"),
        (0, "#2 denied", "#3 fallback C1"),
    ),
]

DEADLINE = [
    row(
        "the deadline cancels what is in flight",
        "A1 B1",
        (0, "begin", "#1 first A1"),
        (10, "wake", "cancel #1, finish exhausted back 10"),
        limits=Limits(deadline=10),
    ),
    row(
        "the deadline of a race cancels all and names the last that was judged",
        "A1 B1 C1",
        (0, "begin", "#1 first A1, #2 race B1, wait 10"),
        (1, "#1 transient", "#3 fallback C1, wait 10"),
        (10, "wake", "cancel #2, cancel #3, finish exhausted #1 back 10"),
        limits=race(deadline=10),
    ),
    row(
        "the deadline tells when the soonest lane is back",
        "A1 B1",
        (0, "begin", "#1 first A1"),
        (3, "ready A1 at 80, B1 at 70", ""),
        (10, "wake", "cancel #1, finish exhausted back 70"),
        limits=Limits(deadline=10),
    ),
    row(
        "a failure at the deadline starts nothing more",
        "A1 B1",
        (0, "begin", "#1 first A1"),
        (10, "#1 transient", "finish exhausted #1 back 10"),
        limits=Limits(deadline=10),
    ),
    row(
        "an answer at the deadline still counts",
        "A1",
        (0, "begin", "#1 first A1"),
        (10, "#1 ok", "finish ok #1"),
        limits=Limits(deadline=10),
    ),
    row(
        "a hedge is due before the deadline",
        "A1 B1",
        (0, "begin", "#1 first A1, wait 1"),
        (1, "wake", "#2 hedge B1, wait 10"),
        limits=hedged(deadline=10),
    ),
]


def play(lanes: str, limits: Limits, health: Mapping[str, object], steps: Sequence[Step]) -> None:
    names, all_lanes = lanes_of(lanes)
    shared = Shared(names, **health)  # type: ignore[arg-type]
    machine = Machine(all_lanes, limits, shared, lambda: 0.0)
    for now, event, expected in steps:
        word, _, rest = event.partition(" ")
        if word in ("ready", "firm"):
            for part in rest.split(", "):
                name, _, at = part.partition(" at ")
                getattr(shared, word)[name] = float(at)
            continue
        assert told(feed(machine, now, event), names) == expected, f"at {now}, after {event}"


@pytest.mark.parametrize(
    ("lanes", "limits", "health", "steps"), [*SEQUENTIAL, *RETRIES, *WAITING, *ALL_OPEN, *DEADLINE]
)
def test_sequential(lanes: str, limits: Limits, health: Mapping[str, object], steps: Sequence[Step]) -> None:
    play(lanes, limits, health, steps)


@pytest.mark.parametrize(("lanes", "limits", "health", "steps"), HEDGED)
def test_hedged(lanes: str, limits: Limits, health: Mapping[str, object], steps: Sequence[Step]) -> None:
    play(lanes, hedged() if limits is DEFAULTS else limits, health, steps)


@pytest.mark.parametrize(("lanes", "limits", "health", "steps"), RACE)
def test_race(lanes: str, limits: Limits, health: Mapping[str, object], steps: Sequence[Step]) -> None:
    play(lanes, race() if limits is DEFAULTS else limits, health, steps)


SHARES = [
    ("two routes have half each", "A1 B1", Limits(deadline=10), [5, 10]),
    ("three routes have a third of what is left each", "A1 B1 C1", Limits(deadline=9), [3, 6, 9]),
    ("the only route has everything", "A1", Limits(deadline=10), [10]),
    ("the attempt timeout is the most", "A1 B1", Limits(deadline=100, attempt_timeout=30), [30, 60]),
    ("the attempt timeout is the most without a deadline", "A1", Limits(attempt_timeout=30), [30]),
    ("the keys of a route share its share", "A1 A2 B1", Limits(deadline=10), [5, 10]),
    ("a hedged call without a figure for its delay shares too", "A1 B1", hedged(deadline=10, delay=None), [5, 10]),
]


@pytest.mark.parametrize(("lanes", "limits", "untils"), [s[1:] for s in SHARES], ids=[s[0] for s in SHARES])
def test_each_attempt_has_its_fair_share_of_the_deadline(lanes: str, limits: Limits, untils: list[float]) -> None:
    """Every attempt hangs until its own limit; each route is reached all the same."""
    names, all_lanes = lanes_of(lanes)
    machine = Machine(all_lanes, limits, Shared(names), lambda: 0.0)
    actions, seen = machine.begin(0.0), []
    while starts := [a for a in actions if isinstance(a, Start)]:
        assert len(starts) == 1
        if starts[0].purpose is Purpose.RETRY:
            break
        seen.append(starts[0].until)
        actions = machine.on_verdict(starts[0].number, Verdict.TRANSIENT, Scope.MODEL, starts[0].until)
    assert seen == pytest.approx(untils)


def test_a_route_that_is_resting_has_no_share() -> None:
    names, lanes = lanes_of("A1 B1")
    machine = Machine(lanes, Limits(deadline=10), Shared(names, ready={"B1": 99.0}))
    assert machine.begin(0.0)[0] == Start(1, 0, 10.0, Purpose.FIRST)


def test_a_route_that_cannot_has_no_share() -> None:
    names, lanes = lanes_of("A1@p B1@q C1@p")
    machine = Machine(lanes, Limits(deadline=12), Shared(names))
    assert machine.begin(0.0)[0] == Start(1, 0, 4.0, Purpose.FIRST)
    assert machine.on_verdict(1, Verdict.BROKEN, Scope.PROVIDER, 2.0)[0] == Start(2, 1, 12.0, Purpose.FALLBACK)


def test_a_route_whose_model_cannot_has_no_share() -> None:
    names, lanes = lanes_of("A1:m B1:n C1:m")
    machine = Machine(lanes, Limits(deadline=12), Shared(names))
    machine.begin(0.0)
    assert machine.on_verdict(1, Verdict.CANNOT, Scope.MODEL, 2.0)[0] == Start(2, 1, 12.0, Purpose.FALLBACK)


RACERS = [
    ("racers that fill the width share nothing", "A1 B1", 2, [10, 10]),
    ("a route that waits for a racer to fail is reached", "A1 B1 C1", 2, [5, 10]),
    ("three at once need no share", "A1 B1 C1", 3, [10, 10, 10]),
]


@pytest.mark.parametrize(("lanes", "width", "untils"), [r[1:] for r in RACERS], ids=[r[0] for r in RACERS])
def test_racers_leave_time_for_the_routes_behind_them(lanes: str, width: int, untils: list[float]) -> None:
    names, all_lanes = lanes_of(lanes)
    actions = Machine(all_lanes, race(width, deadline=10), Shared(names)).begin(0.0)
    assert [a.until for a in actions if isinstance(a, Start)] == untils


@pytest.mark.parametrize(("jitter", "waits"), [(0.0, [0.5, 1, 2, 4, 8, 8]), (1.0, [0.375, 0.75, 1.5, 3, 6, 6])])
def test_the_backoff_doubles_to_its_cap_and_jitter_only_shortens_it(jitter: float, waits: list[float]) -> None:
    machine = Machine([Lane(0, 0, "p")], Limits(retries=9), Shared(["A1"]), lambda: jitter)
    machine.begin(0.0)
    seen, now = [], 0.0
    for number in range(1, 7):
        (wait,) = machine.on_verdict(number, Verdict.TRANSIENT, Scope.MODEL, now)
        assert isinstance(wait, Wait)
        seen.append(wait.until - now)
        now = wait.until
        machine.on_wake(now)
    assert seen == pytest.approx(waits)


@pytest.mark.parametrize("end", [Verdict.OK, Verdict.FATAL])
def test_nothing_happens_after_the_end(end: Verdict) -> None:
    names, lanes = lanes_of("A1 B1 C1")
    machine = Machine(lanes, race(), Shared(names))
    machine.begin(0.0)
    machine.on_verdict(1, end, Scope.MODEL, 1.0)
    assert machine.in_flight == ()
    assert machine.on_verdict(2, Verdict.OK, Scope.MODEL, 2.0) == []
    assert machine.on_denied(2, 2.0) == []
    assert machine.on_wake(3.0) == []


def test_an_attempt_is_judged_once() -> None:
    names, lanes = lanes_of("A1 B1")
    machine = Machine(lanes, Limits(), Shared(names))
    machine.begin(0.0)
    machine.on_verdict(1, Verdict.TRANSIENT, Scope.MODEL, 1.0)
    assert machine.on_verdict(1, Verdict.OK, Scope.MODEL, 1.0) == []
    assert machine.in_flight == (2,)


def test_a_hedge_that_finds_no_lane_takes_nothing_from_the_budget() -> None:
    shared = Shared(["A1"], hedges=1)
    machine = Machine([Lane(0, 0, "p")], hedged(), shared)
    machine.begin(0.0)
    machine.on_wake(1.0)
    assert shared.hedges == 1
