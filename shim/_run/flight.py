"""One call under way: joins the machine, the board and the judge. It decides nothing; drivers carry out its steps."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass, replace

from shim._core import exhausted, vectors
from shim._core.call import FOREVER, Action, Cancel, End, Finish, Limits, Machine, Start, Wait
from shim._core.health import RouteHealth, acquire, release, settle
from shim._core.outcome import Fault, Judgement, Outcome
from shim._core.plan import FamilyState, Plan, Slot, make_plan
from shim._core.prepare import DROPPABLE, Prepared, own_secrets
from shim._core.request import Request
from shim._core.state import about_state
from shim._core.stream import StreamWatch
from shim._core.wording import mask_secrets
from shim._run import screening
from shim._run.board import Board, Maker
from shim._run.exchange import Exchange, Pause, Reply, Send, Together
from shim._run.judging import NOTHING, OK, check_length, judge_reply, judge_stream
from shim._run.records import Running, record_of, tell_attempt, tell_breaker
from shim.config import FamilyConfig
from shim.events import (
    Attempt,
    AttemptFinished,
    AttemptStarted,
    BreakerChanged,
    BreakerState,
    Call,
    CallFinished,
    CallStarted,
    Ending,
    Kind,
    Purpose,
    Verdict,
)

_LIMITS = (Fault.TIMEOUT, Fault.FIRST_CHUNK_TIMEOUT)
_ENDINGS = {
    End.OK: Ending.OK,
    End.FATAL: Ending.REFUSED,
    End.CANNOT: Ending.REFUSED,
    End.EXHAUSTED: Ending.EXHAUSTED,
}

Script = Generator[Exchange | Together | Pause, object, "Reply | Judgement"]


@dataclass(frozen=True, slots=True)
class Options:
    """What the caller asked of this call. Times are seconds, None where nothing was said."""

    deadline: float | None = None
    read_timeout: float | None = None
    connect_timeout: float | None = None
    max_retries: int | None = None
    pinned: str | None = None
    only_first: bool = False
    account: str = ""
    """The one account whose keys may be used, "" for any."""


@dataclass(slots=True)
class Won:
    """An attempt that was judged: its reply, and the vectors where it was an embedding."""

    running: Running
    reply: Reply
    judgement: Judgement
    embedded: vectors.Embedded | None = None
    record: Attempt | None = None


class _Shared:
    """What the machine asks of the shared state; the board's lock is held. Apart from the flight, so that neither holds
    the other and both are freed at once."""

    __slots__ = ("_slots", "_state")

    def __init__(self, slots: list[Slot], state: FamilyState) -> None:
        self._slots = slots
        self._state = state

    def ready_at(self, lane: int, now: float) -> float:
        slot = self._slots[lane]
        return slot.route.health.ready_at(slot.key, now)

    def retry_at(self, lane: int, now: float) -> float:
        slot = self._slots[lane]
        return slot.route.health.retry_at(slot.key, now)

    def probe_at(self, lane: int, now: float) -> float:
        slot = self._slots[lane]
        health = slot.route.health
        return health.breaker_until(now) if health.benched_until(slot.key) <= now else FOREVER

    def take_retry(self) -> bool:
        return self._state.retry_budget.withdraw()

    def take_hedge(self) -> bool:
        return self._state.hedge_budget.withdraw()


class Flight:
    """Drivers call `begin`, run the `script` of every `Start`, hand its result to `settle`, and `wake` after a `Wait`,
    until a `Finish` comes; `abandon` when the caller goes away."""

    __slots__ = (
        "_board",
        "_changes",
        "_clock",
        "_is_closed",
        "_judged",
        "_kept",
        "_machine",
        "_options",
        "_plan",
        "_probes",
        "_running",
        "_state",
        "ending",
        "family",
        "finish",
        "id",
        "request",
        "started",
        "wall",
    )

    def __init__(self, board: Board, request: Request, family: FamilyConfig, options: Options) -> None:
        self._board = board
        self._clock = board.clock
        self._options = options
        self._state = board.families[family.name]
        self._running: dict[int, Running] = {}
        self._judged: dict[int, Won] = {}
        self._kept: dict[int, Attempt] = {}
        self._probes: list[Attempt] = []
        self._changes: list[BreakerChanged] = []  # of breakers that let a probe through
        self._is_closed = False
        self.request = request
        self.family = family
        self.finish: Finish | None = None
        self.ending: Ending | None = None
        self.id = board.new_id()
        self.started = self._clock.now()
        self.wall = self._clock.wall()
        self._plan = self._make_plan()
        shared = _Shared(self._plan.slots, self._state)
        self._machine = Machine(self._plan.lanes, self._limits(), shared, self._clock.jitter)

    # -- steps

    @property
    def is_concurrent(self) -> bool:
        """Whether more than one attempt may be in flight."""
        return self.family.policy.mode != "sequential" and len(self._plan.lanes) > 1

    def begin(self) -> list[Action]:
        """The first actions."""
        if self._board.bus.observers:
            self._board.bus.emit(CallStarted(self.id, self.family.name, self.request.kind, self.wall))
        now = self._clock.now()
        with self._board.lock:
            self._state.retry_budget.deposit()
            self._state.hedge_budget.deposit()
            actions = self._admit(self._machine.begin(now), now)
        return self._announce(actions)

    def wake(self) -> list[Action]:
        """An instant that a `Wait` named has come."""
        now = self._clock.now()
        with self._board.lock:
            actions = self._admit(self._machine.on_wake(now), now)
        return self._announce(actions)

    def script(self, number: int) -> Script:
        """What an attempt does: the space check where it is due, then the exchange. Returns what `settle` takes."""
        running = self._running[number]
        slot, request = running.slot, self.request
        if request.kind is Kind.EMBEDDING and screening.may_be_due(self._board, slot, request):
            refusal = yield from screening.screen(self._probing(running))
            if refusal is not None:
                return refusal
        dropped = slot.route.health.dropped
        running.dropped = tuple(dropped) if dropped else ()
        prepared = slot.route.writer.write(request, slot.key, slot.lengths, running.dropped)
        if isinstance(prepared, Judgement):
            return prepared
        reply = yield self._exchange(running, prepared)
        assert isinstance(reply, Reply)
        return reply

    def settle(self, number: int, result: Reply | Judgement) -> list[Action]:
        """Judge what attempt `number` brought; the actions that follow."""
        running = self._running[number]
        reply = result if isinstance(result, Reply) else Reply(NOTHING)
        judged = result if isinstance(result, Judgement) else self._judge(running, self.request, result)
        embedded = judged if isinstance(judged, vectors.Embedded) else None
        judgement = judged if isinstance(judged, Judgement) else OK
        if judgement.counts and reply.outcome.fault in _LIMITS and self._was_rushed(running):
            judgement = replace(judgement, counts=False)
        now = self._clock.now()
        changes: list[BreakerChanged] = []
        with self._board.lock:
            if embedded is not None:
                judgement = check_length(running.slot, embedded) or OK
            again = self._learn(running, judgement)
            if reply.live is None:  # the permits of a stream come back when it ends
                changes = self._put_down(running, judgement, now)
                del self._running[number]
            actions = self._machine.on_verdict(number, judgement.verdict, judgement.scope, now, again=again)
            actions = self._admit(actions, now)
        won = Won(running, reply, judgement, embedded)
        self._judged[number] = won
        self._note(won, now)
        return self._report(won, actions, changes)

    def _was_rushed(self, running: Running) -> bool:
        """Whether the caller's own deadline left less time than the route is known to need: nobody's failure."""
        usual = running.slot.route.health.percentile(0.95)
        return usual is not None and running.until - running.started < usual

    def abandon(self) -> None:
        """The caller went away (cancelled, interrupted): no verdict, permits given back."""
        for number in list(self._running):
            self.cancelled(number)
        self._close(Ending.CANCELLED)

    def drop(self, send: Send) -> None:
        """The call was won, and its answer will reach nobody: give back what it holds."""
        won = self.winner
        if won is not None:
            send.close(won.reply)
        self.abandon()

    def cancelled(self, number: int) -> None:
        """Attempt `number` was cancelled: it lost a race, or the caller went away."""
        running = self._running.pop(number, None)
        if running is None:
            return
        with self._board.lock:
            release(running.slot.route.health, running.permits)
        record = record_of(running, None, Reply(NOTHING), self._clock.now())
        self._kept[number] = record
        if self._board.bus.observers:
            self._board.bus.emit(AttemptFinished(self.id, record, "cancelled"))

    # -- a stream, after its first content

    def judge_stream(self, number: int, outcome: Outcome, event: str | None) -> Judgement:
        """The judgement on the stream that won and then failed."""
        slot = self._judged[number].running.slot
        return judge_stream(slot, outcome, event, now=self._clock.wall(), known=self.secrets)

    def stream_ended(self, number: int, failure: Judgement | None, *, interrupted: bool) -> None:
        """The stream that won is over. `failure` tells how it broke, None for a good end or a caller that closed it."""
        running = self._running.pop(number, None)
        if running is None:
            return
        now = self._clock.now()
        won = self._judged[number]
        won.judgement = failure or OK
        with self._board.lock:
            changes = self._put_down(running, won.judgement, now)
        self._note(won, now)
        self._emit_changes(changes)
        if failure is not None and won.record is not None:
            tell_attempt(self.request.kind, won.record, "raise")
        self._close(Ending.INTERRUPTED if interrupted else Ending.OK)

    def stream_abandoned(self, number: int) -> None:
        """The caller's task was cancelled while it read the stream."""
        self.cancelled(number)
        self._close(Ending.CANCELLED)

    # -- what is known so far

    @property
    def winner(self) -> Won | None:
        """The attempt whose answer the caller gets: a valid answer, or a refusal that every route would repeat."""
        if self.finish is None or self.finish.number is None or self.finish.end is End.EXHAUSTED:
            return None
        return self._judged[self.finish.number]

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """The records of the attempts so far, probes of the space check first."""
        kept = self._kept
        ordered = kept.values() if len(kept) < 2 else [kept[number] for number in sorted(kept)]
        return (*self._probes, *ordered)

    @property
    def elapsed(self) -> float:
        """Seconds since the call began."""
        return self._clock.now() - self.started

    @property
    def call(self) -> Call:
        """The record of the call as it stands."""
        finish, won = self.finish, self.winner
        retry_at = None
        if finish is not None and finish.end is End.EXHAUSTED and finish.retry_at < FOREVER:
            retry_at = self.wall + (finish.retry_at - self.started)
        return Call(
            id=self.id,
            family=self.family.name,
            kind=self.request.kind,
            mode=self.family.policy.mode,
            ending=self.ending or Ending.OK,
            started_at=self.wall,
            duration=self.elapsed,
            attempts=self.attempts,
            winner=won.running.number if won is not None and self.ending in (None, Ending.OK) else None,
            retry_at=retry_at,
        )

    def route_of(self, number: int) -> str:
        """The route of an attempt, as `provider/model`."""
        return self._judged[number].running.slot.route.config.route

    def common_way(self) -> str | None:
        """How all attempts failed, if in the same way; where none was made, how those did that keep the routes out."""
        attempts = self.attempts
        if any(attempt.verdict is not None for attempt in attempts):
            return exhausted.common_way(attempts)
        ways = {slot.route.health.last_way for slot in self._plan.slots}
        return ways.pop() if len(ways) == 1 else None

    def exhausted(self) -> tuple[str, bytes, list[tuple[str, str]]]:
        """The message, JSON body and headers of the 503."""
        call = self.call
        if self._plan.lanes:
            message = exhausted.message_for(call.kind, call.family, self._last_words(call))
        else:
            message = exhausted.nobody_message(call.kind, call.family, self._plan.skipped)
        message = self.masked(message)
        retry_after = None if call.retry_at is None else max(0.0, call.retry_at - self._clock.wall())
        body = exhausted.body_for(message, call.kind, call.family, call.attempts, retry_after)
        return message, body, exhausted.headers_for(retry_after)

    def let_go(self) -> None:
        """The answer is made: keep the records, not the replies. A response that holds its own body through us would
        live until the next full garbage collection."""
        for won in self._judged.values():
            won.reply = Reply(NOTHING, won.reply.first_byte_at)
            won.embedded = None

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not be shown: the keys of the configuration and the caller's own."""
        return (*self._board.secrets, *own_secrets(self.request))

    def masked(self, text: str) -> str:
        """The text without anything that is or looks like a key."""
        return mask_secrets(text, self.secrets)

    # -- inside

    def _make_plan(self) -> Plan:
        families = self._board.families_for(self.family)
        with self._board.lock:
            return make_plan(
                self.request,
                families,
                self._clock.jitter,
                pinned=self._options.pinned,
                only_first=self._options.only_first,
                account=self._options.account,
            )

    def _limits(self) -> Limits:
        policy, options = self.family.policy, self._options
        if self.request.is_stream:
            private = any(slot.route.provider.is_private for slot in self._plan.slots)
            attempt = policy.first_chunk_timeout_for(is_private=private)
        else:
            attempt = policy.attempt_timeout_for(self.family.kind)
        width, delay = self._width_and_delay()
        return Limits(
            deadline=self.started + (policy.deadline if options.deadline is None else options.deadline),
            attempt_timeout=attempt,
            retries=policy.max_retries if options.max_retries is None else options.max_retries,
            width=width,
            delay=delay,
            wait_when_exhausted=policy.when_exhausted == "wait",
        )

    def _width_and_delay(self) -> tuple[int, float | None]:
        policy = self.family.policy
        match policy.mode:
            case "sequential":
                return 1, None
            case "race":
                return policy.race_width, 0.0
            case "hedged":
                if not isinstance(policy.hedge_delay, str):
                    return policy.race_width, policy.hedge_delay
                share = int(policy.hedge_delay[1:]) / 100
                seen = self._plan.slots[0].route.health.percentile(share) if self._plan.slots else None
                return policy.race_width, seen

    def _admit(self, actions: list[Action], now: float) -> list[Action]:
        """Take permits for what is to start. A lane that is no longer free goes back to the machine. Lock held."""
        admitted: list[Action] = []
        queue = list(actions)
        while queue:
            action = queue.pop(0)
            if not isinstance(action, Start):
                admitted.append(action)
                continue
            slot = self._plan.slots[action.lane]
            health = slot.route.health
            before = health.breaker.state, health.provider.breaker.state
            permits = acquire(health, slot.key, now, early=action.early)
            if before != (health.breaker.state, health.provider.breaker.state):
                self._changes += self._moved(health, before)
            if permits is None:
                self._refund(action.purpose)
                queue.extend(self._machine.on_denied(action.number, now))
                continue
            self._running[action.number] = Running(
                action.number, slot, action.purpose, permits, action.until, now, self._clock.wall()
            )
            admitted.append(action)
        return admitted

    def _refund(self, purpose: Purpose) -> None:
        """The budget that an attempt took before it turned out that it could not start. Lock held."""
        if purpose is Purpose.HEDGE:
            self._state.hedge_budget.refund()
        elif purpose is Purpose.RETRY:
            self._state.retry_budget.refund()

    def _announce(self, actions: list[Action]) -> list[Action]:
        bus = self._board.bus
        if self._changes:
            changes, self._changes = self._changes, []
            self._emit_changes(changes)
        for action in actions:
            if isinstance(action, Finish):
                self._over(action)
            elif isinstance(action, Start) and bus.observers:
                running = self._running[action.number]
                family, route = running.slot.family.config.name, running.slot.route.config.route
                bus.emit(AttemptStarted(self.id, action.number, family, route, action.purpose, running.wall))
        return actions

    def _over(self, finish: Finish) -> None:
        self.finish = finish
        for number in [number for number in self._running if number != finish.number]:
            self.cancelled(number)  # the record of the call tells of the losers as well
        won = self.winner
        if finish.end is End.OK and won is not None and won.reply.live is not None:
            return  # a stream: the call ends with it
        self._close(_ENDINGS[finish.end])

    def _close(self, ending: Ending) -> None:
        if self._is_closed:
            return
        self.ending = ending
        self._is_closed = True
        call = self.call
        self._board.calls.append(call)
        if self._board.bus.observers:
            self._board.bus.emit(CallFinished(call))

    def _exchange(self, running: Running, prepared: Prepared) -> Exchange:
        policy, options = self.family.policy, self._options
        connect, idle = policy.connect_timeout, policy.idle_timeout
        if options.connect_timeout is not None:
            connect = min(connect, options.connect_timeout)
        if options.read_timeout is not None:
            idle = min(idle, options.read_timeout)
        if self.request.is_stream:
            running.watch = StreamWatch(self.request.endpoint)
        return Exchange(prepared, running.until, running.watch, idle, connect)

    def _judge(self, running: Running, request: Request, reply: Reply) -> Judgement | vectors.Embedded:
        judged = judge_reply(running.slot, request, reply, now=self._clock.wall(), known=self._known_to(running))
        if isinstance(judged, Judgement):
            if judged.verdict is Verdict.OK and request.endpoint == "/responses":
                self._remember(running, reply)
            return about_state(judged) if request.state else judged
        return judged

    def _remember(self, running: Running, reply: Reply) -> None:
        """Who made a stored response: what builds on it must go there. A stream tells its id before its content."""
        told = reply.answer or running.watch
        if told is not None and told.response_id:
            slot = running.slot
            maker = Maker(slot.family.config.name, slot.route.config.route, slot.account)
            self._board.remember_response(told.response_id, maker)

    def _known_to(self, running: Running) -> tuple[str, ...]:
        """The secrets that this attempt's provider may repeat to us."""
        is_own = running.slot.route.provider.base_url == self.request.own_base
        return self.secrets if is_own else self._board.secrets

    def _learn(self, running: Running, judgement: Judgement) -> bool:
        """Remember a parameter that the route rejects. True when the same route may be asked again without it."""
        rejected = judgement.rejects
        if judgement.verdict is not Verdict.CANNOT or rejected is None or rejected in running.dropped:
            return False
        dropped = running.slot.route.health.dropped
        if rejected == "dimensions" and running.slot.family.config.matryoshka:
            dropped.add(rejected)  # from the next call on this route is cut locally
            return False
        if rejected not in DROPPABLE or rejected not in self.request.fields:
            return False
        dropped.add(rejected)
        return True

    def _put_down(self, running: Running, judgement: Judgement, now: float) -> list[BreakerChanged]:
        health = running.slot.route.health
        own, shared = health.breaker, health.provider.breaker
        before = own.state, shared.state
        seconds = now - running.started
        settle(health, running.slot.key, running.permits, judgement, seconds, now, self._clock.jitter())
        if before == (own.state, shared.state):
            return []
        return self._moved(health, before)

    def _moved(self, health: RouteHealth, before: tuple[BreakerState, BreakerState]) -> list[BreakerChanged]:
        """What to tell of the breakers of a route and its provider, which stood as `before`."""
        changes = []
        breakers = ((health.name, health.breaker), (health.provider.name, health.provider.breaker))
        for (subject, breaker), was in zip(breakers, before, strict=True):
            if breaker.state is not was:
                until = self.wall + (breaker.open_until - self.started) if breaker.state is BreakerState.OPEN else None
                changes.append(BreakerChanged(subject, was, breaker.state, until, self._clock.wall()))
        return changes

    def _note(self, won: Won, now: float) -> None:
        record = record_of(won.running, won.judgement, won.reply, now, won.embedded)
        won.record = record
        self._kept[won.running.number] = record
        self._count(record, won.running)

    def _count(self, record: Attempt, running: Running) -> None:
        health = running.slot.route.health
        if record.verdict is not None and record.verdict is not Verdict.OK:
            health.last_way = exhausted.way_of(record)
        health.input_tokens += record.input_tokens or 0
        health.output_tokens += record.output_tokens or 0
        health.cost += record.cost or 0.0

    def _report(self, won: Won, actions: list[Action], changes: Iterable[BreakerChanged]) -> list[Action]:
        record = won.record
        assert record is not None
        is_observed = bool(self._board.bus.observers)
        if is_observed or record.verdict is not Verdict.OK:
            then = self._then(actions)
            if record.verdict is not Verdict.OK:
                tell_attempt(self.request.kind, record, then)
            if is_observed:
                self._board.bus.emit(AttemptFinished(self.id, record, then))
        self._emit_changes(changes)
        return self._announce(actions)

    def _emit_changes(self, changes: Iterable[BreakerChanged]) -> None:
        for change in changes:
            tell_breaker(change)
            self._board.bus.emit(change)

    def _then(self, actions: list[Action]) -> str:
        for action in actions:
            match action:
                case Start():
                    return f"next: {self._plan.slots[action.lane].route.config.route}"
                case Finish():
                    return {End.OK: "answer", End.EXHAUSTED: "exhausted"}.get(action.end, "raise")
                case Wait():
                    if not self._running:
                        return f"retry in {max(0.0, action.until - self._clock.now()):.2f} s"
                case Cancel():
                    continue
        return "others are in flight"

    def _last_words(self, call: Call) -> str:
        if any(attempt.verdict is not None for attempt in call.attempts):
            return exhausted.last_words(call.attempts)
        now = self._clock.now()
        words = []
        for slot in self._plan.slots:
            health = slot.route.health
            back = health.ready_at(slot.key, now)
            until = f"back in {back - now:.0f} s" if back < FOREVER else "out until it is reset"
            words.append(f"{health.name} is {until} ({health.last_reason or 'forced open'}: {health.last_message})")
        return "no attempt was made; " + "; ".join(dict.fromkeys(words))

    def _probing(self, running: Running) -> screening.Probing:
        return screening.Probing(
            board=self._board,
            slot=running.slot,
            request=self.request,
            until=running.until,
            connect=self.family.policy.connect_timeout,
            read=lambda request, reply: self._judge(running, request, reply),
            note=lambda reply, read, started: self._note_probe(running, reply, read, started),
        )

    def _note_probe(self, running: Running, reply: Reply, read: Judgement | vectors.Embedded, started: float) -> None:
        """Probes cost tokens: they stand in the records as what they are."""
        probe = replace(running, purpose=Purpose.SPACE_CHECK, started=started)
        judgement = read if isinstance(read, Judgement) else OK
        embedded = read if isinstance(read, vectors.Embedded) else None
        record = record_of(probe, judgement, reply, self._clock.now(), embedded)
        self._probes.append(record)
        self._count(record, running)
        if self._board.bus.observers:
            self._board.bus.emit(AttemptFinished(self.id, record, "space check"))
