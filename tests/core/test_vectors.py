"""An embeddings answer is read into vectors in input order, or judged."""

from __future__ import annotations

import base64
import json
import math
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim._core.outcome import Judgement
from shim._core.vectors import Embedded, Wanted, read
from shim.events import Scope, Verdict

ROWS = [[0.5, -0.25, 0.125, 1.0], [0.25, 0.75, -1.0, 0.5], [-0.5, 0.5, 0.5, -0.5]]
FULL = [0.1234567 + 0.0371 * k for k in range(32)]


def b64(row: list[float], code: str = "<f") -> str:
    return base64.b64encode(struct.pack(f"{code[0]}{len(row)}{code[1]}", *row)).decode()


def answer(rows: list[Any], indexes: list[Any] | None = None, **extra: Any) -> bytes:
    places = list(range(len(rows))) if indexes is None else indexes
    data = [{"object": "embedding", "index": place, "embedding": row} for place, row in zip(places, rows, strict=True)]
    body = {"object": "list", "data": data, "model": "m-1", "usage": {"prompt_tokens": 9, "total_tokens": 9}}
    return json.dumps({**body, **extra}).encode()


def good(body: bytes, wanted: Wanted | None = None) -> Embedded:
    result = read(body, wanted or Wanted(len(ROWS), 4))
    assert isinstance(result, Embedded), result
    return result


def bad(body: bytes, wanted: Wanted | None = None) -> Judgement:
    result = read(body, wanted or Wanted(len(ROWS), 4))
    assert isinstance(result, Judgement), result
    return result


@pytest.mark.parametrize("rows", [ROWS, [b64(row) for row in ROWS]], ids=["numbers", "base64"])
def test_a_good_answer_gives_every_vector_and_can_be_passed_on(rows: list[Any]) -> None:
    result = good(answer(rows))
    assert result.floats() == ROWS
    assert result.packed() == b"".join(struct.pack("<4f", *row) for row in ROWS)
    assert (result.count, result.dimensions, result.input_tokens, result.model) == (3, 4, 9, "m-1")
    assert result.intact
    assert not result.reordered
    assert result.base64 == isinstance(rows[0], str)


@pytest.mark.parametrize(
    ("wanted", "dimensions"),
    [(Wanted(0), 0), (Wanted(0, 4), 4), (Wanted(0, 4, truncate_to=2), 2), (Wanted(0, int8=True), 0)],
    ids=["of any length", "of a known length", "to be cut", "of int8"],
)
def test_no_vectors_are_a_good_answer_to_no_inputs(wanted: Wanted, dimensions: int) -> None:
    result = good(answer([]), wanted)
    assert (result.count, result.dimensions, result.floats(), result.packed()) == (0, dimensions, [], b"")
    for as_base64 in (True, False):
        assert json.loads(result.body(model="m", base64=as_base64))["data"] == []


def test_no_vectors_can_be_passed_on() -> None:
    assert good(answer([]), Wanted(0)).intact
    assert not good(answer([]), Wanted(0)).base64


def test_a_vector_for_no_input_is_one_too_many() -> None:
    assert bad(answer(ROWS[:1]), Wanted(0)).reason == "long_answer"


def test_leading_whitespace_is_no_fault() -> None:
    assert good(b"\n\n   " + answer(ROWS)).intact


def test_base64_without_padding_is_read_but_not_passed_on() -> None:
    """Python's base64 module refuses it, so the official client would fail on the provider's own bytes."""
    result = good(answer([b64(row).rstrip("=") for row in ROWS]))
    assert result.floats() == ROWS
    assert not result.intact


def test_mixed_numbers_and_base64_are_read_but_not_passed_on() -> None:
    result = good(answer([ROWS[0], b64(ROWS[1]), ROWS[2]]))
    assert result.floats() == ROWS
    assert not result.intact


def test_whole_numbers_in_json_become_floats() -> None:
    result = good(answer([[1, 0, 2, -3]]), Wanted(1))
    assert [type(component) for component in result.floats()[0]] == [float] * 4


def test_inputs_that_nobody_can_count_may_bring_any_number() -> None:
    result = good(answer(ROWS), Wanted(None))
    assert (result.count, result.floats()) == (3, ROWS)
    assert good(answer([]), Wanted(None)).count == 0


