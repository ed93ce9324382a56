"""One call under way: joins the machine, the board and the judge. It decides nothing; drivers carry out its steps."""

from __future__ import annotations

from collections.abc import Generator

from shim._core import exhausted, vectors
from shim._core.call import FOREVER, Action, Cancel, End, Finish, Machine, Start, Wait
from shim._core.health import release
from shim._core.outcome import Fault, Judgement, Outcome
from shim._core.plan import Plan, make_plan
from shim._core.prepare import DROPPABLE, may_drop, own_secrets
from shim._core.request import Request
from shim._core.state import about_state
from shim._core.wording import mask_secrets
from shim._run import parting, rehearsal, screening
from shim._run.board import Board, Maker
from shim._run.bounds import Options, exchange_of, limits_of, was_rushed
from shim._run.exchange import Exchange, Pause, Reply, Send, Together
from shim._run.judging import NOTHING, OK, check_length, excused, judge_reply, judge_stream
from shim._run.ledger import Ledger, Won
from shim._run.records import Running
from shim._run.shared import Shared
from shim.config import FamilyConfig
from shim.events import Attempt, Call, CallFinished, CallStarted, Ending, Kind, Verdict

_LIMITS = (Fault.TIMEOUT, Fault.FIRST_CHUNK_TIMEOUT, Fault.CONNECT_TIMEOUT)
_ENDINGS = {
    End.OK: Ending.OK,
    End.FATAL: Ending.REFUSED,
    End.CANNOT: Ending.REFUSED,
    End.EXHAUSTED: Ending.EXHAUSTED,
}

Script = Generator[Exchange | Together | Pause, object, "Reply | Judgement"]


