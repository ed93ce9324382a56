"""Turns rows into distinct texts to embed: bad cells become error rows, known texts are looked up, long ones cut."""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Sequence
from dataclasses import dataclass, field

from shim.embed.batches import Item
from shim.embed.cells import ErrorKind, RowError, look
from shim.embed.identity import Oversize, SpaceIdentity
from shim.embed.sources import Piece
from shim.embed.store import Place, Shortened, Store
from shim.embed.tokens import Counter
from shim.embed.windows import Mean, Window

Waiting = tuple[Window, int] | Mean


@dataclass(frozen=True, slots=True)
class Measure:
    """How long a text may be (`input_tokens`, None: unknown) and how texts are counted.

    `is_counted` has every text counted, for money; else bytes bound it, unless a request's room is tight.
    `request_room` is the tokens that a request has for each of its inputs.
    """

    counter: Counter
    input_tokens: int | None
    request_room: float
    is_counted: bool


@dataclass(slots=True)
class Tally:
    """What was seen of the rows, before anything was sent."""

    rows: int = 0
    bad: int = 0
    duplicates: int = 0
    cached: int = 0
    oversize: int = 0
    unique: int = 0
    tokens: int = 0
    errors: Counts[str] = field(default_factory=Counts)
    """Bad rows by kind."""
    reasons: dict[str, str] = field(default_factory=dict)
    """The first bad row of each kind."""

    def is_bad(self, row: int, error: RowError) -> None:
        """Count a bad row."""
        kind = error.kind.value
        self.bad += 1
        self.errors[kind] += 1
        self.reasons.setdefault(kind, f"row {row}: {error.message}")


