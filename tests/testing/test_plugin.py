"""The plugin in runs of pytest of its own: fixtures, marker, options, several processes, unittest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from shim.testing import answers, serve

PROJECT = """
import openai
import pytest
from shim.testing import use_cassette
from shim.testing.answers import rate_limited, says

URL = "{url}"
HOSTS = {{URL: "http://lab.invalid"}}


def ask(text):
    with openai.OpenAI(api_key="made-up-key-1", base_url=URL, max_retries=0) as client:
        answer = client.chat.completions.create(model="m", messages=[{{"role": "user", "content": text}}])
    return answer.choices[0].message.content
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


class Project:
    """A folder with tests that runs pytest in a process of its own, and by default without any network."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, tests: str, url: str = "http://127.0.0.1:9/v1", name: str = "test_it.py") -> None:
        (self.folder / name).write_text(PROJECT.format(url=url) + tests)

    def run(self, *arguments: str, command: tuple[str, ...] = ("-m", "pytest")) -> tuple[int, str]:
        """The exit code, and what was printed."""
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV"))}
        options = ("-p", "no:cacheprovider", "-q") if command[-1] == "pytest" else ()
        run = subprocess.run(
            [sys.executable, *command, *options, *arguments],
            cwd=self.folder,
            env={**environ, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        return run.returncode, run.stdout + run.stderr

    def cassettes(self) -> list[str]:
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*.yaml"))


MARKED = """
@pytest.mark.shim_cassette(hosts=HOSTS)
def test_one():
    assert ask("one") == "hello"


@pytest.mark.shim_cassette(hosts=HOSTS)
@pytest.mark.parametrize("text", ["two", "three/four"])
def test_more(text):
    assert ask(text) == "hello"


class TestIt:
    @pytest.mark.shim_cassette("shared.yaml", hosts=HOSTS, repeats=True)
    def test_named(self):
        assert ask("five") == "hello"
"""


@pytest.mark.parametrize("arguments", [(), ("-n", "2")], ids=["one process", "two processes"])
def test_recorded_once_and_replayed_without_the_server(project: Project, arguments: tuple[str, ...]) -> None:
    with serve(answers.says("hello")) as lab:
        project.write(MARKED, lab.base_url)
        code, printed = project.run("--shim-record=once", *arguments)
        assert code == 0, printed
        assert len(lab.seen) == 4
    assert project.cassettes() == [
        "cassettes/test_it/test_more-three-four-53c5949b.yaml",
        "cassettes/test_it/test_more-two.yaml",
        "cassettes/test_it/test_one.yaml",
        "shared.yaml",
    ]
    code, printed = project.run(*arguments)
    assert code == 0, printed
    assert "4 passed" in printed


def test_an_unrecorded_request_fails_the_test_that_made_it(project: Project) -> None:
    project.write(MARKED)
    code, printed = project.run("-k", "test_one")
    assert code == 1
    assert "no recording answers POST http://lab.invalid/v1/chat/completions" in printed
    assert "There is no cassette here yet." in printed
    assert "pytest --shim-record=new" in printed
    assert ': in test_one\n    assert ask("one") == "hello"' in printed
    assert "handle_request" not in printed  # the frames of client and library say nothing


def test_what_a_failing_test_recorded_is_not_kept(project: Project) -> None:
    with serve(answers.says("something else")) as lab:
        project.write(MARKED, lab.base_url)
        code, _ = project.run("--shim-record=once")
    assert code == 1
    assert project.cassettes() == []


def test_what_a_test_recorded_before_it_was_skipped_is_not_kept(project: Project) -> None:
    source = """
@pytest.mark.shim_cassette(hosts=HOSTS)
def test_half():
    assert ask("one") == "hello"
    pytest.skip("no more of it here")
"""
    with serve(answers.says("hello")) as lab:
        project.write(source, lab.base_url)
        project.run("--shim-record=once")
    assert project.cassettes() == []


def test_a_mark_on_one_parameter_is_of_that_one_alone(project: Project) -> None:
    project.write(
        """
@pytest.mark.parametrize("marked", [pytest.param(True, marks=pytest.mark.shim_cassette), False])
def test_it(marked, request):
    assert ("shim_cassette" in request.fixturenames) is marked
