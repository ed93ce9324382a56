"""One call under way: joins the machine, the board and the judge. Decides nothing itself; the drivers carry out its steps."""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field, replace

from shim._core import answers, dialects, exhausted, judge, vectors
from shim._core.call import FOREVER, Action, Cancel, End, Finish, Limits, Machine, Start, Wait
from shim._core.health import Permits, acquire, release, settle
from shim._core.outcome import Judgement
from shim._core.plan import Plan, Slot, make_plan
from shim._core.prepare import DROPPABLE, Prepared
from shim._core.request import Request, count_inputs
from shim._core.stream import StreamWatch
from shim._run import screening
from shim._run.board import Board
from shim._run.exchange import Exchange, Pause, Reply, Together
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
    Scope,
    Verdict,
)

log = logging.getLogger("shim")

_OK = Judgement(Verdict.OK, Scope.REQUEST, "ok", "")
_ENDINGS = {
    End.OK: Ending.OK,
    End.FATAL: Ending.REFUSED,
    End.CANNOT: Ending.REFUSED,
    End.EXHAUSTED: Ending.EXHAUSTED,
}

Script = Generator[Exchange | Together | Pause, object, "Reply | Judgement"]


@dataclass(frozen=True, slots=True)
class Options:
    """What the caller asked of this call. `deadline` and `read_timeout` are seconds, None where nothing was said."""

    deadline: float | None = None
    read_timeout: float | None = None
    connect_timeout: float | None = None
    max_retries: int | None = None
    pinned: str | None = None
    only_first: bool = False


@dataclass(slots=True)
class Running:
    """An attempt that has begun and not been settled."""

    number: int
    slot: Slot
    lane: int
    purpose: Purpose
    permits: Permits
    until: float
    started: float
    wall: float
    watch: StreamWatch | None = None
    dropped: tuple[str, ...] = ()


@dataclass(slots=True)
class Won:
    """The attempt whose answer counts: its reply, and the vectors where it was an embedding."""

    running: Running
    reply: Reply
    judgement: Judgement
    embedded: vectors.Embedded | None = None
    record: Attempt | None = None


@dataclass(slots=True)
class _Log:
    attempts: list[Attempt] = field(default_factory=list)
    winner: int | None = None


