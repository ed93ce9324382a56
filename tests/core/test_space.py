"""Two routes are compared by what they answer for the same texts."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim._core.space import LONG_PROBE, PROBES, Reading, Ruling, compare, dump, load, self_check

Vector = tuple[float, ...]


def vector(seed: int, width: int = 48, shift: float = 0.0) -> Vector:
    """A unit vector; `shift` moves them all towards one direction, as anisotropic models do."""
    source = random.Random(seed)
    raw = [source.gauss(0, 1) + shift for _ in range(width)]
    norm = math.hypot(*raw)
    return tuple(component / norm for component in raw)


def reading(seed: int = 0, width: int = 48, shift: float = 0.0) -> Reading:
    vectors = tuple(vector(seed * 100 + k, width, shift) for k in range(len(PROBES)))
    return Reading(vectors, vectors, vector(seed * 100 + 50, width, shift))


def scaled(vectors: tuple[Vector, ...], factor: float) -> tuple[Vector, ...]:
    return tuple(tuple(factor * component for component in one) for one in vectors)


def noisy(vectors: tuple[Vector, ...], share: float, seed: int = 99) -> tuple[Vector, ...]:
    """Each vector moved by `share` of its length in a direction of its own."""
    moved = []
    for k, one in enumerate(vectors):
        push = vector(10_000_000 + seed * 1000 + k, len(one))  # no seed of a reading: it would only be longer
        moved.append(tuple(a + share * b for a, b in zip(one, push, strict=True)))
    return tuple(moved)


def test_the_probes_are_sixteen_different_texts_and_a_long_one() -> None:
    assert len(set(PROBES)) == len(PROBES) == 16
    assert all(0 < len(probe) < 100 for probe in PROBES)
    assert 600 <= len(LONG_PROBE.split()) <= 800
    assert len(LONG_PROBE) < 8192, "a byte is at least a token nowhere: this fits every larger context"


@given(seed=st.integers(0, 1000), shift=st.sampled_from([0.0, 1.0, 3.0]))
def test_a_space_accepts_itself(seed: int, shift: float) -> None:
    one = reading(seed, shift=shift)
    for found in (compare(one, one), self_check(one)):
        assert found.ruling is Ruling.ACCEPT
        assert found.noise == 0
        assert found.norm_ratio == pytest.approx(1)


@given(seed=st.integers(0, 1000), factor=st.floats(0.01, 100))
def test_noise_does_not_depend_on_length_and_length_alone_refuses(seed: int, factor: float) -> None:
    one, other = reading(seed), reading(seed)
    other = replace(other, singles=scaled(noisy(other.singles, 0.02), factor))
    found = compare(one, other)
    assert found.noise == pytest.approx(compare(one, replace(other, singles=noisy(one.singles, 0.02))).noise)
    assert found.norm_ratio == pytest.approx(factor, rel=0.01)
    if not 0.89 < factor < 1.11:
        assert found.ruling is Ruling.REFUSE
        assert "dot products" in found.message
    elif 0.92 < factor < 1.08:
        assert found.ruling is Ruling.ACCEPT


@given(seed=st.integers(0, 1000), order=st.permutations(range(len(PROBES))), shift=st.sampled_from([0.0, 2.0]))
def test_any_permutation_of_the_rows_is_refused(seed: int, order: list[int], shift: float) -> None:
    one = reading(seed, shift=shift)
    moved = tuple(one.singles[k] for k in order)
    wanted = Ruling.ACCEPT if order == sorted(order) else Ruling.REFUSE
    assert compare(one, replace(one, singles=moved)).ruling is wanted
    assert self_check(replace(one, batch=moved)).ruling is wanted


LEVELS = {0.0: Ruling.ACCEPT, 0.04: Ruling.ACCEPT, 0.1: Ruling.WARN, 0.18: Ruling.WARN, 0.3: Ruling.REFUSE}


@pytest.mark.parametrize(("share", "ruling"), LEVELS.items())
def test_noise_is_ruled_by_the_two_limits(share: float, ruling: Ruling) -> None:
    one = reading()
    found = compare(one, replace(one, singles=noisy(one.singles, share)))
    assert found.ruling is ruling, found
    assert f"{found.noise:.2g}" in found.message


def test_another_model_of_the_same_length_is_refused() -> None:
    found = compare(reading(1), reading(2))
    assert found.ruling is Ruling.REFUSE
    assert found.noise == pytest.approx(1, abs=0.1)
    assert "not the same vector space" in found.message


def test_another_model_is_refused_where_unrelated_texts_are_close() -> None:
    """In an anisotropic space cosine between different models' vectors is high; the measure is not fooled."""
    one, other = reading(1, shift=3.0), reading(2, shift=3.0)
    cosine = sum(a * b for a, b in zip(one.singles[0], other.singles[0], strict=True))
    assert cosine > 0.8
    assert compare(one, other).ruling is Ruling.REFUSE


