"""Texts on their way: what is still to be sent, cut into batches by what a route takes. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from shim.embed.limits import Limits


@dataclass(slots=True, eq=False)
class Item:
    """One distinct text. `tokens` is the count or the upper bound that batches are planned with."""

    key: bytes
    text: str
    tokens: int


@dataclass(slots=True, eq=False)
class Batch:
    """Texts that go together, and what has befallen them.

    `tries` are failures that may have been the batch's own, `unsuitable` the routes that cannot serve it, `failed_at`
    and `failed_last_at` the instants of the first and of the last failure, also of the batch that it is a part of.
    """

    items: Sequence[Item]
    tokens: int
    tries: int = 0
    asked: int = 0
    is_suspect: bool = False
    unsuitable: frozenset[str] = frozenset()
    last_route: str = ""
    failed_at: float | None = None
    failed_last_at: float | None = None

    def halves(self) -> tuple[Batch, Batch]:
        """Two batches of about half the texts each, to find the bad one."""
        middle = (len(self.items) + 1) // 2
        return tuple(  # type: ignore[return-value]
            Batch(
                part,
                sum(item.tokens for item in part),
                asked=self.asked,
                is_suspect=True,
                failed_at=self.failed_at,
                failed_last_at=self.failed_last_at,
            )
            for part in (self.items[:middle], self.items[middle:])
        )

    def fits(self, limits: Limits) -> bool:
        """Whether a route with these limits takes it whole. A single text is never too many."""
        return len(self.items) == 1 or (len(self.items) <= limits.inputs and self.tokens <= limits.request_tokens)

    def split(self, limits: Limits) -> tuple[Batch, Batch]:
        """A first part that fits the limits, and the rest."""
        count = _fitting(self.items, limits)
        first, rest = self.items[:count], self.items[count:]
        return tuple(  # type: ignore[return-value]
            Batch(part, sum(item.tokens for item in part), self.tries, self.asked, self.is_suspect, self.unsuitable)
            for part in (first, rest)
        )


def _fitting(items: Iterable[Item], limits: Limits) -> int:
    """How many of the first texts fit into one request; at least one."""
    count = tokens = 0
    for item in items:
        tokens += item.tokens
        if count and (count >= limits.inputs or tokens > limits.request_tokens):
            break
        count += 1
    return count


@dataclass(slots=True)
class Backlog:
    """What is still to be sent: batches that come again first, then fresh texts in the order they were added."""

    again: deque[Batch] = field(default_factory=deque)
    fresh: deque[Item] = field(default_factory=deque)

    def __len__(self) -> int:
        """Texts, not batches."""
        return len(self.fresh) + sum(len(batch.items) for batch in self.again)

    def take(self, route: str, limits: Limits, better: frozenset[str] = frozenset()) -> Batch | None:
        """The next batch for a route, as large as it takes; None if there is nothing for it.

        With `better` routes named, only what none of them can serve.
        """
        for place, batch in enumerate(self.again):
            if route in batch.unsuitable or not better <= batch.unsuitable:
                continue
            del self.again[place]
            if batch.fits(limits):
                return batch
            first, rest = batch.split(limits)
            self.again.insert(place, rest)
            return first
        if not self.fresh or better:
            return None
        items: list[Item] = []
        tokens = 0
        while self.fresh and len(items) < limits.inputs:
            tokens += self.fresh[0].tokens
            if items and tokens > limits.request_tokens:
                tokens -= self.fresh[0].tokens
                break
            items.append(self.fresh.popleft())
        return Batch(items, tokens)

    def reconsider(self) -> bool:
        """Forget which routes cannot serve what; whether anything was forgotten."""
        found = [batch for batch in self.again if batch.unsuitable]
        for batch in found:
            batch.unsuitable = frozenset()
        return bool(found)

    def put_back(self, batch: Batch) -> None:
        """A batch that was taken and not sent."""
        self.again.appendleft(batch)
