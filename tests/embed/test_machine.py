"""The machine by histories: what was sent, how it ended, what follows. No clock, no network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shim.embed.batches import Item
from shim.embed.cells import ErrorKind
from shim.embed.lanes import Allowance, Lane
from shim.embed.limits import Limits
from shim.embed.machine import LONGEST_TOLD_PAUSE, Machine, Rules, Send, StopReason
from shim.embed.trouble import Failure, Trouble

REFUSED = Failure(Trouble.REFUSED, "bad_request", "the input is bad", 400)
DOWN = Failure(Trouble.DOWN, "server_error", "it is down", 503)
ITS_500 = Failure(Trouble.DOWN, "server_error", "boom", 500)
SPOILT = Failure(Trouble.SPOILT, "null_vector", "row 3 is null", 200)
LIMITED = Failure(Trouble.LIMITED, "rate_limit", "slow down", 429, retry_in=2.0)
TOO_LONG = Failure(Trouble.UNSUITABLE, "context_too_long", "too long", 400)
UNABLE = Failure(Trouble.UNABLE, "wrong_length", "it gives 64 numbers", 200)
BROKEN = Failure(Trouble.BROKEN, "bad_key", "the key is wrong", 401)


def _barred(seconds: float | None) -> Failure:
    return Failure(Trouble.BARRED, "barred", "the breaker is open", None, retry_in=seconds)


def _items(count: int, tokens: int = 10) -> list[Item]:
    return [Item(b"%04d" % number, f"text {number}", tokens) for number in range(count)]


def _lane(name: str = "a/m", tier: int = 1, inputs: int = 4, **rest: Any) -> Lane:
    most = rest.pop("most", 4)
    return Lane(name, tier, rest.pop("weight", 1.0), rest.pop("limits", Limits(inputs)), most, rest.pop("price", None))


def _machine(*lanes: Lane, items: int = 8, **rules: Any) -> Machine:
    machine = Machine(list(lanes or (_lane(),)), Rules(**rules), 0.0)
    machine.add(_items(items))
    return machine


def _texts(sends: Sequence[Send]) -> list[int]:
    return [len(send.batch.items) for send in sends]


def test_batches_are_as_large_as_the_route_takes() -> None:
    assert _texts(_machine(items=10).dispatch(0.0)) == [4, 4, 2]


def test_a_request_holds_no_more_tokens_than_the_route_takes() -> None:
    machine = _machine(_lane(limits=Limits(100, request_tokens=25)), items=5)
    assert _texts(machine.dispatch(0.0)) == [2, 2, 1]


def test_never_more_in_flight_than_allowed() -> None:
    machine = _machine(_lane(most=2), items=40)
    sends = machine.dispatch(0.0)
    assert len(sends) == 2
    assert machine.dispatch(0.0) == []
    machine.succeeded(sends[0], 40, None, 1.0)
    assert len(machine.dispatch(1.0)) == 1


def test_more_go_out_together_while_all_is_well() -> None:
    machine, most = _machine(_lane(most=8, inputs=1), items=200), 0
    for now in range(60):
        for send in machine.dispatch(now):
            machine.succeeded(send, 1, None, now)
        most = int(machine.lanes[0].window)
    assert most == 8


def test_a_rate_limit_halves_what_is_in_flight_and_waits_as_told() -> None:
    machine = _machine(items=40)
    sends = machine.dispatch(0.0)
    for send in sends:  # four meet the same limit: it counts once
        assert machine.failed(send, LIMITED, 1.0, 0.5) == []
    assert int(machine.lanes[0].window) == 2
    assert machine.dispatch(2.9) == []
    assert machine.wake_at(2.9) == 3.0
    assert machine.waits_for(2.9) == (3.0, "a/m: slow down")
    assert len(machine.dispatch(3.0)) == 2


def test_a_rate_limit_costs_no_tries() -> None:
    machine, now = _machine(items=1), 0.0
    for _ in range(50):
        (send,) = machine.dispatch(now)
        machine.failed(send, LIMITED, now, 0.5)
        now += 2.0
    (send,) = machine.dispatch(now)
    assert send.batch.tries == 0


def test_a_refused_batch_is_halved_until_the_bad_row_is_found() -> None:
    machine = _machine(items=4)
    lost, requests = _play(machine, lambda send: REFUSED if _has(send, 2) else None)
    assert [(one.item.text, one.error.kind) for one in lost] == [("text 2", ErrorKind.REJECTED)]
    assert lost[0].error.route == "a/m"
    assert lost[0].error.attempts == 3
    assert requests == 5  # all, then halves of the bad half: 4, 2, 2, 1, 1


def test_a_null_vector_is_tried_again_before_the_batch_is_halved() -> None:
    machine = _machine(items=8)
    lost, requests = _play(machine, lambda send: SPOILT if _has(send, 6) else None)
    assert [(one.item.text, one.error.kind) for one in lost] == [("text 6", ErrorKind.BAD_VECTOR)]
    assert requests <= 1 + 2 + 2 + 5 + 1


@pytest.mark.parametrize(("fault", "seconds"), [(SPOILT, 1.0), (ITS_500, 15.0)], ids=["no vector", "500"])
def test_looking_for_bad_rows_holds_up_nobody(fault: Failure, seconds: float) -> None:
    """Ten texts of a thousand are at fault; the route is well, and is not left alone for each of them."""
    machine = _machine(_lane(inputs=64), items=1000)
    bad = [f"text {number}" for number in range(7, 1000, 100)]
    paused = []

    def answer(send: Send) -> Failure | None:
        paused.append(machine.lanes[0].paused_until)
        return fault if any(item.text in bad for item in send.batch.items) else None

    lost, _ = _play(machine, answer)
    assert sorted(one.item.text for one in lost) == sorted(bad)
    assert max(paused) < seconds


def test_a_route_that_gets_nothing_right_is_asked_ever_less() -> None:
    """Answers come, and none has a good vector: they are paid for all the same."""
    machine = _machine(_lane(inputs=64), items=1000, patience=60)
    lost, requests = _play(machine, lambda send: SPOILT)
    assert lost == []
    assert machine.stopped is StopReason.NO_ROUTE
    assert requests < 100


def test_a_route_that_gets_nothing_right_is_left_after_a_few_texts() -> None:
    machine = _machine(_lane(inputs=1, most=1), items=64)
    lost, requests = _play(machine, lambda send: SPOILT)
    assert len(lost) == 20
    assert machine.stopped is StopReason.NO_ROUTE
    assert machine.stop_message == "each of the first 20 texts got no good vector: row 3 is null"
    assert requests == 100


@pytest.mark.parametrize("fault", [SPOILT, ITS_500], ids=["no vector", "500"])
def test_every_batch_may_have_a_bad_row(fault: Failure) -> None:
    """None goes whole, so that nothing shows that the route is well: the parts do."""
    machine = _machine(_lane(inputs=50), items=200)
    bad = [f"text {number}" for number in (5, 77, 78, 120, 160)]
    lost, requests = _play(machine, lambda send: fault if any(i.text in bad for i in send.batch.items) else None)
    assert sorted(one.item.text for one in lost) == sorted(bad)
    assert machine.stopped is None
    assert requests < 150


def test_an_outage_that_answers_500_gives_no_text_up() -> None:
    machine = _machine(_lane(inputs=50), items=200, patience=60)
    lost, _ = _play(machine, lambda send: ITS_500)
    assert lost == []
    assert machine.stopped is StopReason.NO_ROUTE


def test_a_route_that_probes_is_asked_again_when_the_probe_is_over() -> None:
    """Others wait a quarter of a second: it is not out for good."""
    machine = _machine(items=8)
    first, second = machine.dispatch(0.0)
    machine.failed(second, _barred(0.25), 0.0, 0.5)
    machine.succeeded(first, 40, None, 0.1)
    assert machine.dispatch(0.1) == []
    assert machine.wake_at(0.1) == 0.25
    assert _texts(machine.dispatch(0.25)) == [4]


def test_a_500_that_others_do_not_get_is_the_batchs_own() -> None:
    machine = _machine(items=16)
    lost, _ = _play(machine, lambda send: ITS_500 if _has(send, 9) else None)
    assert [(one.item.text, one.error.kind) for one in lost] == [("text 9", ErrorKind.REJECTED)]


def test_texts_that_make_a_server_crash_are_found_when_nothing_else_is_left() -> None:
    """Each looks like an outage; that all others have their vectors tells them apart."""
    machine = _machine(_lane(inputs=16), items=64)
    lost, requests = _play(machine, lambda send: DOWN if _has(send, 9) or _has(send, 40) else None)
    assert sorted(one.item.text for one in lost) == ["text 40", "text 9"]
    assert machine.stopped is None
    assert requests < 40


def test_an_outage_while_a_bad_row_is_looked_for_costs_no_row() -> None:
    """It has served others, but not since: what is suspected waits as everybody does."""
    machine = _machine(_lane(inputs=16), items=640)
    asked = 0

    def answer(send: Send) -> Failure | None:
        nonlocal asked
        asked += 1
        if 30 <= asked < 40:
            return DOWN
        return ITS_500 if _has(send, 9) else None

    lost, _ = _play(machine, answer)
    assert [one.item.text for one in lost] == ["text 9"]


def test_an_outage_halves_nothing_and_ends_the_job() -> None:
    machine = _machine(items=8, patience=60)
    lost, requests = _play(machine, lambda send: DOWN)
    assert lost == []
    assert machine.splits == 0
    assert machine.stopped is StopReason.NO_ROUTE
    assert "a/m: it is down" in machine.stop_message
    assert requests < 40


def test_an_outage_that_ends_costs_nothing() -> None:
    calls = iter(range(1000))
    machine = _machine(items=8, patience=600)
    lost, _ = _play(machine, lambda send: DOWN if next(calls) < 6 else None)
    assert lost == []
    assert machine.stopped is None


def test_a_batch_too_large_for_the_next_route_is_split_not_failed() -> None:
    small = _lane("b/m", tier=2, inputs=2)
    machine = _machine(_lane(inputs=8), small, items=8)
    (send,) = machine.dispatch(0.0)
    machine.failed(send, _barred(60.0), 0.0, 0.5)
    assert _texts(machine.dispatch(0.0)) == [2, 2, 2, 2]


@pytest.mark.parametrize(
    ("message", "expected"),
    [("at most 3 requests can be in one batch", [3, 3, 2]), ("max 20 tokens per request", [2, 2, 2, 2])],
    ids=["a limit on inputs", "a limit on tokens"],
)
def test_a_limit_in_a_refusal_is_learnt_once(message: str, expected: list[int]) -> None:
    machine = _machine(_lane(inputs=8), items=8)
    (send,) = machine.dispatch(0.0)
    assert machine.failed(send, Failure(Trouble.REFUSED, "bad_request", message, 400), 0.0, 0.5) == []
    assert _texts(machine.dispatch(0.0)) == expected


def test_a_better_route_serves_alone_while_it_can() -> None:
    machine = _machine(_lane(most=2), _lane("b/m", tier=2), items=40)
    assert {send.route for send in machine.dispatch(0.0)} == {"a/m"}


def test_a_lower_route_joins_while_the_better_one_is_limited() -> None:
    machine = _machine(_lane(most=1), _lane("b/m", tier=2, most=2), items=40)
    (send,) = machine.dispatch(0.0)
    machine.failed(send, LIMITED, 0.0, 0.5)
    assert {send.route for send in machine.dispatch(0.1)} == {"b/m"}
    assert {send.route for send in machine.dispatch(2.0)} == {"a/m"}


def test_routes_of_one_priority_share_the_work_by_headroom() -> None:
    machine = _machine(_lane(most=4), _lane("b/m", most=2), items=400)
    shares = [send.route for send in machine.dispatch(0.0)]
    assert shares.count("a/m") == 4
    assert shares.count("b/m") == 2


def test_what_failed_on_one_route_goes_to_another_first() -> None:
    machine = _machine(_lane(), _lane("b/m"), items=4)
    (first,) = machine.dispatch(0.0)
    machine.failed(first, SPOILT, 0.0, 0.5)
    (second,) = machine.dispatch(0.0)
    assert second.route != first.route


def test_a_text_that_one_route_cannot_serve_goes_to_a_lower_one() -> None:
    machine = _machine(_lane(), _lane("b/m", tier=2), items=1)
    lost, _ = _play(machine, lambda send: TOO_LONG if send.route == "a/m" else None)
    assert lost == []
    assert machine.lanes[1].last_ok_at is not None


def test_a_text_that_no_route_can_serve_is_oversize() -> None:
    machine = _machine(_lane(), _lane("b/m"), items=1)
    lost, requests = _play(machine, lambda send: TOO_LONG)
    assert [one.error.kind for one in lost] == [ErrorKind.OVERSIZE]
    assert requests == 2


def test_a_route_that_cannot_serve_the_job_is_asked_once() -> None:
    """It does not know `dimensions`: no text is at fault, and no other batch would fare better."""
    machine = _machine(_lane(most=1), _lane("b/m", most=1), items=400)
    lost, _ = _play(machine, lambda send: UNABLE if send.route == "a/m" else None)
    assert lost == []
    assert machine.lanes[0].is_out
    assert machine.retries == 1

    machine = _machine(_lane(most=1), items=400)
    lost, requests = _play(machine, lambda send: UNABLE)
    assert (lost, requests) == ([], 1)
    assert machine.stopped is StopReason.NO_ROUTE
    assert machine.stop_message == "a/m: it gives 64 numbers"


def test_a_text_waits_for_no_route_that_is_out() -> None:
    """The only route that could have served it has gone: the others say why they cannot, and the job ends."""
    machine = _machine(_lane(), _lane("b/m"), items=1)
    lost, _ = _play(machine, lambda send: TOO_LONG if send.route == "a/m" else _barred(None))
    assert [one.error.kind for one in lost] == [ErrorKind.OVERSIZE]


def test_a_route_without_a_key_is_out_and_the_other_goes_on() -> None:
    machine = _machine(_lane(), _lane("b/m"), items=40)
    lost, _ = _play(machine, lambda send: _barred(None) if send.route == "a/m" else None)
    assert lost == []
    assert machine.lanes[0].is_out
    assert machine.stopped is None


def test_a_route_that_stays_broken_is_left_out() -> None:
    machine = _machine(items=40)
    _play(machine, lambda send: BROKEN)
    assert machine.stopped is StopReason.NO_ROUTE
    assert "the key is wrong" in machine.stop_message


@pytest.mark.parametrize(
    ("seconds", "stops"),
    [(LONGEST_TOLD_PAUSE - 1, False), (LONGEST_TOLD_PAUSE + 1, True)],
    ids=["an hour is waited for", "a day is not"],
)
def test_how_long_a_rate_limit_is_waited_for(seconds: float, stops: bool) -> None:
    machine = _machine(items=4, patience=10)
    (send,) = machine.dispatch(0.0)
    machine.failed(send, Failure(Trouble.LIMITED, "rate_limit", "slow down", 429, seconds, told=True), 0.0, 0.5)
    machine.dispatch(0.0)
    assert (machine.stopped is StopReason.NO_ROUTE) is stops


def test_a_row_limit_is_exact() -> None:
    machine = _machine(items=40, limit_rows=10)
    _play(machine, lambda send: None)
    assert machine.sent_rows == 10
    assert machine.stopped is StopReason.ROW_LIMIT


def test_a_spending_limit_stops_before_the_request_that_would_pass_it() -> None:
    """Each batch of four costs four cents as planned; ten cents pay for two, with what they really cost for three."""
    machine = _machine(_lane(price=0.001), items=400, limit_cost=0.10)
    sends = machine.dispatch(0.0)
    assert len(sends) == 2
    for send in sends:
        machine.succeeded(send, 20, None, 0.0)  # two cents each: fewer tokens than planned
    _play(machine, lambda send: None, tokens=20)
    assert machine.stopped is StopReason.COST_LIMIT
    assert machine.spent <= 0.10
    assert machine.spent == pytest.approx(0.08)


def test_a_dropped_request_comes_again() -> None:
    machine = _machine(items=4)
    (send,) = machine.dispatch(0.0)
    machine.dropped(send)
    (again,) = machine.dispatch(0.0)
    assert again.batch is send.batch


def test_suspects_go_alone() -> None:
    machine = _machine(items=0)
    machine.add(_items(4), [Item(b"s", "suspect", 1)])
    assert sorted(_texts(machine.dispatch(0.0))) == [1, 4]


@pytest.mark.parametrize(
    ("allowance", "pause"),
    [
        pytest.param(Allowance(), 0.0, id="nothing told"),
        pytest.param(Allowance(requests=50, request_reset=1.0), 0.0, id="room enough"),
        pytest.param(Allowance(requests=0, request_reset=6.0), 6.0, id="no request left"),
        pytest.param(Allowance(tokens=50, token_reset=3.0), 3.0, id="too few tokens left"),
        pytest.param(Allowance(tokens=5000, token_reset=3.0), 0.0, id="tokens enough"),
        pytest.param(Allowance(requests=0), 0.0, id="no reset told"),
    ],
)
def test_headers_pace_the_job(allowance: Allowance, pause: float) -> None:
    assert allowance.pause(in_flight=2, tokens_each=100) == pause


# -- any order of failures


@dataclass
class Played:
    """What a simulated provider saw."""

    stored: dict[bytes, int] = field(default_factory=dict)


def _has(send: Send, number: int) -> bool:
    return any(item.text == f"text {number}" for item in send.batch.items)


def _play(
    machine: Machine, answer: Callable[[Send], Failure | None], *, tokens: int | None = None, seen: Played | None = None
) -> tuple[list[Any], int]:
    """Run to the end, one request at a time: what was lost, and how many requests it took."""
    lost: list[Any] = []
    now, requests, flying = 0.0, 0, list[Send]()
    while True:
        flying += machine.dispatch(now)
        if not flying:
            wake_at = machine.wake_at(now)
            if wake_at is None:
                return lost, requests
            now = max(wake_at, now + 1e-3)
            continue
        send = flying.pop(0)
        requests += 1
        assert requests < 20_000, "it never ends"
        failure = answer(send)
        now += 0.01
        if failure is None:
            machine.succeeded(send, tokens, None, now)
            for item in send.batch.items if seen is not None else ():
                seen.stored[item.key] = seen.stored.get(item.key, 0) + 1  # type: ignore[union-attr]
        else:
            lost += machine.failed(send, failure, now, 0.5)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 60),
    st.sets(st.integers(0, 59), max_size=4),
    st.lists(st.sampled_from([None, None, LIMITED, DOWN, ITS_500, SPOILT]), max_size=80),
    st.integers(1, 3),
)
def test_any_order_of_failures_gives_each_text_one_vector_or_one_error(
    count: int, poison: set[int], failures: list[Failure | None], routes: int
) -> None:
    """Random failures come and go; texts that a provider refuses are lost, and nothing else is."""
    script = iter(failures)
    seen = Played()
    machine = _machine(*(_lane(f"{name}/m", inputs=7) for name in "abc"[:routes]), items=count, patience=1e6)

    def answer(send: Send) -> Failure | None:
        found = next(script, None)
        if found is None and any(_has(send, number) for number in poison):
            return REFUSED
        return found

    lost, _ = _play(machine, answer, seen=seen)

    bad = {number for number in poison if number < count}
    assert set(seen.stored.values()) <= {1}
    assert {int(one.item.key) for one in lost} | {int(key) for key in seen.stored} == set(range(count))
    assert bad <= {int(one.item.key) for one in lost}
    if not any(failure in (ITS_500, SPOILT, DOWN) for failure in failures):
        assert {int(one.item.key) for one in lost} == bad
    assert machine.in_flight == 0
    assert all(lane.in_flight == 0 for lane in machine.lanes)


def _until_stopped(machine: Machine, fail: Callable[[Send], Failure], step: float = 0.25, most: float = 5000) -> float:
    """The instant at which the machine stops while everything fails."""
    now = 0.0
    while machine.stopped is None and now < most:
        for send in machine.dispatch(now):
            machine.failed(send, fail(send), now, 0.5)
        now += step
    return now


@pytest.mark.parametrize(
    ("failure", "stops"),
    [
        pytest.param(Failure(Trouble.LIMITED, "rate_limit", "slow", 429), (10, 12), id="a 429 that names no return"),
        pytest.param(
            Failure(Trouble.LIMITED, "rate_limit", "slow", 429, 2.0), (10, 13), id="a 429, its return guessed"
        ),
        pytest.param(
            Failure(Trouble.LIMITED, "rate_limit", "slow", 429, 2.0, told=True), (3600, 3605), id="a 429 that says when"
        ),
        pytest.param(Failure(Trouble.DOWN, "server_error", "busy", 503, 2.0), (3, 10), id="a 503, its return guessed"),
        pytest.param(
            Failure(Trouble.DOWN, "server_error", "busy", 503, 2000.0, told=True),
            (2000, 2010),
            id="a 503 that says when",
        ),
    ],
)
def test_how_long_a_job_is_patient(failure: Failure, stops: tuple[float, float]) -> None:
    """Ten seconds without progress, or an hour where providers say themselves when they are back."""
    assert stops[0] <= _until_stopped(_machine(patience=10), lambda _: failure, most=6000) <= stops[1]


def test_what_the_router_guesses_takes_no_authority_from_what_the_provider_told() -> None:
    """The router bars the rest of what was in flight, until a moment later by its own clock."""
    machine = _machine(items=8, patience=10)
    first, second = machine.dispatch(0.0)
    machine.failed(first, Failure(Trouble.LIMITED, "rate_limit", "slow", 429, 600.0, told=True), 0.0, 0.5)
    machine.failed(second, _barred(600.01), 0.0, 0.5)
    machine.dispatch(20.0)
    assert machine.stopped is None


def test_a_withdrawn_key_with_much_in_flight_leaves_the_route_to_the_other_key() -> None:
    machine = _machine(_lane(inputs=1, most=32), items=64)
    lane = machine.lanes[0]
    lane.window = 32.0
    for send in machine.dispatch(0.0):
        machine.failed(send, BROKEN, 0.1, 0.5)
    assert not lane.is_out
    assert machine.dispatch(0.2)


def test_a_route_that_costs_too_much_leaves_the_rest_to_a_cheaper_one() -> None:
    dear, cheap = _lane("a/m", price=1.0, weight=9.0), _lane("b/m", price=0.0)
    machine = _machine(dear, cheap, items=40, limit_cost=100.0)
    lost, _ = _play(machine, lambda _: None)
    assert lost == []
    assert machine.stopped is None
    assert machine.spent <= 100
    assert dear.rows + cheap.rows == 40


def test_a_dear_route_stops_the_job_although_one_of_lower_priority_were_cheaper() -> None:
    """Its turn has not come: a limit is no failure of the better one."""
    machine = _machine(_lane("a/m", price=1.0), _lane("b/m", tier=2, price=0.0), items=4, limit_cost=10.0)
    assert machine.dispatch(0.0) == []
    assert machine.stopped is StopReason.COST_LIMIT


def test_answers_without_a_good_vector_are_paid_for_too() -> None:
    machine = _machine(_lane(price=1.0), items=4, limit_cost=100.0)
    _play(machine, lambda _: SPOILT)
    assert 40 <= machine.spent <= 100
    assert machine.stopped is StopReason.COST_LIMIT


def test_a_row_limit_sees_to_the_end_what_it_has_let_through() -> None:
    """What is rate limited comes again, although as many rows as allowed were sent."""
    machine = _machine(items=40, limit_rows=8)
    sends = machine.dispatch(0.0)
    assert _texts(sends) == [4, 4]
    machine.failed(sends[0], LIMITED, 0.1, 0.5)
    machine.succeeded(sends[1], 40, None, 0.2)
    assert machine.dispatch(1.0) == []
    assert machine.stopped is None
    (again,) = machine.dispatch(3.0)
    machine.succeeded(again, 40, None, 3.1)
    assert machine.dispatch(3.2) == []
    assert machine.stopped is StopReason.ROW_LIMIT
    assert machine.lanes[0].rows == 8


@pytest.mark.parametrize("limit", [1, 5, 8, 20, 39])
def test_a_row_limit_ends_in_good_time_whatever_fails(limit: int) -> None:
    machine, turns = _machine(_lane(), _lane("b/m", tier=2), items=40, limit_rows=limit), iter(range(10_000))
    failures = (LIMITED, TOO_LONG, None, ITS_500, None)
    lost, _ = _play(machine, lambda _: failures[next(turns) % 5])
    assert machine.stopped is StopReason.ROW_LIMIT
    assert sum(lane.rows for lane in machine.lanes) + len(lost) == limit


def test_a_fault_that_all_requests_share_is_not_looked_for_in_every_text() -> None:
    machine = _machine(_lane(inputs=256), items=5000)
    lost, requests = _play(machine, lambda _: REFUSED)
    assert machine.stopped is StopReason.NO_ROUTE
    assert machine.stop_message == "each of the first 100 texts was refused: the input is bad"
    assert 100 <= len(lost) < 104  # those in flight with it are lost too
    assert requests < 250


def test_texts_that_were_refused_before_prove_no_fault_of_all() -> None:
    machine = _machine(items=0)
    machine.add([], _items(300))
    lost, _ = _play(machine, lambda _: REFUSED)
    assert len(lost) == 300
    assert machine.stopped is None
