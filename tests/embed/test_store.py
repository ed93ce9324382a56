"""The store: what is acknowledged is there after whatever happens, and no two spaces meet."""

from __future__ import annotations

import errno
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shim.embed.cells import ErrorKind, RowError
from shim.embed.errors import StoreError, StoreFullError
from shim.embed.identity import Oversize, SpaceIdentity
from shim.embed.segments import Segment, gather
from shim.embed.store import Origin, Shortened, Store, folder_for

SPACE = SpaceIdentity(family="fam", dimensions=None, normalised=False, input_type="document", oversize=Oversize.ERROR)
ORIGIN = Origin("a/m", "m", "declared:x", "call-1", 7, 1.0)


def _keys(*names: str) -> list[bytes]:
    return [name.encode().ljust(16, b"-") for name in names]


def _vectors(*values: float) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    return np.array([[value, value + 1, value + 2] for value in values], dtype=np.float32)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "s", SPACE) as made:
        yield made


def _read(store: Store, keys: list[bytes]) -> list[list[float]]:
    found = store.find(keys)
    out = np.empty((len(keys), 3), dtype=np.float32)
    store.read(np.array([found.get(key, (-1, 0))[0] for key in keys]), out)
    rows: list[list[float]] = out.tolist()
    return rows


def test_what_is_put_is_found(store: Store) -> None:
    keys = _keys("one", "two", "three")
    places = store.put(keys, _vectors(1, 2, 3), ORIGIN)
    assert store.find([*keys, *_keys("other")]) == dict(zip(keys, places, strict=True))
    assert _read(store, [keys[2], keys[0]]) == [[3, 4, 5], [1, 2, 3]]
    assert store.origins([places[0][1]]) == {places[0][1]: ORIGIN}


def test_a_row_without_a_place_is_nan(store: Store) -> None:
    store.put(_keys("one"), _vectors(1), ORIGIN)
    assert np.isnan(_read(store, _keys("none"))[0]).all()


def test_it_is_there_when_opened_again(store: Store) -> None:
    store.put(_keys("one"), _vectors(1), ORIGIN)
    store.close()
    with Store(store.folder, SPACE) as again:
        assert _read(again, _keys("one")) == [[1, 2, 3]]
        again.put(_keys("two"), _vectors(2), ORIGIN)
        assert len(list(store.folder.glob("*.f32"))) == 1, "the segment is taken up again"
        assert _read(again, _keys("two")) == [[2, 3, 4]]


def test_a_torn_tail_is_cut_off(store: Store) -> None:
    """A killed process had written more than the index knows of."""
    store.put(_keys("one"), _vectors(1), ORIGIN)
    store.close()
    (path,) = store.folder.glob("*.f32")
    with path.open("ab") as file:
        file.write(b"\x00" * 17)
    with Store(store.folder, SPACE) as again:
        again.put(_keys("two"), _vectors(2), ORIGIN)
        assert path.stat().st_size == 24
        assert _read(again, _keys("one", "two")) == [[1, 2, 3], [2, 3, 4]]


def test_two_writers_have_a_segment_each(store: Store) -> None:
    with Store(store.folder, SPACE) as other:
        store.put(_keys("one"), _vectors(1), ORIGIN)
        other.put(_keys("two"), _vectors(2), ORIGIN)
        store.put(_keys("three"), _vectors(3), ORIGIN)
        assert len(list(store.folder.glob("*.f32"))) == 2
        assert _read(other, _keys("one", "two", "three")) == [[1, 2, 3], [2, 3, 4], [3, 4, 5]]


def test_one_text_has_one_vector_whoever_was_first(store: Store) -> None:
    with Store(store.folder, SPACE) as other:
        (first,) = store.put(_keys("one"), _vectors(1), ORIGIN)
        places = other.put(_keys("one", "two"), _vectors(9, 2), ORIGIN)
        assert places[0] == first
        assert places[0][1] != other.put_number
        assert _read(other, _keys("one", "two")) == [[1, 2, 3], [2, 3, 4]]


def test_another_space_is_refused(store: Store) -> None:
    with pytest.raises(StoreError, match="give another folder"):
        Store(store.folder, replace(SPACE, input_type="query"))


