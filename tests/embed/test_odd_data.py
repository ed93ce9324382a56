"""Columns and files as people have them: odd containers, odd indexes, odd encodings, odd places."""

from __future__ import annotations

import copy
import gzip
import io
import json
import pickle
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

import shim
from shim.embed import RowsFailedError, SourceError, StoreFullError
from shim.embed.bar import is_watched
from shim.embed.partial import partial_of
from tests.embed.serving import LENGTH, Provider, config, expected
from tests.support.server import Peer, Seen, Server


@pytest.fixture
def provider() -> Provider:
    return Provider(poison=frozenset({"poison"}))


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, provider: Provider) -> Iterator[shim.OpenAI]:
    monkeypatch.setenv("SHIM_CACHE_DIR", str(tmp_path / "cache"))
    with Server(provider) as server, shim.OpenAI(router=config(server)) as made:
        yield made


def _right(vectors: Any, texts: list[str | None]) -> bool:
    wanted = [[np.nan] * LENGTH if text is None else expected(text) for text in texts]
    return bool(np.array_equal(vectors, np.array(wanted, dtype=np.float32), equal_nan=True))


MASKED = np.ma.masked_array(np.array(["a", "b"], dtype=object), mask=[False, True])
TABLE = pa.table({"text": ["a", None, "b"]})


@pytest.mark.parametrize(
    ("make", "texts"),
    [
        pytest.param(lambda: pd.Index(["a", "b"]), ["a", "b"], id="an index of pandas"),
        pytest.param(lambda: pd.Categorical(["a", None, "a"]), ["a", None, "a"], id="a categorical"),
        pytest.param(lambda: pd.array(["a", None], dtype="string"), ["a", None], id="an extension array"),
        pytest.param(lambda: MASKED, ["a", None], id="a masked array"),
        pytest.param(lambda: TABLE.to_reader(), ["a", None, "b"], id="a reader of batches"),
        pytest.param(lambda: pa.dataset.dataset(TABLE), ["a", None, "b"], id="an Arrow dataset"),
        pytest.param(lambda: TABLE["text"].dictionary_encode().slice(1), [None, "b"], id="a sliced dictionary"),
        pytest.param(lambda: pa.array(["a", None]).cast(pa.string_view()), ["a", None], id="string views"),
    ],
)  # fmt: skip
def test_odd_containers_are_read(client: shim.OpenAI, make: Callable[[], Any], texts: list[str | None]) -> None:
    assert _right(client.embed(make()).vectors, texts)


@pytest.mark.parametrize(
    "cell",
    [Decimal("NaN"), np.datetime64("NaT", "s"), np.timedelta64("NaT", "s"), np.float16("nan"), np.ma.masked, pd.NaT],
    ids=lambda cell: f"{type(cell).__name__}",
)
def test_what_is_missing_is_null_in_every_spelling(client: shim.OpenAI, cell: Any) -> None:
    assert client.embed(["a", cell]).errors["kind"].tolist() == ["null"]


FILES: dict[str, tuple[str, bytes, list[str | None]]] = {
    "a gzipped CSV": ("x.csv.gz", gzip.compress(b"id,text\n1,a\n2,b\n"), ["a", "b"]),
    "gzipped tabs": ("x.tsv.gz", gzip.compress(b"id\ttext\n1,5\ta\n"), ["a"]),
    "gzipped JSON Lines": ("x.jsonl.gz", gzip.compress(b'{"text": "a"}\n'), ["a"]),
    "gzipped text": ("x.TXT.GZ", gzip.compress(b"a\r\nb\n"), ["a", "b"]),
    "a CSV in UTF-16": ("x.csv", "id,text\n1,é\n".encode("utf-16"), ["é"]),
    "a text in UTF-16": ("x.txt", "é\r\nb\n".encode("utf-16"), ["é", "b"]),
    "JSON Lines in UTF-16": ("x.jsonl", '{"text": "é"}\n{"text": "b"}'.encode("utf-16"), ["é", "b"]),
    "a CSV with semicolons": ("x.csv", b'id;text\n1,5;"a; b"\n', ["a; b"]),
    "a CSV with tabs": ("x.csv", b"id\ttext\n1,5\ta\n", ["a"]),
    "a header of one column": ("x.csv", b"text\na; b\n", ["a; b"]),
    "NaN beside the text": ("x.jsonl", b'{"text": "a", "n": NaN}\n{"text": "b", "n": -Infinity}', ["a", "b"]),
    "a number beyond doubles": ("x.jsonl", b'{"text": "a", "n": 1e999}\n', ["a"]),
    "a lone surrogate": ("x.jsonl", b'{"text": "a"}\n{"text": "b\\ud800", "n": ["\\ud800"]}\n', ["a", None]),
    "bytes that are no UTF-8": ("x.jsonl", b'{"text": "a"}\n{"text": "\xff"}\n', ["a", None]),
    "a column that begins late": ("x.jsonl", b'{"id": 1}\n' * 20_000 + b'{"text": "a"}\n', [None] * 20_000 + ["a"]),
}  # fmt: skip


