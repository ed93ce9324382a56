"""Decides which batch goes where and when, and what follows from how it ended. Pure: time and chance come in.

The sync and the async job, one process or many, are this machine with different drivers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from shim.embed.batches import Backlog, Batch, Item
from shim.embed.blame import Scene, is_at_fault, is_old_news
from shim.embed.cells import RowError
from shim.embed.lanes import Allowance, Lane
from shim.embed.trouble import Failure, Trouble, kind_of, words_of

REFUSED_AT_MOST = 100
"""Texts that may be refused, with none served, before the fault is taken to be in what all requests have in common."""
SPOILT_AT_MOST = 20
"""The same for texts that are answered without a good vector: those are paid for."""
LONGEST_TOLD_PAUSE = 3600.0
"""Seconds that a job waits where providers themselves say when they are back."""


class StopReason(str, Enum):
    """Why a job ended before its last row."""

    NO_ROUTE = "no route is left"
    TOO_MANY_ERRORS = "too many rows failed"
    COST_LIMIT = "the spending limit is reached"
    ROW_LIMIT = "the row limit is reached"

    @property
    def was_asked_for(self) -> bool:
        """Whether the caller set the limit: then it is no error."""
        return self in (StopReason.COST_LIMIT, StopReason.ROW_LIMIT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the caller allows. `patience` is seconds without any progress while routes fail; money is US dollars."""

    patience: float = 300.0
    limit_cost: float | None = None
    limit_rows: int | None = None


@dataclass(frozen=True, slots=True)
class Send:
    """Ask one route for the vectors of one batch."""

    number: int
    route: str
    batch: Batch


@dataclass(frozen=True, slots=True)
class Lost:
    """A text that will have no vector."""

    item: Item
    error: RowError


