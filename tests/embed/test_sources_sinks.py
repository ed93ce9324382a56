"""Whatever holds a column of texts goes in; frames, Parquet, Arrow, JSON Lines and NumPy files come out."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import shim
from shim.embed import SourceError, StoreFullError
from shim.embed.sources import open_source
from tests.embed.serving import LENGTH, Provider, config, expected
from tests.support.server import Server

TEXTS = ["alpha", None, "gamma", "delta", "alpha"]


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[shim.OpenAI]:
    monkeypatch.setenv("SHIM_CACHE_DIR", str(tmp_path / "cache"))
    with Server(Provider()) as server, shim.OpenAI(router=config(server)) as made:
        yield made


def _cells(given: Any, column: str | None = None, size: int = 2) -> list[Any]:
    source = open_source(given, column, size, keep_tables=False)
    return list(itertools.chain.from_iterable(piece.cells for piece in source.pieces))


FRAME = pd.DataFrame({"id": range(5), "text": TEXTS}, index=[10, 11, 12, 13, 14])
TABLE = pa.table({"id": range(5), "text": TEXTS})

SOURCES: dict[str, Callable[[Path], tuple[Any, str | None]]] = {
    "a list": lambda _: (TEXTS, None),
    "a tuple": lambda _: (tuple(TEXTS), None),
    "a generator": lambda _: ((text for text in TEXTS), None),
    "a list of rows": lambda _: ([{"text": text} for text in TEXTS], "text"),
    "a NumPy array": lambda _: (np.array(TEXTS, dtype=object), None),
    "a pandas Series": lambda _: (FRAME["text"], None),
    "a pandas frame": lambda _: (FRAME, "text"),
    "a pandas frame of one column": lambda _: (FRAME[["text"]], None),
    "a polars Series": lambda _: (pl.Series(TEXTS), None),
    "a polars frame": lambda _: (pl.from_arrow(TABLE), "text"),
    "an Arrow array": lambda _: (pa.array(TEXTS), None),
    "an Arrow chunked array": lambda _: (pa.chunked_array([TEXTS[:2], TEXTS[2:]]), None),
    "an Arrow table": lambda _: (TABLE, "text"),
    "Parquet": lambda folder: (_written(folder / "x.parquet", pq.write_table), "text"),
    "Feather": lambda folder: (_written(folder / "x.feather", pyarrow.feather.write_feather), "text"),
    "JSON Lines": lambda folder: (_lines(folder / "x.jsonl"), "text"),
}


def _written(path: Path, write: Callable[[Any, str], None]) -> Path:
    write(TABLE, str(path))
    return path


def _lines(path: Path) -> str:
    path.write_text("\n".join(json.dumps({"id": row, "text": text}) for row, text in enumerate(TEXTS)) + "\n\n")
    return str(path)


@pytest.mark.parametrize("make", SOURCES.values(), ids=SOURCES.keys())
def test_every_source_gives_its_cells_in_order(make: Callable[[Path], tuple[Any, str | None]], tmp_path: Path) -> None:
    given, column = make(tmp_path)
    cells = [None if cell is None or cell != cell else cell for cell in _cells(given, column)]
    assert cells == TEXTS


def test_csv_cells_are_texts_whatever_they_look_like(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text('id,text\n1,007\n2,\n3,NA\n4,"two\nlines, a comma"\n5,1e3\n')
    assert _cells(path, "text") == ["007", "", "NA", "two\nlines, a comma", "1e3"]


def test_tsv_and_text_files(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("id\ttext\n1\ta, b\n")
    (tmp_path / "x.txt").write_bytes(b"one\r\ntwo\n\nbad \xff byte")
    assert _cells(tmp_path / "x.tsv", "text") == ["a, b"]
    assert _cells(tmp_path / "x.txt") == ["one", "two", "", "bad \ufffd byte"]


def test_a_column_of_several_types_in_json_lines_is_read_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"text": "a"}\n{"text": 7}\n{"other": 1}\n')
    assert _cells(path, "text", size=10) == ["a", 7, None]


def test_a_hugging_face_dataset_is_taken_by_its_columns() -> None:
    """Of the interface alone (`column_names`, slices, `add_column`): the library is large."""

    class Dataset:
        __module__ = "datasets.arrow_dataset"
        column_names = ("id", "text")

        def __len__(self) -> int:
            return 5

        def __getitem__(self, rows: slice) -> dict[str, list[Any]]:
            return {"text": TEXTS[rows]}

    assert _cells(Dataset(), "text") == TEXTS


def test_a_hugging_face_datasets_own_types_are_those_of_every_window() -> None:
    class Features:
        arrow_schema = pa.schema([("text", pa.string()), ("other", pa.string())])

    class Dataset:
        __module__ = "datasets.arrow_dataset"
        column_names = ("text", "other")
        features = Features()

        def __len__(self) -> int:
            return 5

        def __getitem__(self, rows: slice) -> dict[str, list[Any]]:
            return {"text": TEXTS[rows], "other": [None, None, "late", "late", None][rows]}

    pieces = open_source(Dataset(), "text", 2, keep_tables=True).pieces
    assert {str(piece.table.schema.field("other").type) for piece in pieces} == {"string"}


@pytest.mark.parametrize(
    ("given", "column", "says"),
    [
        (FRAME, None, "which column of the frame? Give `column`, one of: id, text"),
        (FRAME, "body", "the frame has no column 'body'; it has: id, text"),
        (pl.DataFrame({"a": []}).lazy(), "a", "call .collect() first"),
        (np.zeros((2, 2)), None, "an array of 2 dimensions"),
        ({"text": TEXTS}, "text", "cannot embed a dict: give a list of texts"),
        (7, None, "cannot embed a int"),
        ("a text to embed", None, "there is no file 'a text to embed': to embed one text, give it as a list"),
        ("missing.parquet", None, "there is no file 'missing.parquet'"),
    ],
    ids=["no column", "another column", "lazy", "a matrix", "a mapping", "a number", "a text", "no file"],
)
def test_what_cannot_be_read_is_named(given: Any, column: str | None, says: str) -> None:
    with pytest.raises(SourceError) as caught:
        _cells(given, column)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("x.xlsx", b"", "cannot tell what a .xlsx is; known: .parquet"),
        ("x.parquet", b"this is no parquet", "cannot be read as parquet"),
        ("x.jsonl", b'{"text": "a"}\nnot json\n', "x.jsonl, line 2: no JSON"),
        ("x.jsonl", b'["a"]\n', "line 1: an object is needed on each line"),
    ],
    ids=["unknown kind", "broken parquet", "a broken line", "a line that is no object"],
)
def test_a_file_that_cannot_be_read_is_named(name: str, content: bytes, says: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SourceError) as caught:
        _cells(tmp_path / name, "text")
    assert says in str(caught.value)


# -- what comes back


def _right(texts: list[str | None]) -> list[Any]:
    return [None if text is None else np.array(expected(text), dtype=np.float32).tolist() for text in texts]


def test_a_pandas_frame_comes_back_with_its_index(client: shim.OpenAI) -> None:
    frame = client.embed(FRAME, column="text", into="vector")
    assert frame.index.tolist() == [10, 11, 12, 13, 14]
    assert frame.columns.tolist() == ["id", "text", "vector"]
    assert [None if row is None else row.tolist() for row in frame["vector"]] == _right(TEXTS)
    assert "vector" not in FRAME, "the original is not changed"


def test_errors_of_a_series_carry_its_labels(client: shim.OpenAI) -> None:
    job = client.embed(FRAME["text"])
    assert job.errors.index.tolist() == [11]
    assert job.errors["index"].tolist() == [1]
    assert job.provenance.index.tolist() == [10, 11, 12, 13, 14]


def test_a_polars_frame_comes_back(client: shim.OpenAI) -> None:
    frame = client.embed(pl.DataFrame({"text": TEXTS}), column="text", into="vector")
    assert frame.schema["vector"] == pl.Array(pl.Float32, LENGTH)
    assert frame["vector"].to_list() == _right(TEXTS)
    assert client.embed(pl.Series(TEXTS)).errors["index"].to_list() == [1]


def test_an_arrow_table_comes_back(client: shim.OpenAI) -> None:
    table = client.embed(TABLE, column="text", into="vector")
    assert table.schema.field("vector").type == pa.list_(pa.float32(), LENGTH)
    assert table.column("vector").to_pylist() == _right(TEXTS)


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".jsonl"])
def test_a_file_goes_out_with_everything_about_each_row(client: shim.OpenAI, tmp_path: Path, suffix: str) -> None:
    given, out = _written(tmp_path / "in.parquet", pq.write_table), tmp_path / f"out{suffix}"
    job = client.embed(given, column="text", out=out, into="v")
    table = {".parquet": pq.read_table, ".arrow": _arrow, ".jsonl": _json_lines}[suffix](out)
    assert table.column_names == [
        "id", "text", "v", "v_route", "v_model", "v_space", "v_call", "v_note", "v_error",
    ]  # fmt: skip
    assert table.column("id").to_pylist() == [0, 1, 2, 3, 4]
    assert [_float32(row) for row in table.column("v").to_pylist()] == _right(TEXTS)
    assert table.column("v_route").to_pylist() == ["a/m-a", None, "a/m-a", "a/m-a", "a/m-a"]
    assert table.column("v_error").to_pylist() == [None, "null: the cell is null", None, None, None]
    assert job.errors["kind"].tolist() == ["null"]
    assert [None if np.isnan(row).any() else row.tolist() for row in job.vectors] == _right(TEXTS)
    assert len(job.provenance) == 5
    assert [path.name for path in tmp_path.glob(".*.partial")] == []


def _arrow(path: Path) -> Any:
    return pa.ipc.open_file(str(path)).read_all()


def _json_lines(path: Path) -> Any:
    return pa.Table.from_pylist([json.loads(line) for line in path.read_text().splitlines()])


def _float32(row: list[float] | None) -> list[float] | None:
    return None if row is None else np.array(row, dtype=np.float32).tolist()


def test_other_readers_take_the_parquet_as_it_is(client: shim.OpenAI, tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    client.embed(FRAME["text"], out=out)
    assert pl.read_parquet(out).schema["embedding"] == pl.Array(pl.Float32, LENGTH)
    frame = pd.read_parquet(out)
    assert frame["embedding"][0].dtype == np.float32
    assert frame["index"].tolist() == [0, 1, 2, 3, 4]


def test_numpy_files_are_mapped(client: shim.OpenAI, tmp_path: Path) -> None:
    out = tmp_path / "out.npy"
    job = client.embed(TEXTS, out=out)
    matrix = np.load(out, mmap_mode="r")
    assert matrix.shape == (5, LENGTH)
    assert matrix[2].tolist() == _right(["gamma"])[0]
    assert np.array_equal(job.vectors, matrix, equal_nan=True)
    with pytest.raises(RuntimeError, match=r"write \.parquet"):
        _ = job.errors


@pytest.mark.parametrize("suffix", [".parquet", ".npy"])
def test_half_precision_on_request(client: shim.OpenAI, tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"out{suffix}"
    job = client.embed(TEXTS, out=out, dtype="float16")
    assert job.vectors.dtype == np.float16
    if suffix == ".parquet":
        assert pq.read_schema(out).field("embedding").type == pa.list_(pa.float16(), LENGTH)
    assert client.embed(TEXTS, dtype="float16").vectors.dtype == np.float16


def test_many_windows_are_written_in_order(
    client: shim.OpenAI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shim.embed.job.PIECE", 7)
    texts = [None if row < 10 else f"row {row % 90}" for row in range(100)]
    job = client.embed(iter(texts), out=tmp_path / "out.parquet", batch_size=5)
    assert pq.read_table(tmp_path / "out.parquet").column("embedding").to_pylist() == _right(texts)
    assert job.summary().failed == 10


def test_an_output_without_a_single_vector_is_still_written(client: shim.OpenAI, tmp_path: Path) -> None:
    """The family's length is not known then: rows are null, with their errors."""
    job = client.embed([None, ""], out=tmp_path / "out.parquet")
    table = pq.read_table(tmp_path / "out.parquet")
    assert table.column("embedding_error").to_pylist() == ["null: the cell is null", "empty: the text is empty"]
    assert table.column("embedding").to_pylist() == [None, None]
    assert job.summary().failed == 2