@pytest.mark.parametrize("out", [None, "o.parquet", "o.jsonl"], ids=["no file", "to Parquet", "to JSON Lines"])
@pytest.mark.parametrize(("name", "content", "texts"), FILES.values(), ids=FILES.keys())
def test_odd_files_are_read(
    client: shim.OpenAI, tmp_path: Path, name: str, content: bytes, texts: list[str | None], out: str | None
) -> None:
    (tmp_path / name).write_bytes(content)
    column = None if "txt" in name.lower() else "text"
    job = client.embed(tmp_path / name, column=column, out=None if out is None else tmp_path / out)
    assert _right(job.vectors, texts)


def test_a_file_in_another_encoding_says_what_to_do(client: shim.OpenAI, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes("text\né\n".encode("latin-1"))
    with pytest.raises(SourceError, match="invalid UTF8 data: save it as UTF-8"):
        client.embed(tmp_path / "x.csv")


@pytest.mark.parametrize("name", ["x.jsonl.gz", "x.txt.gz", "x.csv.gz"])
def test_a_gzipped_file_that_is_cut_off_is_named(client: shim.OpenAI, tmp_path: Path, name: str) -> None:
    line = {"jsonl": b'{"text": "%d"}', "txt": b"%d", "csv": b"%d"}[name.split(".")[1]]
    whole = gzip.compress(b"text\n" * ("csv" in name) + b"\n".join(line % number for number in range(5_000)))
    (tmp_path / name).write_bytes(whole[:-1_000])
    with pytest.raises(SourceError, match=rf"{name} cannot be read as"):
        client.embed(tmp_path / name)


def test_a_list_that_grows_while_the_job_runs_is_what_it_was(client: shim.OpenAI) -> None:
    texts: list[str | None] = [f"row {number}" for number in range(50)]
    vectors = client.embed(texts, progress=lambda _: texts.append("more"), batch_size=5).vectors
    assert len(texts) > 50
    assert _right(vectors, texts[:50])


def test_choices_may_be_numbers_of_numpy(client: shim.OpenAI) -> None:
    choices = {
        "batch_size": np.int64(1),
        "concurrency": np.uint8(2),
        "patience": np.float32(9),
        "limit_rows": np.int32(1),
    }
    assert client.embed(["a", "b"], **choices).summary().embedded == 1


def test_a_folder_of_parquet_files_is_read_in_order(client: shim.OpenAI, tmp_path: Path) -> None:
    folder = tmp_path / "in.parquet"
    folder.mkdir()
    pq.write_table(pa.table({"n": [None, None], "text": ["a", "b"]}), folder / "part-0.parquet")
    pq.write_table(pa.table({"n": [7], "text": ["c"]}), folder / "part-1.parquet")
    (folder / "_SUCCESS").touch()
    assert _right(client.embed(folder, column="text", out=tmp_path / "o.parquet").vectors, ["a", "b", "c"])
    assert pq.read_table(tmp_path / "o.parquet").column("n").to_pylist() == [None, None, 7]
    with pytest.raises(SourceError, match="is a folder without Parquet files"):
        client.embed(tmp_path / "cache")


def test_a_tilde_is_the_home_folder(client: shim.OpenAI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHIM_CACHE_DIR", "~/kept")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.txt").write_text("a\n")
    client.embed("~/x.txt", out="~/o.npy")
    assert (tmp_path / "o.npy").exists()
    assert (tmp_path / "kept").is_dir()
    assert not (tmp_path / "~").exists()


# -- frames


INDEXES = {
    "names": pd.Index([10, 20], name="id"),
    "dates": pd.date_range("2024-01-01", periods=2),
    "several levels": pd.MultiIndex.from_tuples([(1, "x"), (2, "y")], names=["one", "two"]),
    "the rows that a filter left": pd.Index([3, 7]),
}


@pytest.mark.parametrize("index", INDEXES.values(), ids=INDEXES.keys())
def test_a_file_keeps_the_index_as_pandas_does(client: shim.OpenAI, tmp_path: Path, index: Any) -> None:
    frame = pd.DataFrame({"text": ["a", None]}, index=index)
    job = client.embed(frame, column="text", out=tmp_path / "o.parquet")
    assert pd.read_parquet(tmp_path / "o.parquet").index.equals(index)
    assert job.errors.index.equals(index[1:])
    assert job.provenance.index.equals(index)


def test_an_index_without_a_type_is_written_as_texts(client: shim.OpenAI, tmp_path: Path) -> None:
    frame = pd.DataFrame({"text": ["a", "b"]}, index=[1, "x"])
    client.embed(frame, column="text", out=tmp_path / "o.parquet")
    assert pd.read_parquet(tmp_path / "o.parquet").index.tolist() == ["1", "x"]


def test_a_frame_with_names_of_two_levels_comes_back(client: shim.OpenAI) -> None:
    frame = pd.DataFrame([["a", 1]], columns=pd.MultiIndex.from_tuples([("x", "text"), ("y", "n")]))
    given = client.embed(frame, column=("x", "text"), into="vector")  # type: ignore[call-overload]
    assert given.columns.tolist() == [("x", "text"), ("y", "n"), ("vector", "")]
    assert frame.shape == (1, 2), "the original is not changed"


def test_a_record_batch_and_a_reader_go_to_a_file(client: shim.OpenAI, tmp_path: Path) -> None:
    batch = pa.record_batch({"id": [1, 2], "text": ["a", "b"]})
    for given in (batch, pa.Table.from_batches([batch]).to_reader()):
        client.embed(given, column="text", out=tmp_path / "o.parquet")
        assert pq.read_table(tmp_path / "o.parquet").column("id").to_pylist() == [1, 2]


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "jsonl", "npy"])
@pytest.mark.parametrize(
    "given",
    [[], pd.DataFrame({"text": pd.Series([], dtype="str")}), TABLE.slice(0, 0)],
    ids=["a list", "a pandas frame", "an Arrow table"],
)
def test_no_rows_are_a_file_of_no_rows(client: shim.OpenAI, tmp_path: Path, given: Any, suffix: str) -> None:
    path = tmp_path / f"o.{suffix}"
    job = client.embed(given, out=path)
    assert (path.exists(), job.vectors.shape) == (True, (0, 0))
    if suffix == "parquet" and not isinstance(given, list):
        assert pq.read_table(path).column_names[0] == "text"


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "jsonl", "npy"])
def test_a_file_without_any_vector_is_read_back(client: shim.OpenAI, tmp_path: Path, suffix: str) -> None:
    job = client.embed([None, ""], out=tmp_path / f"o.{suffix}")
    assert job.vectors.shape == (2, 0)