@dataclass(slots=True)
class Machine:
    """`lanes` in the order of the configuration. `now` is seconds on a clock that never goes back."""

    lanes: Sequence[Lane]
    rules: Rules
    now: float
    backlog: Backlog = field(default_factory=Backlog)
    stopped: StopReason | None = None
    stop_message: str = ""
    spent: float = 0.0
    sent_rows: int = 0
    requests: int = 0
    retries: int = 0
    splits: int = 0
    progress_at: float = field(init=False)
    _refused: int = 0
    _refused_before: set[bytes] = field(default_factory=set)
    _flying: dict[int, Send] = field(default_factory=dict)
    _reserved: float = 0.0
    _numbers: int = 0

    def __post_init__(self) -> None:
        self.progress_at = self.now

    # -- what comes in

    def add(self, items: Iterable[Item], suspects: Iterable[Item] = ()) -> None:
        """More texts. Each of the `suspects`, which a provider has refused before, goes alone."""
        self.backlog.fresh.extend(items)
        for item in suspects:
            self._refused_before.add(item.key)
            self.backlog.again.append(Batch([item], item.tokens, is_suspect=True))

    def dispatch(self, now: float) -> list[Send]:
        """The requests to start now."""
        sends: list[Send] = []
        while self.stopped is None and len(self.backlog):
            send = self._next(now)
            if send is None:
                break
            sends.append(send)
        if self.stopped is None and not sends and self._is_spent(now):
            about = f"the next request would pass the limit of ${self.rules.limit_cost:g}"
            self.stop(StopReason.COST_LIMIT, f"{about} (spent so far: ${self.spent:.4f})")
        if sends or self._flying or self.stopped is not None or not len(self.backlog):
            return sends
        if any(lane.can_take(now) for lane in self.lanes) and self.backlog.reconsider():
            return self.dispatch(now)  # the routes that could have served it are out: asked again, the others say why
        self._look_for_an_end(now)
        return []

    def wake_at(self, now: float) -> float | None:
        """The instant at which `dispatch` may have more to do, if nothing ends before; None if only an end can help."""
        if self.stopped is not None or not len(self.backlog):
            return None
        waits = [lane.paused_until for lane in self.lanes if not lane.is_out and lane.paused_until > now]
        return min(waits, default=None)

    def succeeded(self, send: Send, tokens: int | None, cost: float | None, now: float) -> None:
        """The batch has its vectors."""
        lane = self._land(send)
        lane.succeeded(now)
        lane.rows += len(send.batch.items)
        used = send.batch.tokens if tokens is None else tokens
        self.spent += cost if cost is not None else (lane.price or 0.0) * used
        self.progress_at = now

    def paced(self, send: Send, allowance: Allowance, now: float) -> None:
        """What the provider's headers leave, beside a good answer."""
        self._lane(send.route).paced(allowance, send.batch.tokens, now)

    def failed(self, send: Send, failure: Failure, now: float, jitter: float) -> list[Lost]:
        """The batch has none: it comes again, in parts or whole, or its last text is lost."""
        lane, batch = self._land(send), send.batch
        lane.failed(failure, now, jitter, is_the_batchs=is_old_news(batch, failure, self._scene()))
        batch.asked += len(failure.attempts) or 1
        if failure.trouble is Trouble.SPOILT:
            self.spent += (lane.price or 0.0) * batch.tokens  # an answer came, so it is billed, good or not
        batch.last_route = send.route
        match failure.trouble:
            case Trouble.LIMITED | Trouble.BARRED | Trouble.BROKEN | Trouble.UNABLE:
                self.backlog.again.append(batch)
                return []
            case Trouble.UNSUITABLE:
                return self._unsuitable(lane, batch, failure, now)
            case Trouble.REFUSED:
                if self._has_learnt(lane, batch, failure):
                    self.backlog.again.appendleft(batch)
                    return []
                return self._find_bad_row(batch, failure, now)
            case Trouble.SPOILT | Trouble.DOWN:
                return self._maybe_at_fault(batch, failure, now)

    def dropped(self, send: Send) -> None:
        """The request was cancelled: as if it had never been made."""
        self._land(send)
        self.backlog.put_back(send.batch)

    def stop(self, reason: StopReason, message: str) -> None:
        """Start nothing more."""
        if self.stopped is None:
            self.stopped, self.stop_message = reason, message

    # -- what it is at

    @property
    def in_flight(self) -> int:
        return len(self._flying)

    def is_flying(self, send: Send) -> bool:
        """Whether it is not settled yet."""
        return send.number in self._flying

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do, now or later, with what was added so far."""
        return not self._flying and (self.stopped is not None or not len(self.backlog))

    def waits_for(self, now: float) -> tuple[float, str] | None:
        """Until when nothing can start, and why; None while work goes on."""
        at = self.wake_at(now)
        if at is None or self._flying or any(lane.can_take(now) for lane in self.lanes):
            return None
        lane = min((lane for lane in self.lanes if not lane.is_out), key=lambda lane: lane.paused_until)
        return at, f"{lane.route}: {lane.trouble or 'paced by its rate-limit headers'}"

    # -- routes

    def _lane(self, route: str) -> Lane:
        return next(lane for lane in self.lanes if lane.route == route)

    def _land(self, send: Send) -> Lane:
        del self._flying[send.number]
        lane = self._lane(send.route)
        lane.in_flight -= 1
        self._reserved -= (lane.price or 0.0) * send.batch.tokens
        return lane

    def _next(self, now: float) -> Send | None:
        for lane, better in self._candidates(now):
            batch = self.backlog.take(lane.route, lane.limits, better)
            if batch is None:
                continue
            batch = self._within_rows(batch)
            if batch is None:
                continue
            if self._within_cost(lane, batch):
                return self._start(lane, batch)
            self.backlog.put_back(batch)  # another route may be cheaper
        return None

    def _candidates(self, now: float) -> list[tuple[Lane, frozenset[str]]]:
        """Routes that take work, most headroom first: those of the best priority that its provider does not hold back.

        A route of lower priority joins while every better one is rate limited or out. Otherwise it takes only what no
        better one can serve: the set beside it names those.
        """
        open_tier = self._open_tier(now)
        ready = sorted((lane for lane in self.lanes if lane.can_take(now)), key=lambda lane: -lane.headroom)
        if self.backlog.again:  # what has just failed on one route goes to another first
            last = self.backlog.again[0].last_route
            ready.sort(key=lambda lane: lane.route == last)
        found = [(lane, frozenset[str]()) for lane in ready if lane.tier <= open_tier]
        lower = [lane for lane in ready if lane.tier > open_tier]
        return found + [(one, frozenset(lane.route for lane in self.lanes if lane.tier < one.tier)) for one in lower]

    def _open_tier(self, now: float) -> int:
        """The best priority of which some route is not held back by its provider."""
        return min((lane.tier for lane in self.lanes if not lane.is_held(now)), default=0)

    def _start(self, lane: Lane, batch: Batch) -> Send:
        self._numbers += 1
        send = Send(self._numbers, lane.route, batch)
        self._flying[send.number] = send
        lane.in_flight += 1
        self._reserved += (lane.price or 0.0) * batch.tokens
        self.requests += 1
        self.sent_rows += 0 if batch.asked else len(batch.items)
        self.retries += 1 if batch.asked else 0
        return send

    # -- limits

    def _within_rows(self, batch: Batch) -> Batch | None:
        limit = self.rules.limit_rows
        if limit is None or batch.asked:
            return batch
        room = limit - self.sent_rows
        if room >= len(batch.items):
            return batch
        if room <= 0:
            self.backlog.fresh.extendleft(reversed(batch.items))
            if self._flying or any(one.asked for one in self.backlog.again):
                return None  # what the limit has let through is seen to its end, or it comes again
            self.stop(StopReason.ROW_LIMIT, f"the limit of {limit:,} rows for this run is reached")
            return None
        first = Batch(batch.items[:room], sum(item.tokens for item in batch.items[:room]))
        rest = batch.items[room:]
        self.backlog.put_back(Batch(rest, sum(item.tokens for item in rest)))
        return first

    def _within_cost(self, lane: Lane, batch: Batch) -> bool:
        limit = self.rules.limit_cost
        if limit is None:
            return True
        cost = (lane.price or 0.0) * batch.tokens
        return self.spent + self._reserved + cost <= limit

    def _is_spent(self, now: float) -> bool:
        """Whether no route whose turn it is, were it free, could take the next batch within the limit."""
        batch = self.backlog.again[0] if self.backlog.again else None
        if self.rules.limit_cost is None or batch is None or self._flying:
            return False  # what is in flight may turn out cheaper than it was reckoned
        open_tier = self._open_tier(now)
        lanes = [lane for lane in self.lanes if not lane.is_out and lane.tier <= open_tier]
        return not any(self._within_cost(lane, batch) for lane in lanes if lane.route not in batch.unsuitable)

    def _look_for_an_end(self, now: float) -> None:
        """Nothing runs and nothing can start: wait, or see that waiting is no use."""
        usable = [lane for lane in self.lanes if not lane.is_out]
        if not usable:
            self.stop(StopReason.NO_ROUTE, self._troubles())
            return
        for lane in usable:
            allowed = max(self.rules.patience, LONGEST_TOLD_PAUSE if lane.pause_is_told else 0.0)
            if lane.paused_until <= self.progress_at + allowed:
                return
        quiet = max(now - self.progress_at, 0.0)
        soonest = min(lane.paused_until for lane in usable) - now
        about = f"nothing has succeeded for {quiet:.1f} s and no route is back within {soonest:.1f} s"
        self.stop(StopReason.NO_ROUTE, f"{about}: {self._troubles()}")

    def _troubles(self) -> str:
        return "; ".join(f"{lane.route}: {lane.trouble}" for lane in self.lanes if lane.trouble) or "no route answers"

    # -- what follows a failure

    def _unsuitable(self, lane: Lane, batch: Batch, failure: Failure, now: float) -> list[Lost]:
        if self._has_learnt(lane, batch, failure):
            self.backlog.again.appendleft(batch)
            return []
        if len(batch.items) > 1:
            return self._find_bad_row(batch, failure, now)
        batch.unsuitable |= {lane.route}
        if any(other.route not in batch.unsuitable and not other.is_out for other in self.lanes):
            self.backlog.again.append(batch)
            return []
        return self._lose(batch, failure, now)

    def _has_learnt(self, lane: Lane, batch: Batch, failure: Failure) -> bool:
        """Whether the refusal named a limit: then all further batches keep to it."""
        limits = lane.limits.learnt(failure.message, len(batch.items), batch.tokens)
        if limits is None or (limits == lane.limits and batch.fits(limits)):
            return False
        lane.limits = limits
        return True

    def _find_bad_row(self, batch: Batch, failure: Failure, now: float) -> list[Lost]:
        if len(batch.items) == 1:
            return self._lose(batch, failure, now)
        self.splits += 1
        self.backlog.again.extendleft(reversed(batch.halves()))
        return []

    def _maybe_at_fault(self, batch: Batch, failure: Failure, now: float) -> list[Lost]:
        """A failure that may be the route's or the batch's: it is the batch's if others succeed meanwhile."""
        before = batch.failed_last_at
        batch.tries += 1
        batch.failed_at = now if batch.failed_at is None else batch.failed_at
        batch.failed_last_at = now
        if is_at_fault(batch, failure, before, self._scene()):
            if failure.trouble is Trouble.SPOILT and len(batch.items) == 1:  # another may give it its vector
                batch.unsuitable |= {batch.last_route}
                if any(lane.route not in batch.unsuitable and not lane.is_out for lane in self.lanes):
                    self.backlog.again.append(batch)
                    return []
            return self._find_bad_row(batch, failure, now)
        self.backlog.again.append(batch)
        return []

    def _scene(self) -> Scene:
        served = [lane.last_ok_at for lane in self.lanes if lane.last_ok_at is not None]
        known = [*self.backlog.again, *(send.batch for send in self._flying.values())]
        return Scene(
            served_at=max(served, default=None),
            is_alone=not self._flying and not len(self.backlog),
            has_others=bool(self.backlog.fresh) or any(not (one.tries or one.is_suspect) for one in known),
        )

    def _lose(self, batch: Batch, failure: Failure, now: float) -> list[Lost]:
        self.progress_at = now
        for lane in self.lanes:
            lane.forgive()
        is_spoilt = failure.trouble is Trouble.SPOILT
        is_refused = is_spoilt or failure.trouble in (Trouble.REFUSED, Trouble.UNSUITABLE)
        if is_refused and batch.items[0].key not in self._refused_before:
            self._refused += 1
            at_most = SPOILT_AT_MOST if is_spoilt else REFUSED_AT_MOST
            if self._refused >= at_most and all(lane.last_ok_at is None for lane in self.lanes):
                what = "got no good vector" if is_spoilt else "was refused"
                about = f"each of the first {self._refused} texts {what}"
                self.stop(StopReason.NO_ROUTE, f"{about}: {failure.message}")
        error = RowError(kind_of(failure), words_of(failure), batch.last_route, batch.asked)
        return [Lost(item, error) for item in batch.items]
