"""One object for all frameworks: faces, pickling, errors as columns, equality with the local run."""

from __future__ import annotations

import multiprocessing
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import shim
from shim._run.system import SystemClock
from shim.embed import BatchStoppedError, SourceError
from shim.embed.distributed import BatchEmbedder
from shim.embed.lanes import Lane
from shim.embed.limits import Limits
from shim.embed.worker import Worker, carried_on, worker_for
from tests.distributed.comparing import errors_of, local, rows_of
from tests.distributed.conftest import Made
from tests.embed.serving import LENGTH, Provider, config, expected, failing
from tests.support.server import Server

ACCOUNT = ["route", "model", "space", "call", "note", "error"]
NEW = ["embedding", *(f"embedding_{name}" for name in ACCOUNT)]
LONG = "a long text, " * 60


def _frame(texts: list[Any]) -> pd.DataFrame:
    frame = pd.DataFrame({"id": range(len(texts)), "text": pd.Series(texts, dtype=object)})
    frame.index = pd.RangeIndex(100, 100 + len(texts))
    return frame


def _arrow(frame: pd.DataFrame) -> pa.Table:
    return pa.Table.from_pandas(frame, preserve_index=False)


# -- faces


def test_a_pandas_frame_comes_back_with_its_index_and_the_new_columns(embedder: Made) -> None:
    frame = _frame(["one", None, "two"])
    before = frame.copy()
    back = embedder()(frame)
    assert list(back.columns) == ["id", "text", *NEW]
    assert back.index.tolist() == [100, 101, 102]
    assert back["embedding"].iloc[0].tolist() == np.array(expected("one"), dtype=np.float32).tolist()
    assert back["embedding"].iloc[1] is None
    assert back["embedding_error"].tolist()[1] == "null: the cell is null"
    assert back["embedding_error"].isna().tolist() == [True, False, True]
    pd.testing.assert_frame_equal(frame, before)


@pytest.mark.parametrize("kind", [pa.Table, pa.RecordBatch], ids=["table", "record batch"])
def test_an_arrow_table_comes_back_typed_with_nulls(embedder: Made, kind: Any) -> None:
    back = embedder(into="v")(kind.from_pandas(_frame(["one", "", "two"]), preserve_index=False))
    assert back.column_names == ["id", "text", "v", *(f"v_{name}" for name in ACCOUNT)]
    assert back.schema.field("v").type == pa.list_(pa.float32(), LENGTH)
    assert {str(back.schema.field(f"v_{name}").type) for name in ACCOUNT} == {"string"}
    assert back.column("v").is_null().to_pylist() == [False, True, False]
    assert back.column("v_error").to_pylist() == [None, "empty: the text is empty", None]


def test_a_mapping_of_arrays_comes_back_with_a_matrix(embedder: Made) -> None:
    batch = {"id": np.arange(3), "text": np.array(["one", None, "two"], dtype=object)}
    back = embedder()(batch)
    assert list(back) == ["id", "text", *NEW]
    assert (back["embedding"].shape, back["embedding"].dtype) == ((3, LENGTH), np.float32)
    assert np.isnan(back["embedding"]).all(axis=1).tolist() == [False, True, False]
    assert back["embedding_route"].tolist() == ["a/m-a", None, "a/m-a"]
    assert list(batch) == ["id", "text"]


def test_columns_of_an_earlier_run_are_replaced(embedder: Made) -> None:
    embed = embedder()
    once = embed(_arrow(_frame(["one"])))
    assert embed(once).column_names == once.column_names
    assert embed(embed(_frame(["one"]))).columns.is_unique


def test_an_iterator_of_frames_gives_a_frame_for_each(embedder: Made) -> None:
    back = list(embedder().frames(iter([_frame(["one"]), _frame([]), _frame(["two", "three"])])))
    assert [len(frame) for frame in back] == [1, 0, 2]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_meta_has_the_columns_and_types_that_come_back(embedder: Made, server: Server, dtype: str) -> None:
    embed, frame = embedder(dtype=dtype), _frame(["one", None])
    meta = embed.meta(frame)
    assert len(meta) == 0
    assert server.seen == [], "nothing is asked for it"
    back = embed(frame)
    assert meta.dtypes.to_dict() == back.dtypes.to_dict()
    assert back["embedding"].iloc[0].dtype == dtype