class Flight:
    """Drivers call `begin`, run the `script` of every `Start`, hand its result to `settle`, and `wake` after a `Wait`,
    until a `Finish` comes; `abandon` when the caller goes away."""

    __slots__ = (
        "_board",
        "_clock",
        "_is_closed",
        "_judged",
        "_ledger",
        "_machine",
        "_options",
        "_patience",
        "_plan",
        "_running",
        "_shared",
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
        self._is_closed = False
        self.request = request
        self.family = family
        self.finish: Finish | None = None
        self.ending: Ending | None = None
        self.id = board.new_id()
        self.started = self._clock.now()
        self.wall = self._clock.wall()
        self._plan = self._make_plan()
        self._ledger = Ledger(board.bus, self.id, request.kind)
        self._shared = Shared(self._plan.slots, board.families[family.name], self._clock)
        limits = limits_of(family, request, self._plan.slots, options, self.started)
        self._patience = limits.attempt_timeout
        self._machine = Machine(self._plan.lanes, limits, self._shared, self._clock.jitter)

    # -- steps

    @property
    def is_concurrent(self) -> bool:
        """Whether more than one attempt may be in flight."""
        return self.family.policy.mode != "sequential" and len(self._plan.lanes) > 1

    def begin(self) -> list[Action]:
        """The first actions."""
        if self._board.bus.latecomers:
            self._board.bus.admit()
        if self._board.bus.observers:
            self._board.bus.emit(CallStarted(self.id, self.family.name, self.request.kind, self.wall))
        now = self._clock.now()
        with self._board.lock:
            self._shared.earn()
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
        if self._board.rehearsals and (met := rehearsal.meet(self._board, running)) is not None:
            running.is_rehearsal = True
            instead = yield from rehearsal.carry_out(met, running.until, self._clock)
            if instead is not None:
                return instead
        if request.kind is Kind.EMBEDDING and screening.may_be_due(self._board, slot, request):
            refusal = yield from screening.screen(self._probing(running))
            if refusal is not None:
                return refusal
        dropped = slot.route.health.dropped
        running.dropped = tuple(dropped) if dropped else ()
        prepared = slot.route.writer.write(request, slot.key, slot.lengths, running.dropped)
        if isinstance(prepared, Judgement):
            return prepared
        reply = yield exchange_of(self.family, request, running, prepared, self._options)
        assert isinstance(reply, Reply)
        return reply

    def settle(self, number: int, result: Reply | Judgement) -> list[Action]:
        """Judge what attempt `number` brought; the actions that follow."""
        running = self._running[number]
        reply = result if isinstance(result, Reply) else Reply(NOTHING)
        judged = result if isinstance(result, Judgement) else self._judge(running, self.request, result)
        embedded = judged if isinstance(judged, vectors.Embedded) else None
        judgement = judged if isinstance(judged, Judgement) else OK
        if judgement.counts:
            is_rushed = reply.outcome.fault in _LIMITS and was_rushed(running, self._patience)
            judgement = excused(judgement, is_rushed=is_rushed, is_job=self.request.headers.wants_packed)
        now = self._clock.now()
        with self._board.lock:
            if embedded is not None:
                judgement = check_length(running.slot, embedded) or OK
            again = self._learn(running, judgement)
            if reply.live is None:  # the permits of a stream come back when it ends
                self._shared.put_down(running, judgement, now)
                del self._running[number]
            else:
                self._shared.prove(running, now)
            actions = self._machine.on_verdict(number, judgement.verdict, judgement.scope, now, again=again)
            actions = self._admit(actions, now)
        won = Won(running, reply, judgement, embedded)
        self._judged[number] = won
        record = self._ledger.write(won, now)
        if record.verdict is not Verdict.OK or number > 1 or self._ledger.is_observed:
            self._ledger.tell(record, self._then(actions))
        return self._announce(actions)

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
        self._ledger.write_cancelled(running, self._clock.now())

    # -- a stream, after its first content

    def judge_stream(self, number: int, outcome: Outcome, event: str | None) -> Judgement:
        """The judgement on the stream that won and then failed."""
        slot, hurry = self._judged[number].running.slot, self._options.read_timeout
        judged = judge_stream(slot, outcome, event, now=self._clock.wall(), known=self.secrets)
        if outcome.fault is Fault.STALL and hurry is not None and hurry < self.family.policy.idle_timeout:
            return excused(judged, is_rushed=True, is_job=False)
        return judged

    def stream_ended(self, number: int, failure: Judgement | None, *, interrupted: bool) -> None:
        """The stream that won is over. `failure` tells how it broke, None for a good end or a caller that closed it."""
        running = self._running.pop(number, None)
        if running is None:
            return
        now = self._clock.now()
        won = self._judged[number]
        won.judgement = failure or OK
        with self._board.lock:
            self._shared.put_down(running, won.judgement, now)
        record = self._ledger.write(won, now)
        self._ledger.tell_breakers(self._shared.moved())
        if failure is not None:
            self._ledger.tell(record, "raise")
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
        return self._ledger.attempts

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
            mode="job" if self.request.headers.wants_packed else self.family.policy.mode,
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
        return parting.common_way(self._plan, self.attempts)

    def exhausted(self) -> tuple[str, bytes, list[tuple[str, str]]]:
        """The message, JSON body and headers of the 503."""
        call = self.call
        message = self.masked(parting.message_of(self._plan, call, self._clock.now()))
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
        rehearsal.end_due(self._board)
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
            permits = self._shared.take_permits(slot, now, early=action.early)
            if permits is None:
                self._shared.refund(action.purpose)
                queue.extend(self._machine.on_denied(action.number, now))
                continue
            self._running[action.number] = Running(
                action.number, slot, action.purpose, permits, action.until, now, self._clock.wall()
            )
            admitted.append(action)
        return admitted

    def _announce(self, actions: list[Action]) -> list[Action]:
        if self._shared.changes:
            self._ledger.tell_breakers(self._shared.moved())
        for action in actions:
            if isinstance(action, Finish):
                self._over(action)
            elif isinstance(action, Start) and self._ledger.is_observed:
                self._ledger.begun(self._running[action.number])
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

    def _judge(self, running: Running, request: Request, reply: Reply) -> Judgement | vectors.Embedded:
        reader = self._board.packed() if request.headers.wants_packed else vectors.read
        judged = judge_reply(
            running.slot, request, reply, now=self._clock.wall(), known=self._known_to(running), reader=reader
        )
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
        if rejected not in DROPPABLE or not may_drop(rejected, self.request.fields):
            return False
        dropped.add(rejected)
        return True

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

    def _probing(self, running: Running) -> screening.Probing:
        return screening.Probing(
            board=self._board,
            slot=running.slot,
            request=self.request,
            until=running.until,
            connect=self.family.policy.connect_timeout,
            read=lambda request, reply: self._judge(running, request, reply),
            note=lambda reply, read, started: self._ledger.write_probe(
                running, reply, read, started, self._clock.now()
            ),
        )
