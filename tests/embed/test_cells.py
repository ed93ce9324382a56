"""One cell of a column: a text, or the reason why there is none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from shim.embed.cells import ErrorKind, RowError, look


@pytest.mark.parametrize(
    ("cell", "kind", "says"),
    [
        pytest.param(None, ErrorKind.NULL, "null", id="None"),
        pytest.param(float("nan"), ErrorKind.NULL, "NaN", id="a float NaN"),
        pytest.param(np.float32("nan"), ErrorKind.NULL, "NaN", id="a NumPy NaN"),
        pytest.param(pd.NA, ErrorKind.NULL, "<NA>", id="pandas NA"),
        pytest.param(pd.NaT, ErrorKind.NULL, "NaT", id="pandas NaT"),
        pytest.param("", ErrorKind.EMPTY, "empty", id="an empty text"),
        pytest.param(" \t\n\u3000", ErrorKind.EMPTY, "white space", id="white space of several kinds"),
        pytest.param(7, ErrorKind.REJECTED, "int (7)", id="a number"),
        pytest.param(2.5, ErrorKind.REJECTED, "float (2.5)", id="a float"),
        pytest.param(np.float64(2.5), ErrorKind.REJECTED, "2.5", id="a NumPy float"),
        pytest.param(b"bytes", ErrorKind.REJECTED, "bytes", id="bytes"),
        pytest.param(["a"], ErrorKind.REJECTED, "list", id="a list"),
        pytest.param("bad \ud800 one", ErrorKind.REJECTED, "4 is the lone surrogate U+D800", id="a surrogate"),
        pytest.param("bad\x00", ErrorKind.REJECTED, "character 3 is the control character U+0000", id="a NUL"),
        pytest.param("\x1b[1mbold", ErrorKind.REJECTED, "U+001B", id="an escape"),
    ],
)
def test_a_bad_cell_says_what_it_is(cell: Any, kind: ErrorKind, says: str) -> None:
    found = look(cell)
    assert isinstance(found, RowError)
    assert found.kind is kind
    assert says in found.message


@pytest.mark.parametrize(
    "cell",
    ["a", "é", "line\nbreak\ttab\r\n", "form\x0cfeed", "🙂", np.str_("numpy"), "next\x85line", "0"],
    ids=["letter", "accent", "white space inside", "form feed", "emoji", "numpy text", "NEL", "a digit"],
)
def test_a_text_is_its_utf8(cell: str) -> None:
    assert look(cell) == str(cell).encode()


def test_a_long_number_is_shown_short() -> None:
    found = look(10**200)
    assert isinstance(found, RowError)
    assert len(found.message) < 130