def test_a_batch_without_rows_asks_nothing(embedder: Made, server: Server) -> None:
    embed = embedder()
    assert embed(_frame([])).columns.tolist() == ["id", "text", *NEW]
    assert embed(_arrow(_frame([]).astype({"text": str}))).num_rows == 0
    assert embed({"text": np.array([], dtype=object)})["embedding"].shape == (0, LENGTH)
    assert server.seen == []


def test_where_no_length_is_known_an_arrow_column_of_nulls_goes_with_any_other(embedder: Made, server: Server) -> None:
    embed = embedder(router=config(server))
    nothing, something = embed(_arrow(_frame([None]))), embed(_arrow(_frame(["one"])))
    both = pa.concat_tables([nothing, something], promote_options="permissive")
    assert both.column("embedding").is_null().to_pylist() == [True, False]


@pytest.mark.parametrize(
    ("batch", "says"),
    [
        ([{"text": "one"}], "a batch that is a list"),
        (pd.Series(["one"]), "a batch that is a Series"),
        ({"body": np.array(["one"])}, "no column 'text'; it has: body"),
        (pd.DataFrame({"body": ["one"]}), "no column 'text'; it has: body"),
        (pa.table({"body": ["one"]}), "no column 'text'; it has: body"),
    ],
    ids=["list", "series", "mapping without the column", "frame without the column", "table without the column"],
)
def test_what_is_no_batch_is_refused_by_name(embedder: Made, batch: Any, says: str) -> None:
    with pytest.raises(SourceError, match=says):
        embedder()(batch)


# -- what travels