"""
    )
    code, printed = project.run()
    assert code == 0, printed


def test_unused_recordings_are_listed_on_request(project: Project) -> None:
    with serve(answers.says("hello")) as lab:
        project.write(MARKED, lab.base_url)
        project.run("--shim-record=once", "-k", "test_one")
    path = project.folder / "cassettes/test_it/test_one.yaml"
    text = path.read_text()
    path.write_text(text + text.partition("interactions:\n")[2].replace('"one"', '"never"'))
    code, printed = project.run("-k", "test_one")
    assert (code, "never" in printed) == (0, False)
    for arguments in ((), ("-n", "2")):
        code, printed = project.run("-k", "test_one", "--shim-unused", *arguments)
        assert code == 0
        assert "test_one.yaml: 1 of 2 recordings not asked for: POST http://lab.invalid" in printed


def test_fixtures_work_together_without_a_network(project: Project) -> None:
    project.write(
        """
from shim import AsyncOpenAI, OpenAI, attempts


def test_moves_on(fake_provider, shim_router, fake_clock):
    first, second = fake_provider(rate_limited(30)), fake_provider(says("hello"))
    router = shim_router(first, second)
    for number in range(2):
        client = OpenAI(router=router)
        answer = client.chat.completions.create(model="test", messages=[{"role": "user", "content": "hi"}])
        assert answer.choices[0].message.content == "hello"
    assert (len(first.seen), len(second.seen)) == (1, 2)  # left alone, as it asked
    fake_clock.advance(30)
    client.chat.completions.create(model="test", messages=[{"role": "user", "content": "hi"}])
    assert len(first.seen) == 2


def test_the_cassette_is_there(shim_cassette):
    assert shim_cassette.recordings == ()
    assert shim_cassette.mode.value == "none"
"""
    )
    code, printed = project.run()
    assert code == 0, printed


UNITTEST = """
import unittest


class It(unittest.TestCase):
    @use_cassette("shared.yaml", hosts=HOSTS)
    def test_decorated(self):
        self.assertEqual(ask("five"), "hello")

    def test_block(self):
        with use_cassette("shared.yaml", hosts=HOSTS, all_used=True) as cassette:
            self.assertEqual(ask("five"), "hello")
        self.assertEqual(len(cassette.played), 1)


class ItAsync(unittest.IsolatedAsyncioTestCase):
    @use_cassette("shared.yaml", hosts=HOSTS)
    async def test_decorated(self):
        async with openai.AsyncOpenAI(api_key="made-up-key-1", base_url=URL) as client:
            answer = await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "five"}])
        self.assertEqual(answer.choices[0].message.content, "hello")
"""


def test_unittest_replays_what_pytest_recorded(project: Project) -> None:
    with serve(answers.says("hello")) as lab:
        project.write(MARKED, lab.base_url)
        project.run("--shim-record=once", "-k", "test_named")
    project.write(UNITTEST)
    code, printed = project.run(command=("-m", "unittest", "-v"))
    assert code == 0, printed
    assert "Ran 3 tests" in printed


@pytest.mark.parametrize(
    ("mark", "message"),
    [
        ("tape='a.yaml'", "has no argument 'tape'; it takes: path, record, hosts"),
        ("'a.yaml', 'b.yaml'", "takes one path"),
        ("record='episodes'", "unknown mode 'episodes'; there are: none, once, new, all"),
    ],
    ids=["unknown argument", "two paths", "unknown mode"],
)
def test_a_mark_that_means_nothing_is_refused(project: Project, mark: str, message: str) -> None:
    project.write(f"@pytest.mark.shim_cassette({mark})\ndef test_it():\n    pass\n")
    code, printed = project.run()
    assert code == 1
    assert message in printed


def test_an_unknown_mode_on_the_command_line_is_refused(project: Project) -> None:
    project.write(MARKED)
    code, printed = project.run("--shim-record=sometimes")
    assert code != 0
    assert "invalid choice: 'sometimes'" in printed


def test_reading_the_plugin_costs_next_to_nothing() -> None:
    """Under 20 ms, and neither the client nor an HTTP library: every run of pytest pays for it."""
    code = (
        "import json, sys, time, pytest, typing\n"
        "before = set(sys.modules); begin = time.perf_counter()\n"
        "import shim.testing.plugin\n"
        "spent = time.perf_counter() - begin\n"
        "print(json.dumps([spent, sorted(set(sys.modules) - before)]))"
    )
    runs = [
        json.loads(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(3)
    ]
    assert min(spent for spent, _ in runs) < 0.020
    assert {name.partition(".")[0] for _, names in runs for name in names} == {"shim"}