@dataclass(slots=True)
class Intake:
    """Reads pieces of a source into windows. `waiting` is who waits for which text: rows, and means of parts."""

    space: SpaceIdentity
    measure: Measure
    store: Store | None
    tally: Tally = field(default_factory=Tally)
    waiting: dict[bytes, list[Waiting]] = field(default_factory=dict)
    complete: list[Mean] = field(default_factory=list)
    """Means whose parts were all known already."""
    shortened: dict[bytes, Shortened] = field(default_factory=dict)
    _rows: int = 0
    _earlier: int = 0

    def __post_init__(self) -> None:
        if self.store is not None:
            self._earlier = self.store.last_batch

    def take(self, piece: Piece) -> tuple[Window, list[Item], list[Item]]:
        """The window of a piece, its texts that must be asked for (short ones first), and those refused before."""
        texts: dict[bytes, tuple[str, int]] = {}
        keys, errors = self._keys_of(piece, texts)
        self._tell_apart(keys, texts)
        window = Window(self._rows, keys, piece.table, errors)
        self._rows += len(window)
        self.tally.rows += len(window)
        for row, error in errors.items():
            self.tally.is_bad(window.start + row, error)
        known, refused = self._known([key for key in texts if key not in self.waiting])
        items = self._waited_for(window, texts, known)
        suspects = [item for item in items if item.key in refused]
        fresh = [item for item in items if item.key not in refused] if suspects else items
        fresh.sort(key=lambda item: item.tokens)
        return window, fresh, suspects

    def _keys_of(
        self, piece: Piece, texts: dict[bytes, tuple[str, int]]
    ) -> tuple[list[bytes | None], dict[int, RowError]]:
        key_of = self.space.keys()
        keys: list[bytes | None] = []
        errors: dict[int, RowError] = {}
        for row, cell in enumerate(piece.cells):
            encoded = look(cell)
            if isinstance(encoded, RowError):
                errors[row] = encoded
                keys.append(None)
                continue
            key = key_of(encoded)
            keys.append(key)
            texts[key] = (cell, len(encoded))
        return keys, errors

    def _tell_apart(self, keys: list[bytes | None], texts: dict[bytes, tuple[str, int]]) -> None:
        """A text that was cut shorter, when its model took less, has another vector now: a key with the new limit."""
        limit = self.measure.input_tokens
        if self.store is None or limit is None or self.space.oversize is not Oversize.TRUNCATE:
            return
        known = self.store.shortened(list(texts))
        stale = {key for key, one in known.items() if one.parts == 1 and one.kept < limit}
        if not stale:
            return
        key_of = self.space.keys()
        renewed = {key: key_of(texts[key][0].encode() + f"\0{limit}".encode()) for key in stale}  # no text holds a NUL
        for key, other in renewed.items():
            texts[other] = texts.pop(key)
        keys[:] = [key if key is None else renewed.get(key, key) for key in keys]

    def _known(self, keys: Sequence[bytes]) -> tuple[dict[bytes, Place], dict[bytes, RowError]]:
        if self.store is None:
            return {}, {}
        return self.store.find(keys), self.store.suspects(keys)

    def _waited_for(self, window: Window, texts: dict[bytes, tuple[str, int]], known: dict[bytes, Place]) -> list[Item]:
        items: list[Item] = []
        failed: dict[bytes, RowError] = {}
        is_tight = self._is_tight(texts)
        for row, key in enumerate(window.keys):
            if key is None:
                continue
            place = known.get(key)
            if place is not None:
                window.found(row, place)
                if place[1] <= self._earlier:
                    self.tally.cached += 1
                else:
                    self.tally.duplicates += 1
                continue
            waiting = self.waiting.get(key)
            if waiting is None:
                error = failed.get(key) or self._begin(key, *texts[key], items, is_tight)
                if error is not None:
                    window.errors[row] = failed[key] = error
                    self.tally.is_bad(window.start + row, error)
                    self.tally.oversize += error.kind is ErrorKind.OVERSIZE
                    continue
                waiting = self.waiting[key]
            else:
                self.tally.duplicates += 1
            waiting.append((window, row))
            window.open_rows += 1
        return items

    def _is_tight(self, texts: dict[bytes, tuple[str, int]]) -> bool:
        """Whether counting bytes for tokens would make batches smaller than they need be."""
        total = sum(size for _, size in texts.values())
        return self.measure.is_counted or total > self.measure.request_room * max(1, len(texts))

    def _begin(self, key: bytes, text: str, size: int, items: list[Item], is_tight: bool) -> RowError | None:
        """Ask for a text that nobody has asked for; an error if it is too long and the policy says so."""
        measure, limit = self.measure, self.measure.input_tokens
        fits = measure.counter.fits(text, size, limit)
        if fits:
            self.waiting[key] = []
            count = measure.counter.estimate(text) if is_tight else measure.counter.bound(size)
            items.append(Item(key, text, min(count, limit or count)))
            self._counted(count)
            return None
        assert limit is not None
        count = measure.counter.estimate(text)
        match self.space.oversize:
            case Oversize.ERROR:
                message = (
                    f"about {count:,} tokens where the model takes {limit:,}: cut or split it, or say "
                    "oversize='truncate' or 'split-mean'"
                )
                return RowError(ErrorKind.OVERSIZE, message)
            case Oversize.TRUNCATE:
                cut = measure.counter.cut(text, limit)[0]
                if cut.isspace():
                    return RowError(
                        ErrorKind.EMPTY, f"the first {limit:,} tokens are white space alone: strip the text"
                    )
                self.tally.oversize += 1
                self.waiting[key] = []
                items.append(Item(key, cut, limit))
                self.shortened[key] = Shortened(count, limit, 1)
                self._counted(limit)
            case Oversize.SPLIT_MEAN:
                self.tally.oversize += 1
                self._split(key, text, count, limit, items)
        return None

    def _counted(self, tokens: int) -> None:
        self.tally.unique += 1
        self.tally.tokens += tokens

    def _split(self, key: bytes, text: str, count: int, limit: int, items: list[Item]) -> None:
        parts = [part for part in self.measure.counter.cut(text, limit) if not part.isspace()]
        weights = [self.measure.counter.estimate(part) for part in parts]
        key_of = self.space.keys()
        keys = [key_of(part.encode()) for part in parts]
        mean = Mean(key, keys, weights)
        self.waiting[key] = []
        self.shortened[key] = Shortened(count, count, len(parts))
        known, _ = self._known(keys)
        mean.places.update(known)
        if mean.is_complete:
            self.complete.append(mean)
        for part_key, (part, weight) in dict(zip(keys, zip(parts, weights, strict=True), strict=True)).items():
            if part_key in known:
                continue
            if part_key not in self.waiting:
                self.waiting[part_key] = []
                items.append(Item(part_key, part, min(weight, limit)))
                self._counted(weight)
            self.waiting[part_key].append(mean)