def test_no_rows_at_all(client: shim.OpenAI) -> None:
    job = client.embed([])
    assert job.vectors.shape[0] == 0
    assert job.summary().rows == 0
    assert len(job.errors) == len(job.provenance) == 0


def test_the_input_is_never_overwritten(client: shim.OpenAI, tmp_path: Path) -> None:
    given = _written(tmp_path / "in.parquet", pq.write_table)
    with pytest.raises(SourceError, match=r"in\.parquet is the input itself"):
        client.embed(given, column="text", out=given)


FRAMES: dict[str, Any] = {
    "pandas": FRAME,
    "polars": pl.DataFrame({"id": range(5), "text": TEXTS}),
    "Arrow": TABLE,
}


@pytest.mark.parametrize("given", FRAMES.values(), ids=FRAMES.keys())
def test_a_frame_is_written_with_its_other_columns(client: shim.OpenAI, tmp_path: Path, given: Any) -> None:
    client.embed(given, column="text", out=tmp_path / "out.parquet")
    table = pq.read_table(tmp_path / "out.parquet")
    assert table.column_names[:2] == ["id", "text"]
    assert table.column("id").to_pylist() == [0, 1, 2, 3, 4]
    assert table.column("embedding").to_pylist() == _right(TEXTS)


# -- columns that change on the way, files that are not as they should be

