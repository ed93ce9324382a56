"""Every collected answer becomes a cassette that replays to its verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import openai
import pytest

import shim
from shim.testing import storage, use_cassette
from shim.testing.corpus import convert
from shim.testing.scrubbing import Scrubber
from tests.http.test_corpus import ITEMS, _call, _router
from tests.http.test_corpus import _outcome as served
from tests.shared_data import corpus_dir
from tests.support.faces import Face, all_of, out

PATHS = {path.stem: path for path in sorted((corpus_dir() / "dev").rglob("*.json"))}


async def replayed(item: dict[str, Any], path: Path, face: Face) -> tuple[shim.Call, BaseException | None]:
    """The call that the item is an answer to, answered from its cassette whatever it sends."""
    router = _router(item)
    client = face.client(router, api_key="none", max_retries=0)
    try:
        with use_cassette(path, match=(), all_used=True):
            answer = await out(_call(client, item))
            if "stream" in item["kind"]:
                await all_of(answer)
    except openai.APIError as error:
        return router.calls[-1], error
    return router.calls[-1], None


def test_there_are_two_hundred() -> None:
    assert len(ITEMS) == len(PATHS) == 200


@pytest.mark.parametrize("item", ITEMS, ids=[item["id"] for item in ITEMS])
async def test_a_collected_answer_replays_to_its_verdict(item: dict[str, Any], tmp_path: Path, plain: Face) -> None:
    """As it does when its bytes come over a transport (tests/http/test_corpus.py checks that against the table)."""
    path = convert(PATHS[item["id"]], tmp_path)
    metadata, (recording,) = storage.read(path)
    assert metadata["licence"]
    assert Scrubber().scrub(recording) == (recording, [])
    call, error = await replayed(item, path, plain)
    expected, wanted = served(item, Face(False))
    assert (call.attempts[-1].verdict, call.attempts[-1].scope) == (
        expected.attempts[-1].verdict,
        expected.attempts[-1].scope,
    )
    assert (error is None) == (wanted is None)
