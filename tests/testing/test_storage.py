"""Cassette files: what goes in comes out, byte for byte; long vectors are small; a file is whole or not there."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shim.testing import packing, storage
from shim.testing.recording import Asked, CassetteError, Recording, Said

BODIES = [
    b"",
    b"{}",
    b'{"a": "\xc3\xa9\xe2\x80\xa8 \\ud800"}',
    b'data: {"a":1}\n\ndata: [DONE]\n\n',
    b"data: x\r\n\r\n: ping\r\n\r\n",
    b"\n\n",
    b" leading and trailing \n x ",
    b"a\tb\nc\n",
    b'it\'s "quoted"',
    b"--- \n...\n",
    b"null",
    b"12",
    b"# no comment",
    b"\xff\xfe\x00\x01",
    b"\x00",
    "\ufeff{}".encode(),
    "\x85 \u2028 \U0001f600".encode(),
]


def recording(body: bytes) -> Recording:
    asked = Asked("POST", "http://a.invalid/v1/x?a=b", {"content-type": "application/json"}, body)
    return Recording(asked, Said(200, (("x-ratelimit-a", "1"), ("x-ratelimit-a", "2")), body, "OK"))


@pytest.mark.parametrize("body", BODIES, ids=repr)
def test_bodies_come_back_byte_for_byte(body: bytes, tmp_path: Path) -> None:
    storage.write(tmp_path / "a.yaml", {"source": "recorded"}, [recording(body)])
    assert storage.read(tmp_path / "a.yaml") == ({"source": "recorded"}, [recording(body)])


@example(["\x85".encode(), "a\u2028b\n\u2029".encode(), b"\r", b"\n\n", b" "])
@given(st.lists(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace"))))
def test_any_body_comes_back(tmp_path_factory: pytest.TempPathFactory, bodies: list[bytes]) -> None:
    path = tmp_path_factory.mktemp("any") / "a.yaml"
    recordings = [recording(body) for body in bodies]
    storage.write(path, {}, recordings)
    assert storage.read(path)[1] == recordings


def test_a_stream_is_a_block_to_read(tmp_path: Path) -> None:
    storage.write(tmp_path / "a.yaml", {}, [recording(b"data: one\n\ndata: two\n\n")])
    assert "string: |+\n        data: one\n\n        data: two\n" in (tmp_path / "a.yaml").read_text()


def test_the_first_line_says_where_it_is_from() -> None:
    recorded = storage.dump({"source": "recorded", "server": "lab 1", "recorded_at": "2026-01-02"}, [])
    assert recorded.startswith("# Recorded from lab 1 on 2026-01-02.\nversion: 1\n")
    assert storage.dump({"source": "synthetic", "about": "Made up."}, []).startswith(
        "# Synthetic: no server gave these answers. Made up.\n"
    )


def test_a_cassette_of_plain_vcrpy_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "interactions:\n- request:\n    body: null\n    headers: {Accept: ['*/*']}\n    method: GET\n"
        "    uri: http://a.invalid/\n  response:\n    body: {string: hi}\n    headers: {Content-Type: [text/plain]}\n"
        "    status: {code: 200, message: OK}\nversion: 1\n"
    )
    metadata, (found,) = storage.read(tmp_path / "a.yaml")
    assert metadata == {}
    assert found == Recording(
        Asked("GET", "http://a.invalid/", {"accept": "*/*"}), Said(200, (("content-type", "text/plain"),), b"hi", "OK")
    )


def test_an_empty_file_is_an_empty_cassette(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("")
    assert storage.read(tmp_path / "a.yaml") == ({}, [])


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.yaml"
    storage.write(path, {}, [recording(b"first")])
    before = path.read_bytes()

    def fail(*given: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="no space left"):
        storage.write(path, {}, [recording(b"second")])
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


# -- vectors


def answer(numbers: list[float], separator: str = ", ") -> str:
    written = separator.join(json.dumps(number) for number in numbers)
    return f'{{"data": [{{"embedding": [{written}], "index": 0}}], "usage": {{}}}}'


@pytest.mark.parametrize("separator", [", ", ",", ",\n  "], ids=["a space", "none", "lines"])
@pytest.mark.parametrize("kind", ["double", "single", "whole"])
def test_a_packed_vector_is_small_and_comes_back(kind: str, separator: str) -> None:
    chance = random.Random(7)
    numbers = {
        "double": [chance.gauss(0, 0.05) for _ in range(384)],
        "single": [chance.randrange(-(2**20), 2**20) / 2**24 for _ in range(384)],
        "whole": [float(number) for number in range(384)],
    }[kind]
    body = answer(numbers, separator)
    packed = packing.pack(body)
    assert '"length": 384' in packed
    assert len(packed) < 384 * (11.5 if kind == "double" else 6.2)
    assert packing.unpack(packed) == body


@pytest.mark.parametrize(
    "body",
    [
        answer([0.1] * 3),
        '{"embedding": "' + "A" * 100 + '"}',
        '{"embedding": [[0.1, 0.2], [0.3, 0.4]]}',
        '{"embedding": [' + "null, " * 20 + "1]}",
        '{"embedding": [' + "NaN, " * 20 + "1.0]}",
        '{"embeddings": [1.0]}',
        "",
    ],
    ids=["short", "base64", "matrix", "nulls", "no numbers", "another field", "nothing"],
)
def test_what_is_no_long_vector_stays(body: str) -> None:
    assert packing.pack(body) == body
    assert packing.unpack(body) == body


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=16, max_size=64))
def test_numbers_are_exact(numbers: list[float]) -> None:
    body = answer(numbers)
    assert json.loads(packing.unpack(packing.pack(body))) == json.loads(body)


def test_a_broken_packing_is_an_error_that_names_the_place(tmp_path: Path) -> None:
    storage.write(tmp_path / "a.yaml", {}, [recording(answer([0.5] * 20).encode())])
    text = (tmp_path / "a.yaml").read_text()
    (tmp_path / "a.yaml").write_text(text.replace('"length": 20', '"length": 21'))
    with pytest.raises(CassetteError, match=r"a.yaml: interaction 1 cannot be read .*21 numbers has 80 bytes, not 84"):
        storage.read(tmp_path / "a.yaml")