ROWS = 16_384 + 3
"""More than a window."""


def _late(first: Any, last: Any) -> list[Any]:
    return [first] * 16_384 + [last] * 3


CHANGING: dict[str, tuple[list[Any], list[Any]]] = {
    "null, then texts": (_late(None, "late"), [None, "late"]),
    "whole numbers, then fractions": (_late(1, 1.5), [1.0, 1.5]),
    "numbers, then texts": (_late(1, "late"), ["1", "late"]),
    "numbers too large for Arrow": (_late(1, 2**70), ["1", str(2**70)]),
    "texts, then a torn one": (_late("a", "b\ud800"), ["a", "b?"]),
}


@pytest.mark.parametrize("name", CHANGING)
@pytest.mark.parametrize("kind", [".parquet", ".arrow"])
def test_a_pandas_column_that_changes_is_written_whole(
    client: shim.OpenAI, tmp_path: Path, name: str, kind: str
) -> None:
    """What was paid for can be written out: the types are those of the whole frame, not of its first window."""
    column, (first, last) = CHANGING[name]
    frame = pd.DataFrame({"text": ["a"] * ROWS, "other": pd.Series(column, dtype=object), 7: 1})
    client.embed(frame, column="text", out=tmp_path / f"x{kind}")
    written = _read_table(tmp_path / f"x{kind}")
    assert written.num_rows == ROWS
    assert (written["other"][0].as_py(), written["other"][-1].as_py()) == (first, last)
    assert written.column_names[:3] == ["text", "other", "7"]