def test_vectors_of_another_length_are_refused_and_harm_nothing(store: Store) -> None:
    store.put(_keys("one", "two"), _vectors(1, 2), ORIGIN)
    store.close()
    with Store(store.folder, SPACE) as again:
        with pytest.raises(StoreError, match=r"vectors of 1 numbers do not belong in .*: it holds 3; embed afresh"):
            again.put(_keys("three"), np.ones((1, 1), dtype=np.float32), ORIGIN)
        assert _read(again, _keys("one", "two")) == [[1, 2, 3], [2, 3, 4]]


@pytest.mark.parametrize("after", ["the commit", "the write"])
def test_a_put_interrupted_at_any_point_never_lets_another_batch_take_its_place(
    store: Store, monkeypatch: pytest.MonkeyPatch, after: str
) -> None:
    """Ctrl-C may come when the index has the rows and the segment does not know it yet."""
    noted = store._index.put

    def interrupted(*given: Any) -> Any:
        if after == "the commit":
            noted(*given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(store._index, "put", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.put(_keys("one"), _vectors(1), ORIGIN)
    store.put(_keys("two"), _vectors(2), ORIGIN)
    assert _read(store, _keys("two")) == [[2, 3, 4]]
    if after == "the commit":
        assert _read(store, _keys("one")) == [[1, 2, 3]]
    else:
        assert store.find(_keys("one")) == {}


def test_an_index_that_cannot_be_folded_at_the_end_is_folded_at_the_next_opening(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put(_keys("one"), _vectors(1), ORIGIN)

    def full() -> None:
        raise StoreFullError(store.folder)

    monkeypatch.setattr(store._index, "fold", full)
    store.close()
    with Store(store.folder, SPACE) as again:
        assert _read(again, _keys("one")) == [[1, 2, 3]]


def test_spaces_have_folders_of_their_own(tmp_path: Path) -> None:
    assert folder_for(SPACE, tmp_path) != folder_for(replace(SPACE, input_type="query"), tmp_path)
    assert folder_for(replace(SPACE, family="a/b c"), tmp_path).parent == tmp_path


def test_vectors_of_another_length_are_refused(store: Store) -> None:
    store.put(_keys("one"), _vectors(1), ORIGIN)
    with pytest.raises(StoreError, match="vectors of 2 numbers do not belong"):
        store.put(_keys("two"), np.ones((1, 2), dtype=np.float32), ORIGIN)


def test_a_space_that_was_observed_is_not_left(store: Store) -> None:
    store.observe("aaa")
    store.observe("aaa")
    with pytest.raises(StoreError, match=r"another vector space \(aaa\).*\(bbb\).*fresh=True"):
        store.observe("bbb")


def test_suspects_are_remembered_until_they_have_a_vector(store: Store) -> None:
    error = RowError(ErrorKind.REJECTED, "no", "a/m", 3)
    store.suspect({_keys("one")[0]: error})
    assert store.suspects(_keys("one", "two")) == {_keys("one")[0]: replace(error, message="")}
    store.put(_keys("one"), _vectors(1), ORIGIN)
    assert store.suspects(_keys("one")) == {}


def test_what_was_shortened_is_noted(store: Store) -> None:
    store.put_shortened({_keys("one")[0]: Shortened(100, 50, 1)})
    assert store.shortened(_keys("one", "two")) == {_keys("one")[0]: Shortened(100, 50, 1)}


def test_a_full_disk_loses_nothing_that_was_there(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put(_keys("one"), _vectors(1), ORIGIN)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("shim.embed.segments._sync", full)
    with pytest.raises(StoreFullError, match=r"no space left for .* are kept; free some space"):
        store.put(_keys("two"), _vectors(2), ORIGIN)
    monkeypatch.undo()
    assert store.find(_keys("two")) == {}
    store.put(_keys("three"), _vectors(3), ORIGIN)
    assert _read(store, _keys("one", "three")) == [[1, 2, 3], [3, 4, 5]]
    (path,) = store.folder.glob("*.f32")
    assert path.stat().st_size == 24


def test_a_failed_commit_leaves_no_row(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put(_keys("one"), _vectors(1), ORIGIN)

    def full(_: Origin) -> int:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(store._index, "_insert", full)
    with pytest.raises(StoreFullError):
        store.put(_keys("two"), _vectors(2), ORIGIN)
    monkeypatch.undo()
    store.put(_keys("three"), _vectors(3), ORIGIN)
    assert _read(store, _keys("one", "two", "three"))[::2] == [[1, 2, 3], [3, 4, 5]]
    assert store.find(_keys("two")) == {}


def test_a_new_store_is_opened_by_several_at_the_same_instant(tmp_path: Path) -> None:
    """SQLite itself refuses those who turn the same new file to shared writing at once, without waiting."""
    gate = threading.Barrier(8)

    def opened(folder: Path) -> None:
        gate.wait(10)
        Store(folder, SPACE).close()

    with ThreadPoolExecutor(8) as pool:
        for number in range(25):
            list(pool.map(opened, [tmp_path / str(number)] * 8))


def test_a_damaged_index_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    folder.mkdir()
    (folder / "index.sqlite").write_bytes(b"this is no database, and never was one" * 100)
    with pytest.raises(StoreError, match="cannot be used"):
        Store(folder, SPACE)


def test_a_short_segment_is_an_error_and_no_garbage(tmp_path: Path) -> None:
    path = tmp_path / "x.f32"
    path.write_bytes(b"\x00" * 12)
    out = np.empty((1, 3), dtype=np.float32)
    with pytest.raises(OSError, match="shorter than its index says"):
        gather(path, 3, np.array([1]), out, np.array([0]))


def test_scattered_rows_are_gathered_in_any_order(tmp_path: Path) -> None:
    segment = Segment.lock(tmp_path / "x.f32", 3, lambda: 0)
    assert segment is not None
    every = np.arange(6000, dtype=np.float32).reshape(2000, 3)
    segment.append(every)
    segment.close()
    rows = np.array([1999, 0, 700, 701, 699, 1500, 3, 3], dtype=np.int64)
    out = np.empty((len(rows), 3), dtype=np.float32)
    gather(tmp_path / "x.f32", 3, rows, out, np.arange(len(rows)))
    assert (out == every[rows]).all()


WRITER = """
import sys
from pathlib import Path
import numpy as np
from tests.embed.test_store import ORIGIN, SPACE
from shim.embed.store import Store

store = Store(Path(sys.argv[1]), SPACE)
start = int(sys.argv[2])
for batch in range(start, start + 10_000):
    keys = [b"%016d" % (batch * 10 + offset) for offset in range(10)]
    store.put(keys, np.full((10, 3), batch + 1, dtype=np.float32), ORIGIN)
    print(batch, flush=True)
"""


def _writer(folder: Path, start: int) -> subprocess.Popen[str]:
    code = textwrap.dedent(WRITER)
    return subprocess.Popen(
        [sys.executable, "-c", code, str(folder), str(start)], stdout=subprocess.PIPE, text=True, cwd=os.getcwd()
    )


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_killed_writer_loses_nothing_that_it_was_told_is_kept(tmp_path: Path) -> None:
    """Two writers at once, both killed in mid-write: every acknowledged row is there, and right."""
    Store(tmp_path / "s", SPACE).close()
    acknowledged: list[int] = []
    writers = [_writer(tmp_path / "s", start) for start in (0, 100_000)]
    for writer in writers:
        assert writer.stdout is not None
        acknowledged += [int(writer.stdout.readline()) for _ in range(30)]
    for writer in writers:
        writer.send_signal(signal.SIGKILL)
        assert writer.stdout is not None
        acknowledged += [int(line) for line in writer.stdout.read().split()]
        writer.stdout.close()
        writer.wait(10)
    with Store(tmp_path / "s", SPACE) as store:
        keys = [b"%016d" % (batch * 10 + offset) for batch in acknowledged for offset in range(10)]
        assert len(store.find(keys)) == len(keys)
        rows = _read(store, keys)
        assert [row[0] for row in rows] == [batch + 1 for batch in acknowledged for _ in range(10)]
        store.put(_keys("later"), _vectors(5), ORIGIN)
        assert _read(store, _keys("later")) == [[5, 6, 7]]