@pytest.mark.parametrize("encode", [list, b64], ids=["numbers", "base64"])
def test_rows_in_another_order_are_sorted_by_index(encode: Any) -> None:
    result = good(answer([encode(ROWS[k]) for k in (2, 0, 1)], [2, 0, 1]))
    assert result.floats() == ROWS
    assert result.reordered
    assert not result.intact


ACCEPTED_INDEXES = {
    "all missing": [None, None, None],
    "strings of digits": ["0", "1", "2"],
}


@pytest.mark.parametrize("indexes", ACCEPTED_INDEXES.values(), ids=ACCEPTED_INDEXES)
def test_rows_without_a_usable_index_are_taken_in_order(indexes: list[Any]) -> None:
    result = good(answer(ROWS, indexes))
    assert result.floats() == ROWS
    assert not result.intact


def test_a_missing_index_key_is_taken_in_order() -> None:
    body = json.dumps({"data": [{"embedding": row} for row in ROWS]}).encode()
    assert good(body).floats() == ROWS


def test_strings_of_digits_are_followed_not_ignored() -> None:
    assert good(answer([ROWS[1], ROWS[0], ROWS[2]], ["1", "0", "2"])).floats() == ROWS


@pytest.mark.parametrize("index", [7, 1, True, 0.5, "x", None, {"a": 1}], ids=repr)
def test_a_single_row_needs_no_index(index: Any) -> None:
    result = good(answer([ROWS[0]], [index]), Wanted(1, 4))
    assert result.floats() == ROWS[:1]
    assert not result.intact


REFUSED_INDEXES = {
    "duplicate": [0, 1, 1],
    "all zero": [0, 0, 0],
    "one-based": [1, 2, 3],
    "floats": [0.0, 1.0, 2.0],
    "a float that truncates": [0, 1.9, 2],
    "booleans": [False, True, 2],
    "out of range": [0, 1, 7],
    "negative": [-1, 0, 1],
    "missing in one row": [0, None, 2],
    "words": ["a", "b", "c"],
    "superscript digits": ["0", "1", "²"],
    "mixed strings and numbers": [0, "1", 2],
    "an object": [0, {}, 2],
}


@pytest.mark.parametrize("indexes", REFUSED_INDEXES.values(), ids=REFUSED_INDEXES)
def test_an_index_that_makes_pairing_a_guess_is_judged(indexes: list[Any]) -> None:
    judgement = bad(answer(ROWS, indexes))
    assert (judgement.verdict, judgement.scope, judgement.reason) == (Verdict.TRANSIENT, Scope.MODEL, "bad_index")
    assert judgement.counts