@pytest.mark.parametrize("name", [name for name in CHANGING if "torn" not in name])
def test_a_json_lines_column_that_changes_or_comes_late_is_written_whole(
    client: shim.OpenAI, tmp_path: Path, name: str
) -> None:
    column, (first, last) = CHANGING[name]
    rows = [{"text": "a", "other": cell} for cell in column]
    rows[-1]["new"] = "x"
    (tmp_path / "in.jsonl").write_text("\n".join(map(json.dumps, rows)))
    client.embed(tmp_path / "in.jsonl", column="text", out=tmp_path / "x.parquet")
    written = pq.read_table(tmp_path / "x.parquet")
    assert (written["other"][0].as_py(), written["other"][-1].as_py()) == (first, last)
    assert (written["new"][0].as_py(), written["new"][-1].as_py()) == (None, "x")


def test_cells_of_json_lines_that_are_no_texts_are_error_rows_beside_texts_too(
    client: shim.OpenAI, tmp_path: Path
) -> None:
    rows = [{"text": "a"}, {"text": {"b": 1}}, {"text": 5}, {}, {"text": "c"}]
    (tmp_path / "in.jsonl").write_text("\n".join(map(json.dumps, rows)))
    for out in (None, tmp_path / "x.parquet"):
        job = client.embed(tmp_path / "in.jsonl", column="text", out=out)
        assert job.errors["kind"].tolist() == ["rejected", "rejected", "null"]
        assert "no text but dict" in job.errors["message"][0]


