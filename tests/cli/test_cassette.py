"""`shim cassette`: what each command shows, writes and finds; its exit codes and the mistakes that it tells."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from shim.cli.complaints import BAD_USE
from shim.testing import answers, storage
from shim.testing.recording import Asked, Recording, Said
from tests.cli.places import run

JSON = (("content-type", "application/json"),)
KEY = "sk-made-up-0123456789"


def asked(text: str = "hi", model: str = "m", host: str = "lab.invalid") -> Asked:
    body = {"model": model, "messages": [{"role": "user", "content": text}]}
    url = f"http://{host}/v1/chat/completions"
    return Asked("POST", url, {"content-type": "application/json"}, json.dumps(body).encode())


def says(text: str = "hello", status: int = 200, headers: tuple[tuple[str, str], ...] = JSON) -> Said:
    return Said(status, headers, json.dumps(answers.chat(text)).encode())


def write(path: Path, *recordings: Recording, **metadata: Any) -> Path:
    told = {"source": "recorded", "server": "lab 1.2.3", "recorded_at": "2026-01-02", **metadata}
    storage.write(path, told, recordings)
    return path


@pytest.fixture
def one(place: Path) -> Path:
    return write(place / "cassettes" / "one.yaml", Recording(asked(), says()), Recording(asked("bye"), says("so long")))


# -- ls and show


def test_ls_lists_what_there_is(one: Path, place: Path) -> None:
    write(
        place / "cassettes" / "deep" / "two.yaml", Recording(asked(), says(status=429)), source="synthetic", server=None
    )
    code, out, err = run("cassette", "ls")
    assert (code, err) == (0, "")
    rows = [line.split() for line in out.splitlines()[2:]]
    assert rows == [
        ["cassettes/deep/two.yaml", "synthetic", "2026-01-02", "1", "429", "1"],
        ["cassettes/one.yaml", "lab", "1.2.3", "2026-01-02", "2", "200", "1"],
    ]
    code, out, _ = run("cassette", "ls", "cassettes/one.yaml")
    assert (code, len(out.splitlines())) == (0, 3)


def test_show_tells_the_exchanges_in_their_order(one: Path) -> None:
    code, out, _ = run("cassette", "show", str(one))
    assert code == 0
    assert "Recorded from lab 1.2.3 on 2026-01-02." in out
    assert out.index("m: hi") < out.index("m: bye")
    assert "hello" in out
    assert "so long" in out


def test_show_tells_one_exchange_whole(one: Path) -> None:
    code, out, _ = run("cassette", "show", str(one), "2")
    assert code == 0
    assert "POST http://lab.invalid/v1/chat/completions" in out
    assert '"content": "bye"' in out
    assert '"content": "so long"' in out
    assert "hello" not in out


def test_show_shortens_vectors_and_reads_streams(place: Path) -> None:
    vectors = answers.embeddings({"input": ["a"], "model": "m"}, 64)
    stream = b"".join(answers.chat_events(["it ", "rains"]))
    path = write(
        place / "a.yaml",
        Recording(asked(), Said(200, JSON, json.dumps(vectors).encode())),
        Recording(asked(), Said(200, (answers.EVENTS,), stream)),
        Recording(asked(), Said(0, phrase="no answer")),
    )
    _, out, _ = run("cassette", "show", str(path))
    assert "1 vector" in out
    assert "5 events: it rains" in out
    assert "none" in out
    _, out, _ = run("cassette", "show", str(path), "1")
    assert "64 numbers of norm 1.0" in out
    assert "base64" not in out


def test_what_a_server_says_cannot_steer_the_terminal(place: Path) -> None:
    path = write(place / "a.yaml", Recording(asked(), says("\x1b[31mred\x1b]0;title\x07")))
    for number in ((), ("1",)):
        _, out, _ = run("cassette", "show", str(path), *number)
        assert "\x1b" not in out
        assert "\x07" not in out


# -- scrub


@pytest.fixture
def dirty(place: Path) -> Path:
    leaky = Recording(
        Asked("POST", f"http://lab.invalid/v1/x?key={KEY}", {"authorization": f"Bearer {KEY}"}, b"{}"),
        Said(401, (*JSON, ("set-cookie", "session=1")), f'{{"m":"{KEY}"}}'.encode()),
    )
    return write(place / "cassettes" / "dirty.yaml", leaky)


def test_scrub_check_names_what_it_finds_and_changes_nothing(dirty: Path) -> None:
    before = dirty.read_bytes()
    code, out, _ = run("cassette", "scrub", "--check")
    assert code == 1
    assert out.splitlines() == [
        "cassettes/dirty.yaml: 1. request header authorization: a credential",
        "cassettes/dirty.yaml: 1. query field key: a credential",
        "cassettes/dirty.yaml: 1. answer header set-cookie: a credential",
        "cassettes/dirty.yaml: 1. answer body: repeats a key",
        "1 cassette, 4 findings found",
    ]
    assert KEY not in out
    assert dirty.read_bytes() == before


def test_scrub_takes_it_out(dirty: Path) -> None:
    assert run("cassette", "scrub", str(dirty))[0] == 0
    text = dirty.read_text()
    assert KEY not in text
    assert "session" not in text
    code, out, _ = run("cassette", "scrub", "--check")
    assert (code, out) == (0, "1 cassette, no findings\n")


def test_scrub_masks_the_value_of_a_variable(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(place / "cassettes" / "a.yaml", Recording(asked("of blue-team"), says()))
    monkeypatch.setenv("TEAM", "blue-team")
    code, out, _ = run("cassette", "scrub", "--check", "--secret-variable", "TEAM")
    assert (code, "repeats a key" in out) == (1, True)
    run("cassette", "scrub", "--secret-variable", "TEAM")
    assert "blue-team" not in path.read_text()


# -- diff


@pytest.mark.parametrize(
    ("second", "options", "expected"),
    [
        pytest.param(Recording(asked(), says()), (), [], id="the same"),
        pytest.param(Recording(asked(), says(status=500)), (), ["status 200, then 500"], id="a status"),
        pytest.param(
            Recording(asked(), says("bye")),
            (),
            ['body.choices[0].message.content: "hello", then "bye"'],
            id="a body",
        ),
        pytest.param(
            Recording(asked(), says(headers=(*JSON, ("retry-after", "3")))),
            (),
            ["header retry-after: absent, then 3"],
            id="a header",
        ),
        pytest.param(
            Recording(asked("other"), says()), (), ["only in the first", "only in the second"], id="another request"
        ),
        pytest.param(
            Recording(asked(host="b.invalid", model="n"), says()),
            (),
            ["only in the first", "only in the second"],
            id="another server",
        ),
        pytest.param(
            Recording(asked(host="b.invalid", model="n"), says()), ("--across-servers",), [], id="across servers"
        ),
    ],
)
def test_diff(second: Recording, options: tuple[str, ...], expected: list[str], place: Path) -> None:
    left, right = write(place / "a.yaml", Recording(asked(), says())), write(place / "b.yaml", second)
    code, out, _ = run("cassette", "diff", str(left), str(right), *options)
    assert code == (1 if expected else 0)
    lines = out.splitlines()
    assert len(lines) == max(1, len(expected))
    for line, words in zip(lines, expected, strict=False):
        assert line.endswith(words)
    assert expected or lines == ["They say the same."]


# -- from-corpus


ITEM = {
    "provider": "lab",
    "kind": "chat",
    "situation": "bad_key",
    "authenticity": "recorded",
    "request": {"method": "POST", "host": "(not recorded)", "path": "/v1/x", "query": None, "body": {"model": "m"}},
    "response": {
        "status": 401,
        "headers": [["Content-Type", "application/json"], ["Set-Cookie", "a=b"], ["Content-Length", "3"]],
        "body": f'{{"error":"{KEY}"}}',
    },
    "source": {"repo": "somebody/something", "commit": "0123abc", "licence": "MIT", "recorded_at": None},
}


def test_from_corpus_makes_a_cassette_of_each(place: Path) -> None:
    (place / "items" / "deep").mkdir(parents=True)
    for name in ("items/one.json", "items/deep/two.json"):
        (place / name).write_text(json.dumps(ITEM))
    code, out, _ = run("cassette", "from-corpus", "items", "--into", "made")
    assert (code, out) == (0, "2 cassettes written to made\n")
    metadata, recordings = storage.read(place / "made" / "lab" / "two.yaml")
    assert metadata == {
        "source": "recorded",
        "server": "lab (collected by somebody/something)",
        "provider": "lab",
        "situation": "bad_key",
        "kind": "chat",
        "authenticity": "recorded",
        "commit": "0123abc",
        "licence": "MIT",
    }
    assert recordings == [
        Recording(
            Asked("POST", "https://lab.invalid/v1/x", {"content-type": "application/json"}, b'{"model": "m"}'),
            Said(401, JSON, b'{"error":"***"}'),
        )
    ]


# -- mistakes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("ls", "nowhere"), "nowhere: no such cassette"),
        (("ls", "."), "holds no cassette"),
        (("show", "broken.yaml"), "broken.yaml: is no YAML"),
        (("show", "other.yaml"), "other.yaml: has no list `interactions`"),
        (("show", "later.yaml"), "later.yaml: version 2, and this reads version 1"),
        (("show", "half.yaml"), "half.yaml: interaction 1 cannot be read (KeyError: 'response')"),
        (("show", "good.yaml", "2"), "good.yaml: has 1 exchange, there is no number 2"),
        (("scrub", "good.yaml", "--secret-variable", "NOT_SET"), "--secret-variable NOT_SET: is not set"),
        (("diff", ".", "good.yaml"), "takes two cassettes, not folders"),
        (("from-corpus", "good.yaml"), "good.yaml: is no collected answer"),
        (("from-corpus", "."), "holds no collected answer"),
        (("from-corpus", "odd.json"), "odd.json: response.status must be a number, is '401'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_mistakes_are_told(arguments: tuple[str, ...], message: str, place: Path) -> None:
    texts = {
        "broken.yaml": "a: [",
        "other.yaml": "a: 1",
        "later.yaml": "version: 2\ninteractions: []",
        "half.yaml": "version: 1\ninteractions: [{request: {}}]",
    }
    if arguments != ("ls", ".") and arguments != ("from-corpus", "."):
        if arguments[0] == "diff":
            write(place / "second.yaml", Recording(asked(), says()))
        write(place / "good.yaml", Recording(asked(), says()))
    if "." not in arguments:
        for name, text in texts.items():
            (place / name).write_text(text)
        odd = {**ITEM, "response": {**ITEM["response"], "status": "401"}}  # type: ignore[dict-item]
        (place / "odd.json").write_text(json.dumps(odd))
    code, out, err = run("cassette", *arguments)
    assert (code, out) == (BAD_USE, "")
    assert message in err
