"""`shim embed` and `shim cache`: what they write, what they say, their exit codes, and the mistakes that they tell."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shim.cli.complaints import BAD_USE
from shim.cli.embed import AT_A_LIMIT, DONE, INTERRUPTED, STOPPED, WITH_FAILED_ROWS
from shim.embed.bar import WaitsTold
from shim.events import JobProgress, JobState
from tests.cli.places import run
from tests.embed.serving import Provider, failing
from tests.support.server import Peer, Seen, Server

CONFIG = """
[providers.a]
base_url = "{url}"
[families.fam]
kind = "embedding"
routes = ["a/m-a"]
[policy]
max_retries = 0
"""


@pytest.fixture
def provider(place: Path) -> Iterator[Provider]:
    made = Provider()
    with Server(made) as server:
        (place / "shim.toml").write_text(CONFIG.format(url=server.base_url))
        yield made


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, place: Path) -> Path:
    monkeypatch.setenv("SHIM_CACHE_DIR", str(place / "cache"))
    return place / "cache"


@pytest.fixture
def texts(place: Path) -> Path:
    path = place / "in.csv"
    path.write_text("id,body\n" + "".join(f"{row},row {row}\n" for row in range(100)))
    return path


def _embed(*more: str) -> tuple[int, str, str]:
    return run("embed", "in.csv", "--column", "body", "--out", "out.parquet", *more)


@pytest.mark.usefixtures("texts")
def test_a_file_is_embedded_and_a_second_run_costs_nothing(provider: Provider) -> None:
    code, out, _ = _embed()
    assert code == DONE
    assert "100 of 100 rows have their vector" in out
    assert "Written: out.parquet" in out
    assert pq.read_table("out.parquet").column_names[:3] == ["id", "body", "embedding"]
    code, out, _ = _embed()
    assert code == DONE
    assert "(100 kept from before" in out
    assert sum(provider.asked.values()) == 100
    code, _, _ = _embed("--fresh")
    assert sum(provider.asked.values()) == 200


def test_failed_rows_have_an_exit_code_and_a_line_each(provider: Provider, texts: Path) -> None:
    texts.write_text("id,body\n1,good\n2,\n3,row 9\n")
    provider.poison = frozenset({"row 9"})
    code, out, _ = _embed()
    assert code == WITH_FAILED_ROWS
    assert "2 rows failed: 1 empty, 1 rejected" in out
    assert "the text is empty" in out
    assert "'$.input' is invalid" in out
    code, _, complaint = _embed("--on-error", "raise")
    assert code == WITH_FAILED_ROWS
    assert "2 rows without a vector" in complaint


@pytest.mark.usefixtures("texts", "provider")
def test_a_limit_has_an_exit_code_and_what_is_done_is_kept() -> None:
    code, out, _ = _embed("--limit-rows", "30")
    assert code == AT_A_LIMIT
    assert "30 of 100 rows" in out
    assert pq.read_table("out.parquet").column("embedding_error").to_pylist().count("not reached") == 70
    code, out, _ = _embed()
    assert code == DONE
    assert "(30 kept from before" in out


@pytest.mark.usefixtures("provider")
def test_too_many_failed_rows_are_a_limit_too(texts: Path) -> None:
    texts.write_text("id,body\n1,good\n2,\n")
    code, _, complaint = _embed("--max-error-rate", "0.05")
    assert code == AT_A_LIMIT
    assert "more than the 5.0% allowed" in complaint
    assert not Path("out.parquet").exists()


@pytest.mark.usefixtures("texts")
def test_no_route_left_is_told(provider: Provider) -> None:
    provider.faults = [failing(1.0, 503)]
    code, _, complaint = _embed("--patience", "0.2")
    assert code == STOPPED
    assert "no route is left" in complaint
    assert "0 of 100 rows" in " ".join(complaint.split())
    assert not Path("out.parquet").exists()


@pytest.mark.usefixtures("texts")
def test_a_dry_run_sends_nothing(provider: Provider) -> None:
    code, out, _ = run("embed", "in.csv", "--column", "body", "--dry-run")
    assert code == DONE
    assert "Nothing was sent" in out
    assert "texts to embed  100" in out
    assert "a/m-a" in out
    assert provider.sizes == []
    _, out, _ = run("embed", "in.csv", "--column", "body", "--dry-run", "--json")
    assert json.loads(out)["routes"]["a/m-a"]["requests"] == 1


@pytest.mark.usefixtures("texts", "provider")
def test_json_is_for_machines() -> None:
    code, out, _ = _embed("--json")
    assert code == DONE
    summary = json.loads(out)
    assert (summary["done"], summary["failed"], summary["shares"]) == (100, 0, {"a/m-a": 1.0})


@pytest.mark.usefixtures("texts", "provider")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("in.csv", "--column", "body"), "--out FILE is needed"),
        (("in.csv", "--out", "o.parquet"), "which column of the file in.csv? Give `column`, one of: id, body"),
        (("in.csv", "--column", "bdy", "--out", "o.parquet"), "has no column 'bdy'"),
        (("no.csv", "--out", "o.parquet"), "there is no file 'no.csv'"),
        (("in.csv", "--column", "body", "--out", "o.txt"), "cannot write a .txt"),
        (("in.csv", "--column", "body", "--out", "in.csv"), "cannot write a .csv"),
        (("in.csv", "--column", "body", "--out", "o.parquet", "--family", "fan"), "no embedding family 'fan'"),
    ],
    ids=["no out", "no column", "another column", "no file", "unknown kind", "a table", "another family"],
)
def test_a_mistake_is_told_without_a_traceback(arguments: tuple[str, ...], says: str) -> None:
    code, _, complaint = run("embed", *arguments)
    assert code == BAD_USE
    assert says in complaint
    assert "Traceback" not in complaint


@pytest.mark.usefixtures("texts")
def test_an_interrupted_run_keeps_everything(provider: Provider, cache: Path) -> None:
    def slow(one: Provider, request: Seen, peer: Peer) -> bool:
        if len(one.asked) >= 20:
            peer.is_gone(0.3)
        return False

    provider.faults = [slow]
    command = [sys.executable, "-c", "from shim.cli import main; main()", "embed", "in.csv", "--column", "body"]
    rest = ["--out", "out.parquet", "--batch-size", "10", "--concurrency", "1"]
    environment = {**os.environ, "SHIM_CACHE_DIR": str(cache)}
    process = subprocess.Popen([*command, *rest], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
    deadline = 1200
    while len(provider.asked) < 30 and deadline:
        deadline -= process.poll() is None and _short_wait()
    process.send_signal(signal.SIGINT)
    _, complaint = process.communicate(timeout=60)
    assert process.returncode == INTERRUPTED, complaint
    assert b"run the same again to go on from there" in b" ".join(complaint.split())
    assert not Path("out.parquet").exists()
    provider.faults = []
    code, out, _ = _embed()
    assert code == DONE
    assert "(0 kept from before" not in out
    assert max(provider.asked.values()) == 1


def _short_wait() -> int:
    import time

    time.sleep(0.05)
    return 1


# -- shim cache


@pytest.mark.usefixtures("texts", "provider")
def test_the_cache_is_listed_shown_checked_and_written_out(place: Path) -> None:
    assert "No stores" in run("cache", "ls")[1]
    _embed()
    _, out, _ = run("cache", "ls", "--json")
    (store,) = json.loads(out)
    assert (store["vectors"], store["length"]) == (100, 8)
    assert store["name"].startswith("fam-")
    assert store["name"] in "".join(run("cache", "ls")[1].split())
    code, out, _ = run("cache", "show", "fam", "--json")
    assert json.loads(out)["made_by"][0]["vectors"] == 100
    assert run("cache", "verify", "fam")[:2] == (0, "100 vectors, all sound.\n")
    code, out, _ = run("cache", "export", "fam", "--out", "e.parquet")
    assert code == 0
    table = pq.read_table("e.parquet")
    assert table.num_rows == 100
    assert set(table.column("route").to_pylist()) == {"a/m-a"}
    ours = {tuple(row) for row in table.column("embedding").to_pylist()}
    assert ours == {tuple(row) for row in pq.read_table("out.parquet").column("embedding").to_pylist()}


@pytest.mark.usefixtures("texts", "provider")
def test_damage_is_found(cache: Path) -> None:
    _embed()
    (segment,) = cache.glob("embeddings/*/*.f32")
    rows = np.fromfile(segment, dtype="<f4").reshape(-1, 8)
    rows[3] = np.nan
    rows[5] = 0
    segment.write_bytes(rows.tobytes()[:-32])
    code, out, _ = run("cache", "verify", "fam")
    assert code == 1
    assert "vector 3 is zero or not finite" in out
    assert "vector 5 is zero or not finite" in out
    assert "holds 99 vectors where the index has 100" in out
    segment.unlink()
    assert "is missing, with 100 vectors" in run("cache", "verify", "fam")[1]


@pytest.mark.usefixtures("texts", "provider")
def test_stores_are_removed_by_name_or_by_age(cache: Path) -> None:
    _embed()
    assert "Nothing to remove" in run("cache", "prune", "--older-than", "1", "--yes")[1]
    code, out, _ = run("cache", "prune", "fam", "--yes")
    assert code == 0
    assert "Removed fam-" in out
    assert list(cache.glob("embeddings/*")) == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("cache", "show", "nothing"), "no store named 'nothing'; there are: none"),
        (("cache", "prune"), "name the stores to remove"),
    ],
    ids=["an unknown store", "nothing named"],
)
def test_mistakes_with_the_cache(arguments: tuple[str, ...], says: str) -> None:
    code, _, complaint = run(*arguments)
    assert code == BAD_USE
    assert says in complaint


def test_a_dry_run_says_why_rows_are_bad(provider: Provider, place: Path) -> None:
    pq.write_table(pa.table({"id": [None, 7, 8]}), place / "in.parquet")
    code, out, _ = run("embed", "in.parquet", "--column", "id", "--dry-run")
    assert code == DONE
    assert "of them bad     3 (1 null, 2 rejected)" in out
    assert "row 1: the cell is no text but int (7): convert the column to texts" in " ".join(out.split())
    estimate = json.loads(run("embed", "in.parquet", "--column", "id", "--dry-run", "--json")[1])
    assert estimate["errors"] == {"null": 1, "rejected": 2}


@pytest.mark.usefixtures("texts")
def test_what_a_limit_left_is_told_apart_from_what_failed(provider: Provider, place: Path) -> None:
    (place / "in.csv").write_text("body\n" + '""\n' + "".join(f"row {row}\n" for row in range(99)))
    _, out, _ = _embed("--limit-rows", "20")
    assert "1 row failed: 1 empty" in out
    assert "79 rows were not reached" in out
    assert "in 1 request and" in " ".join(out.split())


def test_a_wait_is_told_once_where_nobody_watches() -> None:
    told = io.StringIO()
    say = WaitsTold(told)
    for state, left in (
        ("running", None),
        ("waiting", 1.0),
        ("waiting", 60.0),
        ("waiting", 59.0),
        ("running", None),
        ("waiting", 9.0),
    ):
        say(_progress(JobState(state), left))
    assert [line.partition(": ")[2] for line in told.getvalue().splitlines()] == ["a/m-a: slow down"] * 2
    assert told.getvalue().startswith("waiting until ")


def _progress(state: JobState, left: float | None) -> JobProgress:
    given: dict[str, Any] = dict.fromkeys([one.name for one in fields(JobProgress)], 0)
    return JobProgress(
        **{
            **given,
            "state": state,
            "message": "a/m-a: slow down",
            "at": 1e9,
            "waiting_until": None if left is None else 1e9 + left,
        }
    )