@pytest.mark.parametrize("kind", [".parquet", ".arrow", ".jsonl"])
def test_dictionaries_that_change_are_written(client: shim.OpenAI, tmp_path: Path, kind: str) -> None:
    chunks = [pa.array(["a"] * 16_384).dictionary_encode(), pa.array(["b"] * 3).dictionary_encode()]
    table = pa.table({"text": pa.chunked_array(chunks)})
    client.embed(table, column="text", out=tmp_path / f"x{kind}")
    assert client.embed(pl.from_arrow(table), column="text", into="v")["v"].len() == ROWS
    if kind != ".jsonl":
        assert _read_table(tmp_path / f"x{kind}")["text"][-1].as_py() == "b"


def test_a_polars_frame_of_provenance_can_be_written(client: shim.OpenAI, tmp_path: Path) -> None:
    client.embed(pl.Series(["a", None]), store=tmp_path).provenance.write_parquet(tmp_path / "x.parquet")


def _read_table(path: Path) -> Any:
    return pq.read_table(path) if path.suffix == ".parquet" else pa.ipc.open_file(pa.memory_map(str(path))).read_all()


@pytest.mark.parametrize("name", ["x.csv", "x.txt", "x.jsonl"])
def test_a_byte_order_mark_is_no_text(tmp_path: Path, name: str) -> None:
    line = {".csv": "text\nzebra", ".txt": "zebra", ".jsonl": '{"text": "zebra"}'}[Path(name).suffix]
    (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + line.encode())
    assert _cells(tmp_path / name) == ["zebra"]


