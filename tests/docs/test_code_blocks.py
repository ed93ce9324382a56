"""Every code block of the documentation runs, loads, or names commands that exist."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import gc
import inspect
import io
import os
import re
import shlex
import subprocess
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from shim import loading
from shim._config.presets import presets
from shim.cli.app import app
from tests.docs.blocks import KINDS, ROOT, Block, blocks, documents

DOCUMENTS = documents()
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)")


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _of(kind: str) -> list[Any]:
    return [pytest.param(one, id=one.place) for path in DOCUMENTS for one in blocks(path) if one.kind == kind]


def _pythonic() -> list[Path]:
    return [path for path in DOCUMENTS if any(one.kind == "python" for one in blocks(path))]


def _run(block: Block, names: dict[str, object]) -> str:
    """What a block prints. It may await at its top level, as in a notebook. Frameworks warn of their own affairs."""
    code = compile("\n" * (block.line - 1) + block.text, str(block.path), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    out = io.StringIO()
    with contextlib.redirect_stdout(out), warnings.catch_warnings():
        if block.needs:
            warnings.simplefilter("ignore")
        result = eval(code, names)
        if inspect.iscoroutine(result):
            asyncio.run(result)
    return out.getvalue()


def _shape(printed: str) -> list[list[str]]:
    """The words of each line, with decimals and ports alike: they differ from run to run."""
    return [re.sub(r"\d+\.\d+|(?<=:)\d{4,5}\b", "0.0", line).split() for line in printed.splitlines() if line.strip()]


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # blocks drop their clients without closing them, as users do
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("path", [pytest.param(path, id=_name(path)) for path in _pythonic()])
def test_python_blocks_run_in_order_and_print_what_is_shown(path: Path, names: dict[str, object]) -> None:
    """The blocks of one file share their names; what is shown as printed differs in its times alone."""
    printed: str | None = ""
    try:
        for block in blocks(path):
            if block.kind == "python":
                can_run = not block.needs or find_spec(block.needs) is not None
                printed = _run(block, names) if can_run else None
            elif block.is_printed and printed is not None:
                assert _shape(printed) == _shape(block.text), f"{block.place}: it prints\n{printed}"
    finally:
        names.clear()
        gc.collect()  # here, where their complaints are expected, and not in the middle of another test


@pytest.mark.parametrize("block", _of("toml"))
def test_toml_blocks_are_configurations(block: Block, tmp_path: Path) -> None:
    """Each loads, with a made-up value for every variable that it or a preset names."""
    path = tmp_path / ("pyproject.toml" if "[tool.shim" in block.text else "shim.toml")
    path.write_text(block.text)
    variables = {*_VARIABLE.findall(block.text), "CLOUDFLARE_ACCOUNT_ID"}
    variables |= {name for preset in presets().providers.values() for name in preset.key_variables}

    config = loading.load(path, environ={name: f"made-up-{name.lower()}" for name in variables})

    assert config.providers or config.policy
    for family in config.families.values():
        for route in family.routes:
            assert config.providers[route.provider].is_usable or not route.enabled, route.route


@pytest.mark.parametrize("block", _of("yaml"))
def test_yaml_blocks_are_litellm_configurations(block: Block, tmp_path: Path) -> None:
    """Each is carried over."""
    pytest.importorskip("yaml")
    path = tmp_path / "config.yaml"
    path.write_text(block.text)
    environ = dict.fromkeys(re.findall(r"os\.environ/(\w+)", block.text), "made-up")

    assert loading.load(path, environ=environ).families


def _commands(text: str) -> list[list[str]]:
    joined = text.replace("\\\n", " ")
    lines = [line.partition(" #")[0].strip() for line in joined.splitlines()]
    return [shlex.split(line) for line in lines if line and not line.startswith("#")]


def _check_shim(words: list[str]) -> None:
    command: Any = get_command(app)
    name = "shim"
    while words and hasattr(command, "commands") and not words[0].startswith("-"):
        assert words[0] in command.commands, f"no command {name} {words[0]}"
        command, name, words = command.commands[words[0]], f"{name} {words[0]}", words[1:]
    known = {"--help"} | {
        option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)
    }
    for word in words:
        assert not word.startswith("-") or word.partition("=")[0] in known, f"{name} has no {word}"


def _check_script(words: list[str]) -> None:
    script = ROOT / words[0]
    assert script.is_file(), words[0]
    assert os.access(script, os.X_OK), f"{words[0]} cannot be executed"
    assert subprocess.run(["bash", "-n", script], check=False).returncode == 0, words[0]
    text = script.read_text()
    for word in words[1:]:
        assert not word.startswith("--") or word in text or "$@" in text, f"{words[0]} has no {word}"


@pytest.mark.parametrize("block", _of("bash"))
def test_commands_exist_with_their_options(block: Block) -> None:
    """Our own commands and scripts are looked up; of others only that they are a handful of known ones."""
    commands = _commands(block.text)
    assert commands
    for words in commands:
        while "=" in words[0]:
            words = words[1:]
        if words[0] == "shim":
            _check_shim(words[1:])
        elif words[0].startswith(("scripts/", ".ci/")):
            _check_script(words)
        elif words[0] in ("python", ".venv/bin/python", ".venv-distributed/bin/python"):
            target = words[1]
            assert target in ("-m", "-c") or (ROOT / target).is_file(), target
        else:
            assert words[0] in ("pip", "git", "cd", "bash", "sed", "export", "pytest"), words[0]


def _table(script: str) -> str:
    run = subprocess.run([sys.executable, ROOT / "scripts" / script], capture_output=True, text=True, check=True)
    return run.stdout.strip()


@pytest.mark.parametrize(
    ("document", "script"),
    [
        ("README.md", "defaults_table.py"),
        ("docs/providers.md", "presets_table.py"),
        ("docs/verdicts.md", "verdicts_table.py"),
    ],
)
def test_tables_are_what_the_code_says(document: str, script: str) -> None:
    """A table made from the code cannot drift from it: paste the script's output."""
    assert _table(script) in (ROOT / document).read_text(), f"run scripts/{script} and paste its table"


def test_every_block_has_a_kind_that_is_checked() -> None:
    """A block without a language, or of one that nothing here looks at, would be forgotten."""
    strange = [f"{one.place}: {one.kind!r}" for path in DOCUMENTS for one in blocks(path) if one.kind not in KINDS]

    assert strange == []


def test_only_what_is_an_extra_of_ours_may_be_missing() -> None:
    """A block that needs something else would run nowhere."""
    needed = {one.needs for path in DOCUMENTS for one in blocks(path)} - {""}

    assert needed <= {"ray", "dask", "pyspark", "redis"}


def test_no_document_is_forgotten() -> None:
    """docs/index.md names every page, and README the index."""
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"index.md"}
    linked = set(re.findall(r"\(([\w-]+\.md)\)", (ROOT / "docs" / "index.md").read_text()))

    assert linked == pages
    assert "(docs/index.md)" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("path", [pytest.param(path, id=_name(path)) for path in DOCUMENTS])
def test_links_lead_somewhere(path: Path) -> None:
    """Links between files lead to files, links to a heading to a heading."""
    text = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("http://", "https://")):
            continue
        file, _, anchor = target.partition("#")
        place = (path.parent / file).resolve() if file else path
        assert place.exists(), f"{_name(path)}: {target}"
        if anchor:
            headings = re.findall(r"^#+ (.*)$", place.read_text(), re.MULTILINE)
            anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert anchor in anchors, f"{_name(path)}: {target}"