TRANSIENT = {
    "a row too few": (answer(ROWS[:2]), "short_answer", "2 vectors for 3 inputs"),
    "no rows": (answer([]), "no_vectors", "0 vectors"),
    "a row too many": (answer([*ROWS, ROWS[0]]), "long_answer", "4 vectors"),
    "rows of two lengths": (answer([ROWS[0], ROWS[1][:3], ROWS[2]]), "ragged", "row 1 has 3"),
    "payloads of two lengths": (answer([b64(ROWS[0]), b64(ROWS[1]), b64(ROWS[2][:3])]), "ragged", "row 2 has 12"),
    "null vector": (answer([ROWS[0], None, ROWS[2]]), "null_vector", "row 1"),
    "no vector": (b'{"data":[{"index":0},{"index":1},{"index":2}]}', "null_vector", "row 0"),
    "empty list": (answer([ROWS[0], [], ROWS[2]]), "null_vector", "row 1 is empty"),
    "empty string": (answer(["", "", ""]), "null_vector", "row 0 is empty"),
    "null component": (answer([ROWS[0], ROWS[1], [0.5, None, 1.0, 2.0]]), "null_vector", "component 1 of row 2"),
    "bare NaN": (answer([[math.nan, 0.5, 0.5, 0.5], *ROWS[1:]]), "not_finite", "NaN"),
    "bare Infinity": (answer([[0.5, -math.inf, 0.5, 0.5], *ROWS[1:]]), "not_finite", "-Infinity"),
    "number beyond float": (answer(ROWS).replace(b"0.125", b"1e400"), "not_finite", "beyond"),
    "NaN in base64": (answer([b64(ROWS[0]), b64([math.nan, 1, 1, 1]), b64(ROWS[2])]), "not_finite", "row 1"),
    "infinity in base64": (answer([b64([1, 1, -math.inf, 1]), b64(ROWS[1]), b64(ROWS[2])]), "not_finite", "row 0"),
    "zeros": (answer([ROWS[0], [0.0, -0.0, 0, 0], ROWS[2]]), "zero_vector", "row 1"),
    "zeros in base64": (answer([b64(ROWS[0]), b64(ROWS[1]), b64([0.0, -0.0, 0, 0])]), "zero_vector", "row 2"),
    "huge numbers": (answer([ROWS[0], [1e30, 1, 1, 1], ROWS[2]]), "implausible", "1e+30"),
    "big-endian base64": (answer([b64(row, ">f") for row in ROWS]), "implausible", "big-endian"),
    "not base64": (answer(["%%%%", b64(ROWS[1]), b64(ROWS[2])]), "undecodable", "row 0"),
    "bytes that are no float32": (answer([base64.b64encode(b"abcde").decode()] * 3), "undecodable", "5 bytes"),
    "an object for a vector": (answer([{"float": ROWS[0]}, ROWS[1], ROWS[2]]), "undecodable", "object"),
    "numbers as strings": (answer([["0.5", "1"], ROWS[1], ROWS[2]]), "undecodable", "string"),
    "booleans in a vector": (answer([[True, 1, 1, 1], ROWS[1], ROWS[2]]), "undecodable", "boolean"),
    "a matrix per text": (answer([[ROWS[0], ROWS[1]], [ROWS[1]], [ROWS[2]]]), "token_matrix", "pooling"),
    "data null": (b'{"data": null}', "malformed", "'data' is null"),
    "no data": (b"{}", "malformed", "no 'data'"),
    "an error object": (b'{"error": {"code": 429}}', "malformed", "keys: error"),
    "a list": (b"[]", "malformed", "array"),
    "null": (b"null", "malformed", "null"),
    "empty": (b"", "malformed", "empty"),
    "HTML": (b"<!doctype html><p>[NaN]</p>", "malformed", "not readable JSON"),
    "cut off": (answer(ROWS)[:-40], "malformed", "not readable JSON"),
    "rows that are numbers": (b'{"data":[1,2,3]}', "malformed", "row 0"),
    "not UTF-8": (b'{"data":[{"embedding":"\xff"}]}', "malformed", "JSON"),
    "nested beyond reason": (b'{"data":' + b"[" * 100_000, "malformed", "JSON"),
}


@pytest.mark.parametrize(("body", "reason", "words"), TRANSIENT.values(), ids=TRANSIENT)
def test_an_answer_that_another_attempt_may_mend_is_transient(body: bytes, reason: str, words: str) -> None:
    judgement = bad(body, Wanted(3))
    assert (judgement.verdict, judgement.scope, judgement.counts) == (Verdict.TRANSIENT, Scope.MODEL, True)
    assert judgement.reason == reason
    assert words in judgement.message


BROKEN = {
    "numbers of another length": (answer([row[:3] for row in ROWS]), Wanted(3, 4), ["3 components", "4"]),
    "base64 of another length": (answer([b64(row) for row in ROWS]), Wanted(3, 6), ["4 components", "6"]),
    "twice the length": (answer([b64(FULL)]), Wanted(1, 16), ["32 components", "16"]),
    "float64": (answer([b64(row, "<d") for row in ROWS]), Wanted(3, 4), ["float64", "4 components"]),
    "int8": (answer([base64.b64encode(bytes(range(1, 33))).decode()]), Wanted(1, 32), ["int8", "32"]),
    "float64 of unknown length": (answer([b64(FULL, "<d")]), Wanted(1), ["float64", "32 components"]),
    "coarse float64 of unknown length": (answer([b64([0.5, -0.25, 0.75, 1.0] * 3, "<d")]), Wanted(1), ["float64"]),
    "shorter than the cut": (answer(ROWS), Wanted(3, None, truncate_to=9), ["4 components", "9"]),
    "int8 of another length": (
        answer([base64.b64encode(bytes(range(1, 33))).decode()]),
        Wanted(1, 4, int8=True),
        ["8", "4"],
    ),
}


@pytest.mark.parametrize(("body", "wanted", "words"), BROKEN.values(), ids=BROKEN)
def test_vectors_of_another_kind_say_that_the_route_is_misconfigured(
    body: bytes, wanted: Wanted, words: list[str]
) -> None:
    judgement = bad(body, wanted)
    assert (judgement.verdict, judgement.scope, judgement.reason) == (Verdict.BROKEN, Scope.MODEL, "wrong_length")
    assert judgement.cooldown == 86400.0
    assert all(word in judgement.message for word in words), judgement.message