def test_a_long_cell_of_a_csv_is_read(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("text\n" + "word " * 1_000_000 + "\n")
    assert [len(cell) for cell in _cells(tmp_path / "x.csv")] == [5_000_000]


def _numbered_twice(folder: Path) -> Any:
    (folder / "x.csv").write_text("text,text\na,b\n")
    return folder / "x.csv"


def _ragged(folder: Path) -> Any:
    (folder / "x.csv").write_text("text,n\n" + "a,1\n" * 20 + "b,2,3\n")
    return folder / "x.csv"


def _latin(folder: Path) -> Any:
    (folder / "x.csv").write_bytes("text\ncaf\xe9\n".encode("latin-1"))
    return folder / "x.csv"


@pytest.mark.parametrize(
    ("made", "says"),
    [
        pytest.param(_numbered_twice, "the file x.csv has 2 columns named 'text': rename them", id="a name twice"),
        pytest.param(_ragged, "x.csv cannot be read as csv: CSV parse error: Expected 2 columns", id="a ragged row"),
        pytest.param(_latin, "x.csv cannot be read as csv: .* invalid UTF8", id="another encoding"),
        pytest.param(lambda _: pa.scalar("a"), "StringScalar: read it into a table", id="a scalar"),
    ],
)
def test_what_cannot_be_read_names_the_file_and_what_is_wrong(
    tmp_path: Path, made: Callable[[Path], Any], says: str
) -> None:
    with pytest.raises(SourceError, match=says):
        _cells(made(tmp_path), "text")


def test_a_column_may_be_named_by_its_number() -> None:
    assert _cells(pd.DataFrame([["a", 1]]), 0) == ["a"]  # type: ignore[arg-type]


def test_an_out_that_is_a_folder_is_refused_before_anything_is_paid(client: shim.OpenAI, tmp_path: Path) -> None:
    (tmp_path / "x.parquet").mkdir()
    with pytest.raises(SourceError, match=r"x\.parquet' is a folder: name a file in it"):
        client.embed(["a"], out=tmp_path / "x.parquet")


def test_a_file_that_cannot_be_finished_leaves_nothing_half(
    client: shim.OpenAI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", full)
        with pytest.raises(StoreFullError, match="all vectors up to here are kept"):
            client.embed(["a"], out=tmp_path / "x.npy")
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]
    assert client.embed(["a"], out=tmp_path / "x.npy").summary().cached == 1


# -- columns that are there already

_VECTORS = [[0.5, 0.25], None, [0.5, 0.25], [0.5, 0.25], [0.5, 0.25]]
FRAMES: dict[str, Callable[[dict[str, Any]], Any]] = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "Arrow": pa.table}


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES.keys())
@pytest.mark.parametrize(
    ("into", "cells", "says"),
    [
        pytest.param("id", list(range(5)), "there is a column 'id' already", id="numbers"),
        pytest.param("title", list("abcde"), "give another name than 'title', or drop", id="words"),
        pytest.param("tokens", [[1, 2]] * 5, "there is a column 'tokens' already", id="lists of whole numbers"),
        pytest.param("text", None, "'text' is the column of texts itself", id="the texts"),
    ],
)
def test_no_column_of_the_users_is_lost(
    client: shim.OpenAI, make: Callable[[dict[str, Any]], Any], into: str, cells: Any, says: str
) -> None:
    frame = make({"text": TEXTS, **({} if cells is None else {into: cells})})
    with pytest.raises(SourceError) as caught:
        client.embed(frame, column="text", into=into)
    assert says in str(caught.value)


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES.keys())
def test_a_cell_may_be_run_again(client: shim.OpenAI, make: Callable[[dict[str, Any]], Any]) -> None:
    frame = client.embed(make({"text": TEXTS}), column="text", into="v")
    frame = client.embed(frame, column="text", into="v")
    assert [list(map(float, row)) if row is not None else None for row in _listed(frame["v"])] == _right(TEXTS)
    assert client.embed(make({"text": TEXTS, "v": [None] * 5}), column="text", into="v") is not None


def _listed(column: Any) -> list[Any]:
    return column.to_pylist() if hasattr(column, "to_pylist") else list(column)


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl", ".arrow"])
@pytest.mark.parametrize(
    ("columns", "says"),
    [
        pytest.param({"v": list("abcde")}, "there is a column 'v' already", id="words"),
        pytest.param({"v": _VECTORS}, "there is a column 'v' already", id="vectors that someone else made"),
        pytest.param({"v_model": list("abcde")}, "a column 'v' brings 'v_route'", id="what is told of each vector"),
    ],
)
def test_no_column_of_a_file_is_lost(
    client: shim.OpenAI, tmp_path: Path, suffix: str, columns: dict[str, Any], says: str
) -> None:
    given = tmp_path / "in.parquet"
    pq.write_table(pa.table({"text": TEXTS, **columns}), given)
    with pytest.raises(SourceError) as caught:
        client.embed(given, column="text", out=tmp_path / f"out{suffix}", into="v")
    assert says in str(caught.value)
    client.embed(given, column="text", out=tmp_path / "out.npy", into="v")  # which holds vectors alone


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl", ".arrow"])
def test_a_file_that_a_job_wrote_may_be_embedded_again(client: shim.OpenAI, tmp_path: Path, suffix: str) -> None:
    first, second = tmp_path / f"one{suffix}", tmp_path / "two.parquet"
    client.embed(TABLE, column="text", out=first, into="v")
    client.embed(first, column="text", out=second, into="v")
    assert pq.read_table(second).column_names[:3] == ["id", "text", "v"]