def test_a_first_window_without_vectors_is_read_back_from_json_lines(client: shim.OpenAI, tmp_path: Path) -> None:
    assert _right(client.embed([None] * 17_000 + ["a"], out=tmp_path / "o.jsonl").vectors, [None] * 17_000 + ["a"])


def test_what_json_has_no_type_for_is_written_as_text(client: shim.OpenAI, tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "text": ["a"],
            "at": pd.to_datetime(["2024-01-02 03:04:05.000000006"]),
            "took": pd.to_timedelta([1], unit="ns"),
        }
    )
    client.embed(frame, column="text", out=tmp_path / "o.jsonl")
    line = json.loads((tmp_path / "o.jsonl").read_text())
    assert (line["at"], line["took"]) == ("2024-01-02 03:04:05.000000006", "0 days 00:00:00.000000001")


def test_errors_of_a_file_know_who_was_asked(client: shim.OpenAI, tmp_path: Path) -> None:
    frame = pd.DataFrame({"text": ["a", "poison", None]})
    told = client.embed(frame, column="text", out=tmp_path / "o.parquet").errors
    assert told["route"].tolist() == ["a/m-a", ""]
    assert (told["attempts"] > 0).tolist() == [True, False]


# -- places


def test_a_link_stays_a_link_and_the_input_is_not_overwritten_through_one(client: shim.OpenAI, tmp_path: Path) -> None:
    (tmp_path / "link.parquet").symlink_to(tmp_path / "real.parquet")
    client.embed(["a"], out=tmp_path / "link.parquet")
    assert (tmp_path / "link.parquet").is_symlink()
    assert pq.read_table(tmp_path / "real.parquet").num_rows == 1
    with pytest.raises(SourceError, match="is the input itself"):
        client.embed(tmp_path / "real.parquet", column="index", out=tmp_path / "link.parquet")