def test_garbage_from_the_second_text_of_a_batch_on_is_refused() -> None:
    one = reading(1)
    found = self_check(replace(one, batch=(one.batch[0], *reading(2).batch[1:])))
    assert found.ruling is Ruling.REFUSE
    assert "batched" in found.message


def test_one_spoilt_text_is_refused_though_the_mean_is_low() -> None:
    one = reading(1)
    found = self_check(replace(one, batch=(*one.batch[:-1], vector(7777))))
    assert found.noise < 0.15
    assert found.ruling is Ruling.REFUSE


def test_another_truncation_warns_and_says_so() -> None:
    one = reading(1)
    found = compare(one, replace(one, long=vector(4321)))
    assert found.ruling is Ruling.WARN
    assert found.noise == 0
    assert found.long_noise is not None
    assert found.long_noise > 0.5
    assert "truncates" in found.message


@pytest.mark.parametrize("side", ["reference", "candidate"])
def test_a_long_probe_that_was_not_taken_is_not_compared(side: str) -> None:
    one = reading(1)
    without = replace(one, long=None)
    found = compare(without, one) if side == "reference" else compare(one, without)
    assert (found.ruling, found.long_noise) == (Ruling.ACCEPT, None)


MISSHAPEN = {
    "another length": (reading(1, width=40), "length 40 against 48"),
    "a text fewer": (replace(reading(1), singles=reading(1).singles[:15]), "15 probe vectors against 16"),
    "a long vector of another length": (replace(reading(1), long=vector(1, 30)), "30 and 48"),
    "no vectors": (Reading((), (), None), "0 probe vectors"),
    "NaN": (replace(reading(1), singles=(*reading(1).singles[:15], (math.nan,) * 48)), "NaN"),
}


@pytest.mark.parametrize(("candidate", "words"), MISSHAPEN.values(), ids=MISSHAPEN)
def test_readings_of_another_shape_are_refused(candidate: Reading, words: str) -> None:
    found = compare(reading(1), candidate)
    assert found.ruling is Ruling.REFUSE
    assert words in found.message


def test_a_reference_that_tells_no_texts_apart_is_refused() -> None:
    same = (vector(1),) * 16
    assert self_check(Reading(same, same, None)).ruling is Ruling.REFUSE


def test_zero_vectors_are_refused_and_do_not_raise() -> None:
    one = reading(1)
    zeros = ((0.0,) * 48,) * 16
    assert compare(one, replace(one, singles=zeros)).ruling is Ruling.REFUSE
    assert compare(replace(one, singles=zeros), one).ruling is Ruling.REFUSE


@pytest.mark.parametrize("has_long", [True, False], ids=["with the long probe", "without"])
def test_a_kept_reading_comes_back_to_float32(has_long: bool) -> None:
    one = reading(3) if has_long else replace(reading(3), long=None)
    again = load(dump(one))
    assert compare(one, again).noise < 1e-6
    assert (again.long is None) == (one.long is None)
    assert load(dump(again)) == again
    assert len(again.batch) == len(again.singles) == 16


def test_batch_and_singles_are_kept_apart() -> None:
    again = load(dump(Reading(reading(1).batch, reading(2).singles, None)))
    assert self_check(again).ruling is Ruling.REFUSE


KEPT = dump(reading(1))
DAMAGED = {
    "empty": (b"", "damaged"),
    "no JSON": (KEPT[:-9], "damaged"),
    "other probes": (KEPT.replace(b'"probes":"', b'"probes":"f'), "other probe texts"),
    "cut short": (KEPT.replace(b'"batch":16', b'"batch":17'), "cut short"),
    "negative": (KEPT.replace(b'"batch":16', b'"batch":-1'), "cut short"),
}


@pytest.mark.parametrize(("kept", "words"), DAMAGED.values(), ids=DAMAGED)
def test_a_kept_reading_that_cannot_be_trusted_is_an_error(kept: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        load(kept)


def test_a_reading_of_unequal_vectors_is_not_kept() -> None:
    with pytest.raises(ValueError, match="one length"):
        dump(replace(reading(1), long=vector(1, 30)))