class Flight:
    """Drivers call `begin`, run the `script` of every `Start`, hand its result to `settle`, and `wake` after a `Wait`,
    until a `Finish` comes; `abandon` when the caller goes away."""

    __slots__ = (
        "_board",
        "_choices",
        "_clock",
        "_judged",
        "_kept",
        "_machine",
        "_options",
        "_plan",
        "_running",
        "_shown",
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
        self._running: dict[int, Running] = {}
        self._judged: dict[int, Won] = {}
        self._kept: dict[int, Attempt] = {}
        self._choices = 0
        self._shown = False
        self.request = request
        self.family = family
        self.finish: Finish | None = None
        self.ending: Ending | None = None
        self.id = board.new_id()
        self.started = self._clock.now()
        self.wall = self._clock.wall()
        self._plan = self._make_plan()
        self._machine = Machine(self._plan.lanes, self._limits(), self, self._clock.jitter)

    # -- what the machine asks of the shared state (the lock is held)

    def ready_at(self, lane: int, now: float) -> float:
        slot = self._plan.slots[lane]
        return slot.route.health.ready_at(slot.key, now)

    def probe_at(self, lane: int, now: float) -> float:
        slot = self._plan.slots[lane]
        health = slot.route.health
        return health.breaker_until(now) if health.benched_until(slot.key) <= now else FOREVER

    def take_retry(self) -> bool:
        return self._board.families[self.family.name].retry_budget.withdraw()

    def take_hedge(self) -> bool:
        return self._board.families[self.family.name].hedge_budget.withdraw()

    # -- steps

    @property
    def is_concurrent(self) -> bool:
        """Whether more than one attempt may be in flight."""
        return self.family.policy.mode != "sequential" and len(self._plan.lanes) > 1

    @property
    def skipped(self) -> list[str]:
        return [f"{skip.route}: {skip.reason}" for skip in self._plan.skipped]

    def begin(self) -> list[Action]:
        """The first actions."""
        if self._board.bus.observers:
            self._board.bus.emit(CallStarted(self.id, self.family.name, self.request.kind, self.wall))
        now = self._clock.now()
        with self._board.lock:
            state = self._board.families[self.family.name]
            state.retry_budget.deposit()
            state.hedge_budget.deposit()
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
        if request.kind is Kind.EMBEDDING and len(slot.family.routes) > 1 and self._needs_screening(running):
            refusal = yield from screening.screen(self._probing(running))
            if refusal is not None:
                return refusal
        health = slot.route.health
        running.dropped = tuple(health.dropped)
        prepared = slot.route.writer.write(request, slot.key, slot.lengths, running.dropped)
        if isinstance(prepared, Judgement):
            return prepared
        reply = yield self._exchange(running, prepared)
        assert isinstance(reply, Reply)
        return reply

    def settle(self, number: int, result: Reply | Judgement) -> list[Action]:
        """Judge what attempt `number` brought; the actions that follow."""
        running = self._running[number]
        reply = result if isinstance(result, Reply) else Reply(screening.NOTHING)
        judged = result if isinstance(result, Judgement) else self.judge(running.slot, self.request, result)
        embedded = judged if isinstance(judged, vectors.Embedded) else None
        judgement = judged if isinstance(judged, Judgement) else _OK
        now = self._clock.now()
        with self._board.lock:
            judgement = self._lock_length(running, embedded, judgement)
            won = Won(running, reply, judgement, embedded)
            again = self._learn(running, judgement)
            if reply.live is None or judgement.verdict is not Verdict.OK:
                changes = self._put_down(running, judgement, now)
                del self._running[number]
            else:
                changes = ()
            actions = self._machine.on_verdict(number, judgement.verdict, judgement.scope, now, again=again)
            actions = self._admit(actions, now)
        self._judged[number] = won
        self._note(won, now)
        return self._report(won, actions, changes)

    def abandon(self) -> None:
        """The caller went away (cancelled, interrupted): no verdict, permits given back."""
        for number in list(self._running):
            self.cancelled(number)
        if self.ending is None:
            self._close(Ending.CANCELLED)

    def cancelled(self, number: int) -> None:
        """Attempt `number` was cancelled: it lost a race, or the caller went away."""
        running = self._running.pop(number, None)
        if running is None:
            return
        with self._board.lock:
            release(running.slot.route.health, running.permits)
        record = self._record(running, None, Reply(screening.NOTHING), self._clock.now())
        self._kept[number] = record
        if self._board.bus.observers:
            self._board.bus.emit(AttemptFinished(self.id, record, "cancelled"))

    # -- streams, after their first content

    def stream_ended(self, number: int, failure: Judgement | None, interrupted: bool) -> None:
        """The stream that won is over. `failure` tells how it broke, None for a good end or a caller that closed it."""
        running = self._running.pop(number, None)
        if running is None:
            return
        now = self._clock.now()
        judgement = failure or _OK
        with self._board.lock:
            changes = self._put_down(running, judgement, now)
        won = self._judged[number]
        won.judgement = judgement
        self._note(won, now)
        self._emit_changes(changes)
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
    def call(self) -> Call:
        """The record of the call as it stands."""
        finish, won = self.finish, self.winner
        retry_at = None
        if finish is not None and self.ending is Ending.EXHAUSTED and finish.retry_at < FOREVER:
            retry_at = self.wall + (finish.retry_at - self.started)
        return Call(
            id=self.id,
            family=self.family.name,
            kind=self.request.kind,
            mode=self.family.policy.mode,
            ending=self.ending or Ending.OK,
            started_at=self.wall,
            duration=self._clock.now() - self.started,
            attempts=tuple(self._kept[number] for number in sorted(self._kept)),
            winner=won.running.number if won is not None and self.ending in (None, Ending.OK) else None,
            retry_at=retry_at,
        )

    def exhausted(self) -> tuple[str, bytes, list[tuple[str, str]], Call]:
        """The message, JSON body and headers of the 503, and the record that it carries."""
        call = self.call
        if not self._plan.lanes:
            message = exhausted.nobody_message(call.kind, call.family, self._plan.skipped)
        else:
            message = exhausted.message_for(call.kind, call.family, self._last_words(call))
        message = self.masked(message)
        retry_after = None if call.retry_at is None else max(0.0, call.retry_at - self._clock.wall())
        body = exhausted.body_for(message, call.kind, call.family, call.attempts, retry_after)
        return message, body, exhausted.headers_for(retry_after), call

    def masked(self, text: str) -> str:
        """The text without anything that is or looks like a key of the providers involved."""
        return judge.mask_secrets(text, self.known_keys())

    def known_keys(self) -> tuple[str, ...]:
        """Every secret that a provider of this plan may repeat to us."""
        return self._board.secrets

    # -- inside

    def _make_plan(self) -> Plan:
        board, options = self._board, self._options
        with board.lock:
            families = board.families_for(self.family)
            plan = make_plan(
                self.request, families, self._clock.jitter, pinned=options.pinned, only_first=options.only_first
            )
        return plan

    def _limits(self) -> Limits:
        policy, options = self.family.policy, self._options
        if self.request.is_stream:
            private = any(slot.route.provider.is_private for slot in self._plan.slots)
            attempt = policy.first_chunk_timeout_for(is_private=private)
        else:
            attempt = policy.attempt_timeout_for(self.family.kind)
        deadline = policy.deadline if options.deadline is None else options.deadline
        width, delay = self._width_and_delay()
        return Limits(
            deadline=self.started + deadline,
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
                if isinstance(policy.hedge_delay, float | int):
                    return policy.race_width, float(policy.hedge_delay)
                seen = self._plan.slots[0].route.health.percentile(int(policy.hedge_delay[1:]) / 100)
                return policy.race_width, seen if self._plan.slots else None

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
            permits = acquire(slot.route.health, slot.key, now, early=action.early)
            if permits is None:
                queue.extend(self._machine.on_denied(action.number, now))
                continue
            self._running[action.number] = Running(
                action.number, slot, action.lane, action.purpose, permits, action.until, now, self._clock.wall()
            )
            admitted.append(action)
        return admitted

    def _announce(self, actions: list[Action]) -> list[Action]:
        bus = self._board.bus
        for action in actions:
            if isinstance(action, Finish):
                self._over(action)
            elif isinstance(action, Start) and bus.observers:
                running = self._running[action.number]
                bus.emit(
                    AttemptStarted(
                        self.id,
                        action.number,
                        running.slot.family.config.name,
                        running.slot.route.config.route,
                        action.purpose,
                        running.wall,
                    )
                )
        return actions

    def _over(self, finish: Finish) -> None:
        self.finish = finish
        won = self.winner
        if finish.end is End.OK and won is not None and won.reply.live is not None:
            return  # a stream: the call ends with it
        self._close(_ENDINGS[finish.end])

    def _close(self, ending: Ending) -> None:
        if self._shown:
            return
        self.ending = ending
        self._shown = True
        call = self.call
        self._board.calls.append(call)
        if self._board.bus.observers:
            self._board.bus.emit(CallFinished(call))

    def _exchange(self, running: Running, prepared: Prepared) -> Exchange:
        policy, options = self.family.policy, self._options
        connect = policy.connect_timeout
        if options.connect_timeout is not None:
            connect = min(connect, options.connect_timeout)
        idle = policy.idle_timeout
        if options.read_timeout is not None:
            idle = min(idle, options.read_timeout)
        watch = StreamWatch(self.request.endpoint) if self.request.is_stream else None
        running.watch = watch
        return Exchange(prepared, running.until, watch, idle, connect)

    def judge(self, slot: Slot, request: Request, reply: Reply) -> Judgement | vectors.Embedded:
        """The judgement on a reply to `request` from this slot's route; the vectors of a good embeddings answer."""
        outcome, now, preset = reply.outcome, self._clock.wall(), slot.route.provider.preset
        known = self._board.secrets
        if reply.error is not None:
            data, event = reply.error
            found = judge.payload_failure(data, event=event, preset=preset, now=now, known=known)
            return found or screening.malformed("the stream began with an event that is no answer")
        if reply.live is not None:
            return _OK
        expects_json = request.kind not in (Kind.SPEECH, Kind.TRANSCRIPTION)
        failed = judge.failure(outcome, preset=preset, now=now, known=known, expects_json=expects_json)
        if failed is not None:
            return failed
        if request.kind is Kind.EMBEDDING:
            return self._read_vectors(slot, request, outcome.body)
        if request.is_stream and reply.live is None and slot_streamed(reply):
            return screening.malformed("the stream ended before any content")
        answer = answers.read(request.endpoint, outcome)
        if isinstance(answer, Judgement):
            return answer
        self._remember(slot, answer)
        reply.answer = answer
        return _OK

    def _read_vectors(self, slot: Slot, request: Request, body: bytes) -> Judgement | vectors.Embedded:
        wire = slot.route.provider.wire
        if wire in ("huggingface", "cohere"):
            decoded = dialects.decode(dialects.Wire(wire), body, model=slot.route.config.model)
            if isinstance(decoded, Judgement):
                return decoded
            body = decoded
        fit = slot.lengths
        expect = fit.expect if fit is not None else None
        wanted = vectors.Wanted(
            count=count_inputs(request.fields.get("input")),
            dimensions=expect if expect is not None else self._locked(slot, fit is not None and fit.send is None),
            truncate_to=fit.truncate_to if fit is not None else None,
            int8=slot.route.config.int8,
        )
        return vectors.read(body, wanted)

    def _locked(self, slot: Slot, is_native: bool) -> int | None:
        return slot.family.locked if is_native else None

    def _lock_length(
        self, running: Running, embedded: vectors.Embedded | None, judgement: Judgement
    ) -> Judgement:
        """The first length seen fixes the family's; an answer of another length is misconfigured. Lock held."""
        fit = running.slot.lengths
        if embedded is None or fit is None or fit.send is not None or fit.truncate_to is not None:
            return judgement
        state = running.slot.family
        if state.config.dimensions is None and state.locked is None:
            state.locked = embedded.dimensions
        expected = state.config.dimensions or state.locked
        if embedded.dimensions == expected:
            return judgement
        text = f"vectors of {embedded.dimensions} numbers where the family has {expected}"
        return Judgement(Verdict.BROKEN, Scope.MODEL, "wrong_length", text, cooldown=86_400.0)

    def _learn(self, running: Running, judgement: Judgement) -> bool:
        """Remember a parameter that the route rejects. True when the same route may be asked again without it."""
        rejected = judgement.rejects
        health = running.slot.route.health
        if judgement.verdict is not Verdict.CANNOT or rejected is None or rejected in running.dropped:
            return False
        if rejected == "dimensions" and running.slot.family.config.matryoshka:
            health.dropped.add(rejected)
            return False
        if rejected not in DROPPABLE or rejected not in self.request.fields:
            return False
        health.dropped.add(rejected)
        return True

    def _put_down(self, running: Running, judgement: Judgement, now: float) -> Iterable[BreakerChanged]:
        health = running.slot.route.health
        breakers = ((health.name, health.breaker), (health.provider.name, health.provider.breaker))
        before = [breaker.state for _, breaker in breakers]
        settle(
            health, running.slot.key, running.permits, judgement, now - running.started, now, self._clock.jitter()
        )
        changes = []
        for (subject, breaker), was in zip(breakers, before, strict=True):
            if breaker.state is not was:
                until = self.wall + (breaker.open_until - self.started) if breaker.state is BreakerState.OPEN else None
                changes.append(BreakerChanged(subject, was, breaker.state, until, self._clock.wall()))
        return changes

    def _note(self, won: Won, now: float) -> None:
        record = self._record(won.running, won.judgement, won.reply, now, won.embedded)
        won.record = record
        self._kept[won.running.number] = record
        health = won.running.slot.route.health
        health.input_tokens += record.input_tokens or 0
        health.output_tokens += record.output_tokens or 0
        health.cost += record.cost or 0.0

    def _record(
        self,
        running: Running,
        judgement: Judgement | None,
        reply: Reply,
        now: float,
        embedded: vectors.Embedded | None = None,
    ) -> Attempt:
        slot = running.slot
        health = slot.route.health
        input_tokens, output_tokens = _tokens(running, reply, embedded)
        price = slot.route.config.price
        cost = None
        if price is not None and (input_tokens is not None or output_tokens is not None):
            cost = ((input_tokens or 0) * price.input + (output_tokens or 0) * price.output) / 1e6
        status = reply.outcome.status
        if judgement is not None and judgement.status is not None:
            status = judgement.status
        benched = health.ready_at(slot.key, now)
        return Attempt(
            number=running.number,
            family=slot.family.config.name,
            provider=slot.route.provider.name,
            model=slot.route.config.model,
            key=slot.key_alias,
            purpose=running.purpose,
            verdict=judgement.verdict if judgement is not None else None,
            scope=judgement.scope if judgement is not None else None,
            reason=judgement.reason if judgement is not None else "cancelled",
            message=judgement.message if judgement is not None else "",
            status=status,
            started_at=running.wall,
            duration=now - running.started,
            first_byte=None if reply.first_byte_at is None else reply.first_byte_at - running.started,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            cost=cost,
            breaker=health.breaker.state,
            retry_at=self.wall + (benched - self.started) if now < benched < FOREVER else None,
        )

    def _report(self, won: Won, actions: list[Action], changes: Iterable[BreakerChanged]) -> list[Action]:
        record = won.record
        assert record is not None
        observed = bool(self._board.bus.observers)
        if observed or record.verdict is not Verdict.OK:
            then = self._then(actions, won)
            if record.verdict is not Verdict.OK:
                _tell(self, record, then)
            if observed:
                self._board.bus.emit(AttemptFinished(self.id, record, then))
        self._emit_changes(changes)
        return self._announce(actions)

    def _emit_changes(self, changes: Iterable[BreakerChanged]) -> None:
        for change in changes:
            log.warning("breaker of %s: %s -> %s", change.subject, change.before.value, change.after.value)
            self._board.bus.emit(change)

    def _then(self, actions: list[Action], won: Won) -> str:
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
        out = []
        for slot in self._plan.slots:
            health = slot.route.health
            back = health.ready_at(slot.key, now)
            until = f"back in {back - now:.0f} s" if back < FOREVER else "out until it is reset"
            out.append(f"{health.name}: {until}, {health.last_reason or 'forced open'}: {health.last_message}")
        return "no attempt was made; " + "; ".join(dict.fromkeys(out))

    def _needs_screening(self, running: Running) -> bool:
        self._board.references.load(screening.space_key(running.slot, self.request))
        with self._board.lock:
            return screening.is_due(self._board, running.slot, self.request)

    def _probing(self, running: Running) -> screening.Probing:
        policy = self.family.policy
        return screening.Probing(
            board=self._board,
            slot=running.slot,
            request=self.request,
            until=running.until,
            connect=policy.connect_timeout,
            read=self.judge,
            seconds=policy.attempt_timeout_for(self.family.kind),
            record=lambda request, reply, read, started: self._note_probe(running, reply, read, started),
        )

    def _note_probe(
        self, running: Running, reply: Reply, read: Judgement | vectors.Embedded, started: float
    ) -> None:
        """Probes cost tokens: they stand in the records as what they are."""
        probe = replace(running, purpose=Purpose.SPACE_CHECK, started=started)
        judgement = read if isinstance(read, Judgement) else _OK
        embedded = read if isinstance(read, vectors.Embedded) else None
        self._choices += 1
        record = self._record(probe, judgement, reply, self._clock.now(), embedded)
        self._kept[-1000 + self._choices] = replace(record, number=running.number)

    def _remember(self, slot: Slot, answer: answers.Answer) -> None:
        if self.request.endpoint == "/responses" and answer.response_id:
            self._board.remember_response(answer.response_id, slot.family.config.name, slot.route.config.route)


def slot_streamed(reply: Reply) -> bool:
    """Whether the reply was an event stream."""
    return reply.outcome.headers.get("content-type", "").startswith("text/event-stream")


def _tokens(
    running: Running, reply: Reply, embedded: vectors.Embedded | None
) -> tuple[int | None, int | None]:
    if embedded is not None:
        return embedded.input_tokens, None
    if reply.answer is not None:
        return reply.answer.input_tokens, reply.answer.output_tokens
    if running.watch is not None:
        return running.watch.input_tokens, running.watch.output_tokens
    return None, None


def _tell(flight: Flight, record: Attempt, then: str) -> None:
    """One log line for each attempt that brought no answer: who, what, how long, what next. No bodies, no keys."""
    level = logging.WARNING if record.verdict is Verdict.BROKEN else logging.INFO
    log.log(
        level,
        "%s family %s: attempt %d on %s: %s (%s%s) after %.3f s: %s",
        flight.request.kind.value,
        record.family,
        record.number,
        record.route,
        record.verdict.value if record.verdict else "cancelled",
        record.reason,
        f", HTTP {record.status}" if record.status else "",
        record.duration,
        then,
    )
