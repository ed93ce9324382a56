"""Asks a route for the probe texts before it serves an embedding family, and compares them with the family's reference.

A generator yields exchanges and gets replies, so that one text serves the sync and the async driver.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from dataclasses import dataclass

import msgspec

from shim._core import space
from shim._core.outcome import Judgement
from shim._core.plan import Slot
from shim._core.request import Raw, Request, text_of, write_fields
from shim._core.vectors import Embedded
from shim._run.board import Board
from shim._run.exchange import Exchange, Pause, Reply, Together
from shim._run.judging import MISCONFIGURED_FOR
from shim.events import Kind, Scope, Verdict

log = logging.getLogger("shim")

_POLL = 0.02  # seconds between looks at a screening that another call is doing
_PATIENCE = 1 / 3  # of what an attempt has left may go to that; the rest belongs to other routes and retries

Steps = Generator[Exchange | Together | Pause, object, Judgement | None]
Read = Callable[[Request, Reply], "Judgement | Embedded"]
Note = Callable[[Reply, "Judgement | Embedded", float], None]


@dataclass(slots=True)
class Probing:
    """What a screening needs of its attempt."""

    board: Board
    slot: Slot
    request: Request
    until: float
    connect: float
    read: Read
    note: Note
    is_under_way: bool = False


def space_key(slot: Slot, request: Request) -> str:
    """The space that a request's vectors belong to: family, length and input type."""
    fit = slot.lengths
    length = (fit.truncate_to or fit.send) if fit is not None else None  # not what is locked: it is unknown at first
    return space.key_of(slot.family.config.name, length, text_of(request.fields.get("input_type")))


def endpoint_of(slot: Slot) -> str:
    """Where the route lives and its model."""
    return space.endpoint(slot.route.provider.base_url, slot.route.config.model)


def is_due(board: Board, slot: Slot, request: Request) -> bool:
    """Whether this route must be screened before it serves this request. Call with the board's lock held."""
    family, route = slot.family.config, slot.route.config
    if request.kind is not Kind.EMBEDDING:
        return False
    wanted = family.policy.space_check if route.space_check is None else route.space_check
    if not wanted or sum(one.config.enabled and one.provider.is_usable for one in slot.family.routes) < 2:
        return False
    known = board.references.space(space_key(slot, request))
    return known is None or endpoint_of(slot) not in known.members


def may_be_due(board: Board, slot: Slot, request: Request) -> bool:
    """As `is_due`, for the caller without the lock: before a route is screened, looks at what other processes kept."""
    if len(slot.family.routes) < 2:
        return False
    with board.lock:
        if not is_due(board, slot, request):
            return False
    board.references.load(space_key(slot, request))
    with board.lock:
        return is_due(board, slot, request)


def screen(probing: Probing) -> Steps:
    """Returns None when the route may serve, else the judgement that keeps it out.

    One call at a time screens a route; others wait, since what is served unchecked may be of another space.
    """
    clock, place = probing.board.clock, (space_key(probing.slot, probing.request), endpoint_of(probing.slot))
    started = clock.now()
    patience = (probing.until - started) * _PATIENCE
    try:
        while not (turn := _turn(probing, place)):
            if turn is None:
                return None
            waited = clock.now() - started
            if waited >= patience:
                return _under_way(f"after {waited:.1f} s the space check of another call is not over")
            yield Pause(_POLL)
        return (yield from _probe(probing, *place))
    finally:
        _leave(probing, place)


def _turn(probing: Probing, place: tuple[str, str]) -> bool | None:
    """True when this call is to screen the route, False while another one does, None when nobody has to any more."""
    board = probing.board
    now = board.clock.now()
    with board.lock:
        if not is_due(board, probing.slot, probing.request):
            return None
        if now < board.screenings.get(place, now):
            return False
        probing.is_under_way = True  # nobody else is at it, or one that nobody has ended in its time
        board.screenings[place] = probing.until
        return True


def _leave(probing: Probing, place: tuple[str, str]) -> None:
    board = probing.board
    if probing.is_under_way:
        with board.lock:
            if board.screenings.get(place) == probing.until:
                del board.screenings[place]