@pytest.mark.parametrize("spelling", ["mapping", "path", "router"])
def test_it_travels_as_its_configuration_with_variables_unresolved(
    spelling: str, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key is read where the work is done: here it is known only then."""
    written = config(server)
    written["providers"]["a"]["api_key"] = "${LAB_KEY}"
    router: Any = written
    if spelling == "path":
        router = tmp_path / "shim.toml"
        router.write_text(
            f'[providers.a]\nbase_url = "{server.base_url}"\napi_key = "${{LAB_KEY}}"\n'
            '[families.fam]\nkind = "embedding"\nroutes = ["a/m-a"]\n'
        )
    if spelling == "router":
        monkeypatch.setenv("LAB_KEY", "of-the-driver")
        router = shim.Router(written)
        monkeypatch.delenv("LAB_KEY")
    pickled = pickle.dumps(BatchEmbedder(router, column="text", store=tmp_path / "store"))
    assert b"LAB_KEY" in pickled
    assert b"of-the-driver" not in pickled
    monkeypatch.setenv("LAB_KEY", "of-the-worker")
    back = pickle.loads(pickled)(_frame(["one"]))
    assert back["embedding_error"].isna().all()
    assert server.seen[-1].headers["authorization"] == "Bearer of-the-worker"


def test_every_batch_of_a_process_has_the_same_client(embedder: Made, server: Server) -> None:
    embed = embedder()
    again = pickle.loads(pickle.dumps(embed))
    for number in range(5):
        (embed if number % 2 else again)(_frame([f"row {number}"]))
    assert worker_for(embed.assignment) is worker_for(again.assignment)
    assert server.opened == 1, "one client, one connection, kept"


def test_another_choice_is_another_worker(embedder: Made) -> None:
    assert worker_for(embedder().assignment) is not worker_for(embedder(input_type="query").assignment)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_makes_its_own_client(embedder: Made, server: Server) -> None:
    embed = embedder()
    embed(_frame(["one"]))
    context = multiprocessing.get_context("fork")
    child = context.Process(target=_embed_in_child, args=(embed, worker_for(embed.assignment)))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert server.opened == 2
    assert embed(_frame(["three"]))["embedding_error"].isna().all(), "the parent goes on with its own"


def test_its_representation_shows_no_key(embedder: Made) -> None:
    shown = repr(embedder(workers=3))
    assert shown == "<shim batch embedder: fam, text into embedding, 3 workers>"


# -- what is refused


@pytest.mark.parametrize(
    ("choices", "says"),
    [
        ({"out": "x.parquet"}, "out: not for one batch of many: let the framework write"),
        ({"limit_usd": 5}, "limit_usd: not for one batch of many"),
        ({"fresh": True}, "fresh: not for one batch of many"),
        ({"on_error": "raise"}, "on_error: not for one batch of many: a failed row never ends a batch"),
        ({"dtype": "int8"}, "dtype: one of 'float32', 'float16'"),
        ({"workers": 0}, "workers: a whole number of at least 1, not 0"),
        ({"workers": 8, "concurrency": 4}, "4 requests cannot be divided among 8 workers"),
        ({"requests_per_second": 0}, "requests_per_second: a number above 0, not 0"),
        ({"on_exhausted": "wait"}, "on_exhausted: 'null' or 'raise', not 'wait'"),
        ({"share": "localhost"}, "share: an address such as 'redis://host:6379/0'"),
        ({"family": "bge"}, "there is no embedding family 'bge'; the configuration has: fam"),
        ({"colour": "red"}, "unexpected keyword argument 'colour'"),
        ({"router": 7}, "router: a Router, a mapping or a path, not a int"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_cannot_be_is_refused_when_it_is_made(embedder: Made, choices: dict[str, Any], says: str) -> None:
    with pytest.raises((ValueError, TypeError), match=says):
        embedder(**choices)


def test_spark_has_no_float16(embedder: Made) -> None:
    with pytest.raises(SourceError, match="Spark has no float16"):
        embedder(dtype="float16").schema(None)


# -- the same rows as a local run


POISON = "row 41"


@pytest.mark.parametrize("face", ["pandas", "arrow"])
@pytest.mark.parametrize(
    "choices",
    [{}, {"oversize": "truncate"}, {"oversize": "split-mean"}, {"normalise": True, "input_type": "query"}],
    ids=["plain", "truncated", "split", "queries at length 1"],
)
def test_partitions_give_what_the_local_run_gives(
    server: Server, provider: Provider, tmp_path: Path, embedder: Made, face: str, choices: dict[str, Any]
) -> None:
    """Vectors bit for bit, provenance, notes, errors; only the names of calls differ, as between two local runs."""
    provider.poison = frozenset({POISON})
    route = {"provider": "a", "model": "m-a", "max_input_tokens": 120}
    written = config(server, dimensions=LENGTH, routes=[route])
    texts = [*(f"row {number % 50}" for number in range(120)), "", LONG, "nul \x00", "  ", LONG + "!"]
    frame = pd.DataFrame({"id": range(len(texts)), "text": texts})
    want = local(written, frame, tmp_path, **choices)

    embed = embedder(router=written, workers=2, **choices)
    parts = [frame.iloc[at : at + 17] for at in range(0, len(frame), 17)]
    if face == "arrow":
        got = rows_of(pa.concat_tables([embed(_arrow(part)) for part in parts]))
    else:
        got = rows_of(pd.concat([embed(part) for part in parts]))
    assert got == want
    assert sum(error is not None for error in errors_of(got)) >= 3


# -- when nothing is left


DOWN = {"patience": 0.3}


def test_without_a_route_rows_are_exhausted_and_what_is_known_stays(
    embedder: Made, provider: Provider, server: Server
) -> None:
    embed = embedder(**DOWN)
    embed(_frame(["one"]))
    provider.faults = [failing(1.0, 503)]
    back = embed(_frame(["one", None, "two", *(f"row {number}" for number in range(20_000))]))
    kinds = [None if error is None else error.partition(":")[0] for error in errors_of(rows_of(back))]
    assert kinds[:3] == [None, "null", "exhausted"]
    assert set(kinds[3:]) == {"exhausted"}
    assert "boom" in back["embedding_error"].iloc[-1]
    provider.faults = []
    assert embed(_frame(["two"]))["embedding_error"].isna().all(), "the next batch asks again"


def test_without_a_route_a_batch_raises_if_asked(embedder: Made, provider: Provider) -> None:
    provider.faults = [failing(1.0, 503)]
    with pytest.raises(BatchStoppedError, match="what is done is kept") as caught:
        embedder(**DOWN, on_exhausted="raise")(_frame(["one"]))
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value), "it travels back to the driver"


# -- one folder, several processes


def test_processes_share_a_folder_and_pay_for_nothing_twice(
    embedder: Made, server: Server, provider: Provider, tmp_path: Path
) -> None:
    embed = embedder(workers=2)
    frame = _frame([f"row {number}" for number in range(200)])
    context = multiprocessing.get_context("spawn")
    with context.Pool(2) as pool:
        parts = pool.map(embed, [frame.iloc[at : at + 50] for at in range(0, 200, 50)])
    assert pd.concat(parts)["embedding_error"].isna().all()
    assert set(provider.asked.values()) == {1}
    assert len(list((tmp_path / "store").rglob("*.f32"))) == 2, "a segment for each process"
    with shim.OpenAI(router=config(server, dimensions=LENGTH)) as client:
        job = client.embed(frame["text"], store=tmp_path / "store", progress=False)
    assert job.summary().cached == 200, "and the local run finds it all"


def test_a_store_that_was_empty_at_first_is_looked_at_again(
    embedder: Made, server: Server, provider: Provider, tmp_path: Path
) -> None:
    """Others have filled it meanwhile."""
    embed = embedder()
    embed(_frame([None]))
    with shim.OpenAI(router=config(server, dimensions=LENGTH)) as client:
        client.embed(["one"], store=tmp_path / "store", progress=False)
    assert embed(_frame(["one"]))["embedding_error"].isna().all()
    assert provider.asked["one"] == 1


def test_a_worker_that_is_killed_costs_what_it_had_in_flight(
    embedder: Made, server: Server, provider: Provider
) -> None:
    """Its batch runs again elsewhere on the machine, and asks for the rest."""
    embed, frame = embedder(concurrency=1, batch_size=5), _frame([f"row {number}" for number in range(2000)])
    child = multiprocessing.get_context("spawn").Process(target=embed, args=(frame,))
    child.start()
    assert server.wait_until(lambda: len(server.seen) >= 40, 60)
    child.kill()
    child.join(10)
    answered = sum(provider.asked.values())
    assert 195 <= answered < 2000, "killed in the middle"
    assert embed(frame)["embedding_error"].isna().all()
    assert sum(count > 1 for count in provider.asked.values()) <= 5


@pytest.mark.parametrize(("is_told", "until"), [(True, 30.0), (False, 0.0)], ids=["told by the provider", "a guess"])
def test_lanes_remember_what_the_last_batch_learnt(is_told: bool, until: float) -> None:
    """Limits, how much at a time goes well, and pauses that the provider asked for; never that a route was out."""
    old, new = (Lane("a/m", 1, 1.0, Limits(), 8) for _ in range(2))
    old.limits, old.window, old.is_out = Limits(inputs=10), 7.5, True
    old.paused_until, old.pause_is_told = 30.0, is_told
    (lane,) = carried_on([old], [new])
    assert (lane.limits.inputs, lane.window, lane.is_out) == (10, 7.5, False)
    assert (lane.paused_until, lane.pause_is_told) == (until, is_told)


# -- shares


@pytest.mark.parametrize(
    ("workers", "given", "each"),
    [(1, None, 8), (4, None, 2), (12, None, 1), (4, 10, 2), (3, 3, 1)],
    ids=["alone", "eight among four", "more than eight", "the rest is left", "one each"],
)
def test_concurrency_is_divided(embedder: Made, workers: int, given: int | None, each: int) -> None:
    assert worker_for(embedder(workers=workers, concurrency=given).assignment).setup.settings.concurrency == each


@pytest.mark.parametrize(
    ("workers", "rate", "seconds"),
    [(1, None, 0.0), (1, 4, 0.25), (8, 4, 2.0)],
    ids=["as fast as it goes", "alone", "an eighth"],
)
def test_requests_a_second_are_divided(embedder: Made, workers: int, rate: float | None, seconds: float) -> None:
    embed = embedder(workers=workers, requests_per_second=rate)
    assert worker_for(embed.assignment).interval() == seconds


def test_requests_keep_to_their_seconds(embedder: Made, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three requests of one worker of two, at 50 a second for both: 40 ms apart."""
    waits: list[float] = []
    monkeypatch.setattr(SystemClock, "wait", lambda clock, seconds: waits.append(seconds))
    embed = embedder(workers=2, requests_per_second=50, batch_size=1)
    embed(_frame(["one", "two", "three"]))
    assert len(server.seen) == 3
    assert [0.0 < wait <= 0.08 for wait in waits] == [True, True]
    assert max(waits) > 0.04


def _embed_in_child(embed: BatchEmbedder, of_the_parent: Worker) -> None:
    assert worker_for(embed.assignment) is not of_the_parent, "its index must not be used on both sides of a fork"
    assert embed(_frame(["one", "two"]))["embedding_error"].isna().all()


@pytest.mark.parametrize("into", ["id", "text", "told"])
@pytest.mark.parametrize(
    "given",
    [lambda frame: frame, _arrow, lambda frame: {name: frame[name].to_numpy() for name in frame}],
    ids=["pandas", "Arrow", "arrays"],
)
def test_no_column_of_a_batch_is_lost(embedder: Made, given: Any, into: str) -> None:
    batch = given(_frame(["one", "two"]).assign(told_error=["a", "b"]))
    with pytest.raises(SourceError, match=r"give another name|drop that column"):
        embedder(into=into)(batch)
    again = embedder(into="v")(embedder(into="v")(batch))
    assert len(again["v"]) == 2
