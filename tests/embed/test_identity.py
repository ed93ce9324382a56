"""Keys: the same for the same text in the same space, different for anything else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from shim.embed.identity import Oversize, SpaceIdentity

SPACE = SpaceIdentity(
    family="bge-m3", dimensions=None, normalised=False, input_type="document", oversize=Oversize.ERROR
)


def test_keys_are_the_same_on_every_machine() -> None:
    """A store is found again after an upgrade: this value may only change together with the schema version."""
    assert SPACE.id == "54e1783d8c7b6b70c9ece74ef48113d3"
    assert SPACE.keys()(b"a text").hex() == "91ab38812652902754039b1980385e17"


@pytest.mark.parametrize(
    "change",
    [
        {"family": "bge-m4"},
        {"dimensions": 256},
        {"normalised": True},
        {"input_type": "query"},
        {"input_type": ""},
        {"oversize": Oversize.TRUNCATE},
        {"oversize": Oversize.SPLIT_MEAN},
    ],
    ids=str,
)
def test_whatever_decides_on_a_vector_decides_on_its_key(change: dict[str, Any]) -> None:
    other = replace(SPACE, **change)
    assert other.id != SPACE.id
    assert other.keys()(b"a text") != SPACE.keys()(b"a text")


def test_texts_that_differ_have_different_keys() -> None:
    key = SPACE.keys()
    assert len({key(text) for text in (b"a", b"b", b"a ", b"", "é".encode(), "e\u0301".encode())}) == 6
