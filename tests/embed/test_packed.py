"""The packed reader gives what the strict reader gives, to the bit, and leaves every oddity to it."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shim import _packed
from shim._core import vectors
from shim._core.outcome import Judgement
from shim._core.vectors import Embedded, Wanted

FLOATS = st.floats(-100, 100, width=64).filter(lambda number: number == 0 or abs(number) > 1e-6)


def _body(rows: list[Any], indexes: list[Any] | None = None, **rest: Any) -> bytes:
    data = [{"object": "embedding", "embedding": row} for row in rows]
    for place, row in enumerate(data):
        row["index"] = place if indexes is None else indexes[place]
    return json.dumps({"object": "list", "data": data, "model": "m", "usage": {"prompt_tokens": 7}, **rest}).encode()


@pytest.fixture(params=["simdjson", "numpy"])
def _reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "numpy":
        monkeypatch.setattr(_packed, "_simdjson", lambda: None)


@pytest.mark.usefixtures("_reader")
@pytest.mark.parametrize(
    "order", [[0, 1, 2], [2, 0, 1], [None, None, None], ["1", "0", "2"]], ids=["in order", "mixed", "none", "words"]
)
@pytest.mark.parametrize("spaced", [False, True], ids=["as json.dumps writes it", "spread out"])
def test_numbers_are_read_as_strictly_as_by_the_strict_reader(order: list[Any], spaced: bool) -> None:
    rows = [[0.1, -2, 3.5e-3, 1e-9], [1, 2, 3, 4], [0.3333333333333333, 0.0, -0.0, 5.25]]
    body = _body(rows, order)
    if spaced:
        body = body.replace(b",", b" ,\n ").replace(b":", b" : ").replace(b"[", b"[ ").replace(b"]", b" ]")
    wanted = Wanted(count=3)
    ours, theirs = _packed.read(body, wanted), vectors.read(body, wanted)
    assert isinstance(ours, Embedded)
    assert isinstance(theirs, Embedded)
    assert ours.packed() == theirs.packed()
    assert (ours.input_tokens, ours.model, ours.reordered) == (theirs.input_tokens, theirs.model, theirs.reordered)
    assert not ours.rows, "no Python number was made"


@settings(deadline=None)
@given(st.lists(st.lists(FLOATS, min_size=3, max_size=3), min_size=1, max_size=5))
def test_any_numbers_become_the_same_float32(rows: list[list[float]]) -> None:
    body, wanted = _body(rows), Wanted(count=len(rows))
    ours, theirs = _packed.read(body, wanted), vectors.read(body, wanted)
    if isinstance(theirs, Judgement):
        assert ours == theirs
    else:
        assert isinstance(ours, Embedded)
        assert ours.packed() == theirs.packed()


@pytest.mark.usefixtures("_reader")
@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([[1.0, 2.0], [3.0]], id="ragged"),
        pytest.param([[1.0, 2.0], [0.0, 0.0]], id="zeros"),
        pytest.param([[1.0, 2.0], None], id="a null vector"),
        pytest.param([[1.0, 2.0], [1.0, None]], id="a null inside"),
        pytest.param([[1.0, 2.0], ["a", "b"]], id="texts"),
        pytest.param([[1.0, 2.0], [[1.0], [2.0]]], id="a matrix for each token"),
        pytest.param([[1.0, 2.0], [1e30, 1.0]], id="implausible"),
        pytest.param([[1.0, 2.0]], id="one too few"),
        pytest.param([[], []], id="empty"),
        pytest.param([[True, False], [1.0, 2.0]], id="booleans"),
    ],
)
def test_what_is_wrong_gets_the_strict_readers_judgement(rows: list[Any]) -> None:
    body = _body(rows)
    found = _packed.read(body, Wanted(count=2))
    assert isinstance(found, Judgement)
    assert found == vectors.read(body, Wanted(count=2))


@pytest.mark.usefixtures("_reader")
def test_another_length_than_the_familys_is_named() -> None:
    found = _packed.read(_body([[1.0, 2.0]]), Wanted(count=1, dimensions=3))
    assert isinstance(found, Judgement)
    assert found.reason == "wrong_length"


@pytest.mark.usefixtures("_reader")
def test_a_cut_family_is_cut_and_scaled() -> None:
    found = _packed.read(_body([[3.0, 4.0, 12.0]]), Wanted(count=1, dimensions=3, truncate_to=2))
    assert isinstance(found, Embedded)
    assert np.frombuffer(found.packed(), "<f4").tolist() == [np.float32(0.6), np.float32(0.8)]


def test_base64_goes_the_strict_way() -> None:
    payload = base64.b64encode(struct.pack("<2f", 1.5, -2.5)).decode()
    body = _body([payload])
    assert _packed.read(body, Wanted(count=1)) == vectors.read(body, Wanted(count=1))


@pytest.mark.usefixtures("_reader")
def test_broken_json_is_named() -> None:
    body = _body([[1.0, 2.0]])[:-9]
    found = _packed.read(body, Wanted(count=1))
    assert isinstance(found, Judgement)
    assert found.reason == "malformed"
