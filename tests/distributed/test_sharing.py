"""What workers tell one another: pauses in, pauses out, shares of concurrency; losing it costs nothing else."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from shim._run.system import SystemClock
from shim.embed.lanes import Lane
from shim.embed.limits import Limits
from shim.embed.pace import Pace
from shim.embed.redis_sharing import RedisSharing, Told
from shim.embed.sharing import Pause, heed, tell, tell_pace
from shim.embed.trouble import Failure, Trouble

PATIENCE = 5.0


@dataclass
class Others:
    """A `Sharing` that says what the test says, and notes what it is told."""

    share: int = 8
    heard: dict[str, Pause] = field(default_factory=dict)
    told: list[tuple[str, float, bool]] = field(default_factory=list)

    def pauses(self) -> Mapping[str, Pause]:
        return self.heard

    def pause(self, route: str, seconds: float, reason: str, *, is_told: bool) -> None:
        self.told.append((route, round(seconds, 3), is_told))

    def most(self) -> int:
        return self.share


def _lane(paused_until: float = 0.0, *, is_told: bool = False) -> Lane:
    lane = Lane("a/m", 1, 1.0, Limits(), 8)
    lane.paused_until, lane.pause_is_told = paused_until, is_told
    return lane


# -- in


@pytest.mark.parametrize(
    ("own", "others", "now", "rests_until"),
    [
        (0.0, 30.0, 10.0, 30.0),
        (40.0, 30.0, 10.0, 40.0),
        (0.0, 5.0, 10.0, 0.0),
        (20.0, 30.0, 10.0, 30.0),
    ],
    ids=["a pause of another", "its own is longer", "over already", "the other's is longer"],
)
def test_a_lane_rests_as_long_as_any_worker_was_told(own: float, others: float, now: float, rests_until: float) -> None:
    lane = _lane(own)
    heed(Others(heard={"a/m": Pause(others, "slow down", True)}), [lane], now)
    assert lane.paused_until == rests_until
    if rests_until == others:
        assert (lane.pause_is_told, lane.trouble) == (True, "slow down")


def test_a_pause_of_another_route_is_none_of_ours() -> None:
    lane = _lane()
    heed(Others(heard={"b/m": Pause(99.0, "slow down", True)}), [lane], 0.0)
    assert not lane.is_held(0.0)


@pytest.mark.parametrize(("share", "window"), [(2, 2.0), (8, 4.0)], ids=["smaller than in flight", "room to grow"])
def test_a_lane_takes_no_more_than_the_share(share: int, window: float) -> None:
    lane = _lane()
    heed(Others(share), [lane], 0.0)
    assert (lane.most, lane.window) == (share, window)


# -- out


@pytest.mark.parametrize(
    ("trouble", "paused_until", "told"),
    [
        (Trouble.LIMITED, 30.0, [("a/m", 20.0, True)]),
        (Trouble.BARRED, 30.0, [("a/m", 20.0, True)]),
        (Trouble.DOWN, 30.0, []),
        (Trouble.BROKEN, 30.0, []),
        (Trouble.SPOILT, 30.0, []),
        (Trouble.LIMITED, 10.0, []),
    ],
    ids=[
        "rate limit",
        "open breaker",
        "one odd answer",
        "a key that is wrong here",
        "a bad vector",
        "nothing to wait for",
    ],
)
def test_only_what_all_would_meet_is_told(trouble: Trouble, paused_until: float, told: list[Any]) -> None:
    others = Others()
    tell(others, [_lane(paused_until, is_told=True)], "a/m", Failure(trouble, "r", "message", 429), 10.0)
    assert others.told == told


def test_a_route_that_is_out_here_is_not_told() -> None:
    others, lane = Others(), _lane(30.0)
    lane.is_out = True
    tell(others, [lane], "a/m", Failure(Trouble.BARRED, "r", "message", None), 10.0)
    assert others.told == []


@pytest.mark.parametrize(
    ("paused_until", "is_told", "told"),
    [(12.0, True, [("a/m", 2.0, True)]), (12.0, False, []), (9.0, True, [])],
    ids=["headers ask for rest", "its own backing off", "over"],
)
def test_rest_that_headers_ask_for_is_told(paused_until: float, is_told: bool, told: list[Any]) -> None:
    others = Others()
    tell_pace(others, [_lane(paused_until, is_told=is_told)], "a/m", 10.0)
    assert others.told == told


# -- between processes


@dataclass
class Hall:
    """Where workers meet: what Redis is to them, in memory. `is_away` makes every exchange fail."""

    alive: set[str] = field(default_factory=set)
    pauses: dict[str, Told] = field(default_factory=dict)
    is_away: bool = False
    met: threading.Condition = field(default_factory=threading.Condition)
    exchanges: int = 0

    def exchange(self, members: Sequence[str], told: Sequence[Told]) -> tuple[int, Sequence[Told]]:
        with self.met:
            self.exchanges += 1
            self.met.notify_all()
            if self.is_away:
                raise ConnectionError("nobody is there")
            self.alive.update(members)
            self.pauses.update((one[0], one) for one in told)
            return len(self.alive), list(self.pauses.values())

    def wait(self, count: int) -> None:
        with self.met:
            assert self.met.wait_for(lambda: self.exchanges >= count, PATIENCE)


@pytest.fixture
def hall() -> Hall:
    return Hall()


@pytest.fixture
def enter(hall: Hall) -> Iterator[Callable[[str], RedisSharing]]:
    made: list[RedisSharing] = []

    def enter(name: str) -> RedisSharing:
        made.append(RedisSharing(hall.exchange, 12, 3, SystemClock(), name, every=0.02))
        return made[-1]

    yield enter
    for one in made:
        one.close()


def _until(holds: Callable[[], bool], hall: Hall) -> None:
    """Wait for it, exchange by exchange."""
    for _ in range(40):
        if holds():
            return
        hall.wait(hall.exchanges + 1)
    raise AssertionError("it never came about")


def test_concurrency_is_divided_among_those_who_are_there(hall: Hall, enter: Callable[[str], RedisSharing]) -> None:
    one, two = enter("one"), enter("two")
    assert one.most() == 4, "as configured, until it is heard how many there are"
    one.join()
    assert one.most() == 12
    two.join()
    assert two.most() == 6
    _until(lambda: one.most() == 6, hall)
    two.join()
    assert _until(lambda: one.most() == 4, hall) is None, "two callers in one process are two"


def test_a_pause_of_one_is_heard_by_all_and_not_echoed(hall: Hall, enter: Callable[[str], RedisSharing]) -> None:
    one, two = enter("one"), enter("two")
    one.join()
    two.join()
    one.pause("a/m", 60.0, "slow down", is_told=True)
    _until(lambda: "a/m" in two.pauses(), hall)
    heard = two.pauses()["a/m"]
    assert heard.reason == "slow down"
    assert 50.0 < heard.until - SystemClock().now() <= 60.0
    before = hall.pauses["a/m"]
    two.pause("a/m", 60.0, "an echo", is_told=True)
    hall.wait(hall.exchanges + 3)
    assert hall.pauses["a/m"] is before


def test_without_anyone_there_each_keeps_to_its_part_and_says_so_once(
    hall: Hall, enter: Callable[[str], RedisSharing], caplog: pytest.LogCaptureFixture
) -> None:
    hall.is_away = True
    one = enter("one")
    with caplog.at_level(logging.WARNING, "shim"):
        one.join()
        hall.wait(3)
    assert one.most() == 4
    assert [record.message for record in caplog.records] == [
        "sharing through Redis does not work (ConnectionError: nobody is there): "
        "until it does, each of 3 workers keeps to its own part"
    ]
    hall.is_away = False
    _until(lambda: one.most() == 12, hall)


def test_who_has_nothing_to_do_is_silent(hall: Hall, enter: Callable[[str], RedisSharing]) -> None:
    one = enter("one")
    member = one.join()
    one.leave(member)
    hall.wait(1)
    with hall.met:
        settled = hall.exchanges
        assert not hall.met.wait_for(lambda: hall.exchanges > settled + 1, 0.2)


# -- requests a second


class StillClock:
    """A clock that moves when somebody waits on it."""

    def __init__(self) -> None:
        self.at, self.waits = 100.0, list[float]()

    def now(self) -> float:
        return self.at

    wall = now

    def jitter(self) -> float:
        return 0.5

    def wait(self, seconds: float) -> None:
        self.waits.append(round(seconds, 6))
        self.at += seconds

    async def async_wait(self, seconds: float) -> None:
        self.wait(seconds)


def test_requests_to_a_route_are_spaced_and_routes_do_not_wait_for_one_another() -> None:
    clock, sent = StillClock(), list[tuple[float, str]]()
    pace = Pace(lambda body, headers: sent.append((round(clock.at, 3), headers["x-shim-route"])), lambda: 0.5, clock)
    for route in ("a", "a", "b", "a"):
        pace({}, {"x-shim-route": route})
    assert sent == [(100.0, "a"), (100.5, "a"), (100.5, "b"), (101.0, "a")]
    clock.at = 200.0
    pace({}, {"x-shim-route": "a"})
    assert sent[-1] == (200.0, "a"), "what was not used is not made up for"
    assert clock.waits == [0.5, 0.5]
