"""Texts longer than the model takes: blank parts, parts that come twice, the same text many times."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shim.embed.store import Store
from shim.embed.tokens import Counter
from tests.embed.serving import Embed, Provider, config
from tests.support.server import Server


def _limited(server: Server) -> dict[str, Any]:
    """A route that takes 20 tokens a text."""
    given = config(server)
    given["families"]["fam"]["routes"] = [{"provider": "a", "model": "m-a", "max_input_tokens": 20}]
    return given


@pytest.mark.parametrize("oversize", ["truncate", "split-mean"])
def test_white_space_alone_is_never_sent_as_a_part(
    embed: Embed, server: Server, provider: Provider, oversize: str
) -> None:
    """Many hosts refuse it, and the whole text would be lost with it."""

    texts = [" \n" * 400 + "the sea", "the sea" + " \n" * 400]
    job = embed(_limited(server), texts, oversize=oversize)
    assert not any(text.isspace() for text in provider.asked)
    kinds = job.errors[["index", "kind"]].to_numpy().tolist()
    assert kinds == ([[0, "empty"]] if oversize == "truncate" else [])
    assert job.summary().done == (1 if oversize == "truncate" else 2)


def test_a_part_that_comes_twice_in_a_text_is_averaged_once(
    embed: Embed, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One vector more is kept for the text, and its parts' weights count each time."""
    kept: list[int] = []
    put = Store.put

    def counted(store: Store, keys: Any, *rest: Any) -> Any:
        kept.append(len(keys))
        return put(store, keys, *rest)

    monkeypatch.setattr(Store, "put", counted)
    job = embed(_limited(server), ["ab " * 200], oversize="split-mean")
    assert job.summary().done == 1
    assert sum(kept) == job.summary().embedded + 1


def test_a_long_text_that_comes_often_is_measured_once(
    embed: Embed, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[int] = []
    estimate = Counter.estimate

    def counted(counter: Counter, text: str) -> int:
        measured.append(len(text))
        return estimate(counter, text)

    monkeypatch.setattr(Counter, "estimate", counted)
    long = " ".join(f"word{number}" for number in range(60))
    job = embed(_limited(server), [long] * 1000)
    assert job.summary().errors == {"oversize": 1000}
    assert measured.count(len(long)) <= 3
    found = embed(_limited(server), ["short", *[long] * 10], dry_run=True)
    assert (found.bad, found.oversize, found.to_embed, found.duplicates) == (10, 10, 1, 0)


def test_a_text_is_cut_anew_when_the_model_takes_more(embed: Embed, server: Server, provider: Provider) -> None:
    texts, notes = ["short", " ".join(f"word{number}" for number in range(200))], []
    for limit in (20, 40, 40, 20):
        given = _limited(server)
        given["families"]["fam"]["routes"][0]["max_input_tokens"] = limit
        job = embed(given, texts, oversize="truncate")
        notes.append((job.provenance["note"][1].split(" of ")[0], job.summary().cached))
    assert notes == [("cut to 20", 0), ("cut to 40", 1), ("cut to 40", 2), ("cut to 20", 2)]
    assert sorted(provider.asked.values()) == [1, 1, 1]