def test_two_jobs_that_write_one_file_do_not_mix(client: shim.OpenAI, tmp_path: Path) -> None:
    def write(name: str) -> None:
        client.embed([f"{name} {number}" for number in range(2_000)], out=tmp_path / "o.npy", batch_size=100)

    threads = [threading.Thread(target=write, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    written = np.load(tmp_path / "o.npy")
    assert any(_right(written, [f"{name} {number}" for number in range(2_000)]) for name in ("one", "two"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "o.npy"]


def test_what_a_killed_job_left_is_removed_and_a_living_ones_is_not(tmp_path: Path) -> None:
    mine = partial_of(tmp_path / "o.parquet")
    mine.touch()
    dead = Path(str(mine).replace(f"-{mine.name.split('-')[-2]}-", "-99999999-"))
    dead.touch()
    assert partial_of(tmp_path / "o.parquet") != mine
    assert sorted(tmp_path.iterdir()) == [mine]


def test_vectors_outlive_the_store(client: shim.OpenAI, tmp_path: Path) -> None:
    job = client.embed(["a", None, "b"], store=tmp_path / "store")
    shutil.rmtree(tmp_path / "store")
    assert _right(job.vectors, ["a", None, "b"])


# -- numbers, processes, consoles


@pytest.mark.parametrize("out", [None, "o.parquet", "o.npy"])
def test_numbers_too_large_for_float16_are_refused(
    client: shim.OpenAI, provider: Provider, tmp_path: Path, out: str | None
) -> None:
    def large(_: Provider, request: Seen, peer: Peer) -> bool:
        rows = [
            {"object": "embedding", "index": i, "embedding": [1e5, 1.0]} for i, _ in enumerate(request.json["input"])
        ]
        peer.answer(200, {"object": "list", "model": "m", "data": rows})
        return True

    provider.faults = [large]
    with pytest.raises(SourceError, match="as large as 100,000, and float16 ends at 65,504"):
        _ = client.embed(["a"], dtype="float16", out=None if out is None else tmp_path / out).vectors
    scaled = client.embed(["a"], dtype="float16", normalise=True).vectors
    assert scaled.dtype == np.float16


def test_errors_go_to_other_processes_and_jobs_say_that_they_do_not(client: shim.OpenAI) -> None:
    with pytest.raises(RowsFailedError) as raised:
        client.embed(["a", None], on_error="raise")
    for error in (raised.value, StoreFullError(Path("/full"))):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again)) == (type(error), str(error))
    for send in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="keep its vectors, errors and provenance"):
            send(raised.value.job)


@pytest.mark.parametrize("stderr", [None, object(), io.StringIO()], ids=["none", "of another kind", "no terminal"])
def test_a_program_without_a_console_embeds(monkeypatch: pytest.MonkeyPatch, stderr: Any) -> None:
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    assert is_watched() is False