def test_without_a_known_length_any_one_length_is_taken() -> None:
    assert good(answer(ROWS), Wanted(3)).dimensions == 4


@pytest.mark.parametrize("encode", [list, b64], ids=["numbers", "base64"])
def test_truncated_vectors_are_cut_and_have_unit_length(encode: Any) -> None:
    result = good(answer([encode(row) for row in ROWS]), Wanted(3, 4, truncate_to=2))
    assert result.dimensions == 2
    assert not result.intact
    for row, source in zip(result.floats(), ROWS, strict=True):
        assert math.hypot(*row) == pytest.approx(1.0, abs=1e-6)
        assert row[0] * source[1] == pytest.approx(row[1] * source[0], abs=1e-6)
    assert len(result.packed()) == 3 * 2 * 4


def test_a_cut_that_leaves_zeros_is_judged() -> None:
    assert bad(answer([[0.0, 0.0, 1.0, 1.0]]), Wanted(1, 4, truncate_to=2)).reason == "zero_vector"


def test_int8_payloads_become_floats_of_the_same_value() -> None:
    payload = struct.pack("4b", -10, 127, -128, 3)
    result = good(answer([base64.b64encode(payload).decode()]), Wanted(1, 4, int8=True))
    assert result.floats() == [[-10.0, 127.0, -128.0, 3.0]]
    assert not result.intact


def test_an_int8_route_that_answers_float32_after_all_is_read_as_such() -> None:
    assert good(answer([b64(row) for row in ROWS]), Wanted(3, 4, int8=True)).floats() == ROWS


UNKNOWN_USAGE = {"null": None, "zero": {"prompt_tokens": 0}, "a word": "many", "a boolean": {"prompt_tokens": True}}


@pytest.mark.parametrize("usage", UNKNOWN_USAGE.values(), ids=UNKNOWN_USAGE)
def test_unknown_usage_is_none_and_not_zero(usage: Any) -> None:
    result = good(answer(ROWS, usage=usage, model=None))
    assert result.input_tokens is None
    assert result.model is None
    assert "usage" not in json.loads(result.body(model="m", base64=False))


def test_total_tokens_stand_in_for_prompt_tokens() -> None:
    assert good(answer(ROWS, usage={"total_tokens": 5})).input_tokens == 5


def test_a_foreign_field_named_like_ours_changes_nothing() -> None:
    assert good(answer(ROWS, strict=False)).intact


@pytest.mark.parametrize("as_base64", [True, False], ids=["base64", "numbers"])
def test_the_canonical_body_reads_back_as_the_same_vectors(as_base64: bool) -> None:
    shuffled = good(answer([b64(ROWS[k]) for k in (1, 2, 0)], [1, 2, 0]))
    body = shuffled.body(model="named", base64=as_base64)
    again = good(body)
    assert again.floats() == ROWS
    assert again.intact
    assert (again.model, again.input_tokens, again.base64) == ("named", 9, as_base64)
    assert [item["object"] for item in json.loads(body)["data"]] == ["embedding"] * 3


components = st.floats(min_value=-100, max_value=100, width=32).filter(lambda x: x == 0 or abs(x) > 1e-6)
matrices = st.integers(1, 12).flatmap(
    lambda width: st.lists(
        st.lists(components, min_size=width, max_size=width).filter(any),
        min_size=1,
        max_size=6,
    )
)


@given(rows=matrices, as_base64=st.booleans(), data=st.data())
def test_any_permutation_comes_back_in_input_order(rows: list[list[float]], as_base64: bool, data: Any) -> None:
    places = data.draw(st.permutations(range(len(rows))))
    body = answer([b64(rows[k]) if as_base64 else rows[k] for k in places], list(places))
    result = good(body, Wanted(len(rows), len(rows[0])))
    assert result.floats() == rows
    assert result.reordered == (list(places) != sorted(places))


@given(
    body=st.binary(max_size=200)
    | matrices.map(answer).flatmap(lambda whole: st.integers(0, len(whole)).map(lambda n: whole[:n]))
)
def test_nothing_that_a_provider_sends_raises(body: bytes) -> None:
    assert isinstance(read(body, Wanted(2, 3)), Embedded | Judgement)


@given(
    data=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["data", "index", "embedding"]), inner),
    )
)
def test_no_json_of_another_shape_raises(data: Any) -> None:
    assert isinstance(read(json.dumps({"data": data}).encode(), Wanted(1)), Embedded | Judgement)
