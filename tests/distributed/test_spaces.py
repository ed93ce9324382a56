"""One vector space on all machines: the reference travels with the job."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest

from shim.embed import StoreError
from shim.embed.distributed import BatchEmbedder
from shim.embed.worker import dismiss
from tests.embed.serving import LENGTH, Provider, config, failing
from tests.support.server import Server

Machine = Callable[[str], None]
FRAME = pd.DataFrame({"text": ["one", "two"]})


@dataclass
class Family:
    """Two routes that give vectors of different spaces; one of them may be down."""

    first: Provider
    second: Provider
    embed: BatchEmbedder


@pytest.fixture
def family(tmp_path: Path) -> Iterator[Family]:
    first, second = Provider(), Provider(salt="another model")
    with Server(first) as one, Server(second) as two:
        routes = [{"provider": "a", "model": "m-a"}, {"provider": "b", "model": "m-b", "priority": 2}]
        written = config(one, two, policy={"space_check": True}, dimensions=LENGTH, routes=routes)
        yield Family(first, second, BatchEmbedder(written, column="text", patience=0.3))


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Go to another machine: a process and a disk that know nothing."""

    def go(name: str) -> None:
        dismiss()
        monkeypatch.setenv("SHIM_CACHE_DIR", str(tmp_path / name))

    return go


def _is_down(provider: Provider) -> None:
    provider.faults = [failing(1.0, 503)]


def test_a_machine_that_sees_the_other_route_alone_holds_by_the_reference(
    family: Family, machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    """It knows the space from where the job was made: vectors of another one never come in, they are error rows."""
    machine("driver")
    assert family.embed(FRAME)["embedding_route"].tolist() == ["a/m-a", "a/m-a"]
    travels = pickle.dumps(family.embed)
    assert caplog.records == [], "the space is known"
    machine("worker")
    _is_down(family.first)
    back = pickle.loads(travels)(FRAME)
    assert back["embedding"].isna().all()
    assert back["embedding_error"].str.startswith("exhausted").all()


def test_what_was_never_observed_cannot_travel(
    family: Family, machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    """So embed some rows where the job is made, as the log says once: else each machine sets its own reference."""
    machine("driver")
    with caplog.at_level("WARNING", "shim"):
        travels = pickle.dumps(family.embed)
        pickle.dumps(family.embed)
    assert [record.message[:24] for record in caplog.records] == ["family 'fam' has several"]
    machine("worker")
    _is_down(family.first)
    assert pickle.loads(travels)(FRAME)["embedding_route"].tolist() == ["b/m-b", "b/m-b"]


def test_a_machine_that_knows_another_space_refuses_to_begin(family: Family, machine: Machine) -> None:
    machine("driver")
    family.embed(FRAME)
    travels = pickle.dumps(family.embed)
    machine("worker")
    _is_down(family.first)
    family.embed(FRAME)
    dismiss()
    with pytest.raises(
        StoreError, match="another vector space than where the job was made: space 'fam native document'"
    ):
        pickle.loads(travels)(FRAME)


def test_the_same_reference_on_both_is_no_news(family: Family, machine: Machine) -> None:
    machine("driver")
    family.embed(FRAME)
    travels = pickle.dumps(family.embed)
    machine("worker")
    family.embed(FRAME)
    dismiss()
    assert pickle.loads(travels)(FRAME)["embedding_error"].isna().all()
