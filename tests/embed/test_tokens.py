"""Counting and cutting without a network."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shim.embed import tokens
from shim.embed.tokens import Counter

EXACT = Counter.of(["text-embedding-3-small", "openai/text-embedding-3-small"])
OTHER = Counter.of(["BAAI/bge-m3"])
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200)


@pytest.mark.parametrize(
    ("text", "count"),
    [("hello world", 2), ("tiktoken is great!", 6), ("お誕生日おめでとう", 9), ("2 + 2 = 4", 7)],
    ids=["english", "punctuation", "japanese", "numbers"],
)
def test_counts_are_those_of_the_openai_cookbook(text: str, count: int) -> None:
    """The figures of "How to count tokens with tiktoken" for cl100k_base."""
    assert EXACT.estimate(text) == count


def test_only_openai_models_are_counted_exactly() -> None:
    assert EXACT.is_exact
    assert not OTHER.is_exact
    assert OTHER.estimate("hello world") > EXACT.estimate("hello world")


@settings(deadline=None)
@given(TEXTS)
def test_bytes_bound_the_count(text: str) -> None:
    size = len(text.encode())
    assert EXACT.estimate(text) <= EXACT.bound(size)


@settings(deadline=None)
@given(TEXTS, st.integers(4, 40))
def test_pieces_are_the_text_and_fit(text: str, limit: int) -> None:
    """Nothing is lost at a cut, no character is torn, and each piece has its tokens or is one character more."""
    pieces = EXACT.cut(text, limit)
    assert "".join(pieces) == text
    assert all(EXACT.estimate(piece) <= limit + 4 for piece in pieces)


def test_special_words_are_plain_text() -> None:
    """A text that holds a model's control word is counted, not refused."""
    assert EXACT.estimate("<|endoftext|>") > 1


@pytest.mark.parametrize(
    ("text", "limit", "fits"),
    [
        pytest.param("short", 100, True, id="bytes are enough to know"),
        pytest.param("word " * 60, 100, True, id="counted, it fits"),
        pytest.param("word " * 200, 100, False, id="counted, it does not"),
        pytest.param("word " * 10_000, None, True, id="no limit is known"),
    ],
)
def test_what_fits(text: str, limit: int | None, fits: bool) -> None:
    assert EXACT.fits(text, len(text.encode()), limit) is fits


def test_without_a_vocabulary_bytes_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long text goes through for the provider to judge; cuts fall between characters."""
    monkeypatch.setattr("shim.embed.tokens._vocabulary", lambda: None)
    assert EXACT.estimate("hello") == 8
    assert EXACT.fits("word " * 100, 500, 100)
    pieces = EXACT.cut("é" * 50, 23)
    assert "".join(pieces) == "é" * 50
    assert all(len(piece.encode()) <= 20 for piece in pieces)


@pytest.mark.parametrize(
    "word", ["a" * 5000, "-" * 5000, " " * 5000, "漢字" * 2500], ids=["letters", "marks", "spaces", "ideographs"]
)
def test_a_word_without_end_is_counted_in_parts(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The vocabulary takes the square of a word's length: 40,000 letters took a minute."""
    vocabulary, longest = tokens._vocabulary(), 0

    class Watched:
        decode_bytes = staticmethod(vocabulary.decode_bytes)

        @staticmethod
        def encode_ordinary(text: str) -> list[int]:
            nonlocal longest
            longest = max(longest, len(text))
            return list(vocabulary.encode_ordinary(text))

    whole = len(vocabulary.encode_ordinary(word))
    monkeypatch.setattr(tokens, "_vocabulary", Watched)
    assert whole <= EXACT.estimate(word) <= whole * 1.05 + 1
    assert "".join(EXACT.cut(word, 100)) == word
    assert longest < 1000