def _probe(probing: Probing, key: str, endpoint: str) -> Steps:
    """The batch first: a sick route is found out with one request. Then all the others, side by side."""
    batch = yield from _ask(probing, [list(space.PROBES)])
    if isinstance(batch, Judgement):
        return batch
    alone = yield from _ask(probing, [*([text] for text in space.PROBES), [space.LONG_PROBE]])
    if isinstance(alone, Judgement):
        return alone
    singles, long = tuple(rows[0] for rows in alone[:-1]), alone[-1]
    if long and len(long[0]) != len(singles[0]):
        long = ()
    return _rule(probing, key, endpoint, space.Reading(batch[0], singles, long[0] if long else None))


def _ask(
    probing: Probing, inputs: list[list[str]]
) -> Generator[Together, object, list[tuple[tuple[float, ...], ...]] | Judgement]:
    """The vectors of each input, or what keeps the route out. An over-long text may be refused: it gives none."""
    requests = [_request(probing, texts) for texts in inputs]
    exchanges: list[Exchange] = []
    for request in requests:
        exchange = _exchange(probing, request)
        if isinstance(exchange, Judgement):
            return exchange
        exchanges.append(exchange)
    started = probing.board.clock.now()
    replies = yield Together(exchanges)
    assert isinstance(replies, list)
    taken: list[tuple[tuple[float, ...], ...]] = []
    for texts, request, reply in zip(inputs, requests, replies, strict=True):
        read = probing.read(request, reply)
        probing.note(reply, read, started)
        if not isinstance(read, Judgement):
            taken.append(tuple(tuple(row) for row in read.floats()))
        elif texts == [space.LONG_PROBE]:
            taken.append(())
        else:
            return read
    return taken


def _rule(probing: Probing, key: str, endpoint: str, reading: space.Reading) -> Judgement | None:
    own = space.self_check(reading)
    board, name = probing.board, probing.slot.route.config.route
    if own.ruling is space.Ruling.REFUSE:
        return _judgement(Verdict.BROKEN, "space", f"{name}: {own.message}")
    references = board.references
    references.load(key)
    known = references.space(key) or references.inherit(key, reading) or references.claim(key, endpoint, reading)
    if known is None:
        return _under_way("another process is writing the reference vectors")
    if known.reading is reading:
        return None
    found = space.compare(known.reading, reading)
    if found.ruling is not space.Ruling.REFUSE:
        with board.lock:
            references.join(key, endpoint, found.noise)
        references.save(key)
    family = probing.slot.family.config.name
    if found.ruling is space.Ruling.WARN:
        log.warning("route %s joins embedding family %s with a doubt: %s", name, family, found.message)
    if found.ruling is space.Ruling.REFUSE:
        text = f"{name} is in another vector space than family '{family}' (set by {known.set_by}): {found.message}"
        if (kept := references.path(key)) is not None:
            text += f"; if it is the reference that is out of date, remove {kept}"
        return _judgement(Verdict.BROKEN, "space", text)
    return None


def _request(probing: Probing, texts: list[str]) -> Request:
    fields = dict(probing.request.fields)
    fields["input"] = Raw(msgspec.json.encode(texts))
    request = probing.request
    return Request(
        method=request.method,
        path=request.path,
        endpoint=request.endpoint,
        kind=request.kind,
        headers=request.headers,
        body=write_fields(fields),
        query=request.query,
        own_base=request.own_base,
        fields=fields,
        model=request.model,
    )


def _exchange(probing: Probing, request: Request) -> Exchange | Judgement:
    slot = probing.slot
    prepared = slot.route.writer.write(request, slot.key, slot.lengths, slot.route.health.dropped)
    if isinstance(prepared, Judgement):
        return prepared
    route = slot.route.config
    return Exchange(prepared, probing.until, connect=probing.connect, provider=route.provider, model=route.model)


def _judgement(verdict: Verdict, reason: str, message: str) -> Judgement:
    if verdict is Verdict.BROKEN:
        return Judgement(verdict, Scope.MODEL, reason, message, cooldown=MISCONFIGURED_FOR)
    return Judgement(verdict, Scope.MODEL, reason, message)


def _under_way(message: str) -> Judgement:
    """Nobody's failure: this route is asked again, after the others."""
    return Judgement(Verdict.TRANSIENT, Scope.REQUEST, "space check under way", message)
