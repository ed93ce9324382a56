"""Cassettes that something else recorded, or that were written by hand: read as they are meant, or refused in words."""

from __future__ import annotations

import base64
import gzip
from pathlib import Path
from typing import Any

import pytest

from shim.testing import CassetteError, use_cassette
from tests.support.faces import FLAVOURS

URL = "http://a.invalid/v1"
OK = "status: {code: 200, message: OK}"
JSON = '{"a": 1}'
ZIPPED = "!!binary " + base64.b64encode(gzip.compress(JSON.encode())).decode()


def _written(
    path: Path, *, asked: str = "null", said: str = f"string: '{JSON}'", headers: str = "{}", status: str = OK
) -> Path:
    path.write_text(
        f"interactions:\n- request:\n    body: {asked}\n    headers: {{}}\n    method: POST\n    uri: {URL}\n"
        f"  response:\n    body:\n      {said}\n    headers: {headers}\n    {status}\nversion: 1\n"
    )
    return path


def _play(path: Path, library: str, content: bytes = b"") -> Any:
    with use_cassette(path):
        return FLAVOURS[library].post(URL, content=content)


@pytest.mark.parametrize("library", FLAVOURS)
@pytest.mark.parametrize(
    ("written", "sent"),
    [
        pytest.param({"headers": "{Content-Encoding: [gzip]}"}, b"", id="decoded, with the header left"),
        pytest.param({"headers": "{Content-Encoding: [br]}"}, b"", id="decoded from brotli"),
        pytest.param({"headers": "{Content-Encoding: [gzip]}", "said": f"string: {ZIPPED}"}, b"", id="compressed"),
        pytest.param(
            {"said": f"base64_string: {base64.b64encode(JSON.encode()).decode()}"}, b"", id="base64 in its own field"
        ),
        pytest.param({"said": f"string: !!python/unicode '{JSON}'"}, b"", id="a text of Python 2"),
        pytest.param(
            {
                "asked": "!!python/object/new:_io.BytesIO\n      state: !!python/tuple\n      - !!binary YWI=\n"
                "      - 0\n      - null"
            },
            b"ab",
            id="an upload",
        ),
        pytest.param({"asked": "{model: m, input: [a, 1]}"}, b'{"input":["a",1.0],"model":"m"}', id="a body as YAML"),
        pytest.param({"said": "string: {a: 1}"}, b"", id="an answer as YAML"),
        pytest.param({"status": 'status: {code: "200", message: null}'}, b"", id="a status in quotes"),
    ],
)
def test_what_others_wrote_is_read_as_it_is_meant(
    tmp_path: Path, library: str, written: dict[str, str], sent: bytes
) -> None:
    answer = _play(_written(tmp_path / "a.yaml", **written), library, sent)
    assert (answer.status_code, answer.json()) == (200, {"a": 1})


@pytest.mark.parametrize("library", FLAVOURS)
def test_what_old_vcrpy_wrote_for_httpx_is_read(tmp_path: Path, library: str) -> None:
    (tmp_path / "a.yaml").write_text(
        f"interactions:\n- request:\n    body: ''\n    headers: {{}}\n    method: POST\n    uri: {URL}\n"
        f"  response:\n    content: '{JSON}'\n    headers: {{content-encoding: [gzip]}}\n    http_version: HTTP/1.1\n"
        "    status_code: 201\nversion: 1\n"
    )
    answer = _play(tmp_path / "a.yaml", library)
    assert (answer.status_code, answer.json()) == (201, {"a": 1})


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ({"said": "string: 12"}, "the answer's body is no text but 12: put it in quotes"),
        ({"asked": "true"}, "the request's body is no text but True: put it in quotes"),
        ({"said": "string: !!python/object/apply:os.getcwd []"}, "is no YAML"),
    ],
    ids=["a number", "a truth", "an object"],
)
def test_what_cannot_be_meant_is_refused(tmp_path: Path, written: dict[str, str], says: str) -> None:
    with pytest.raises(CassetteError, match=says):
        _play(_written(tmp_path / "a.yaml", **written), "httpx2")


def test_what_is_no_cassette_of_today_says_how_to_make_one(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("- request: {}\n  response: {}\n")
    with pytest.raises(CassetteError, match=r"before 1\.0: `python -m vcr\.migration .*a\.yaml` makes it anew"):
        _play(tmp_path / "a.yaml", "httpx2")
    with pytest.raises(CassetteError, match="is a folder: name a file in it"):
        _play(tmp_path, "httpx2")
