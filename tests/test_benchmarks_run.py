"""The benchmarks still run. No figure is looked at: a test that measures time fails when the machine is busy."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import openai
import pytest

from benchmarks import measure, run
from benchmarks.measure import Row, Samples

ROOT = Path(__file__).resolve().parent.parent
QUICK = {
    "overhead": "sync, loopback, routed",
    "embeddings": "sync, base64",
    "failover": "open breaker",
    "soak": "calls in a row",
}


def test_the_quick_ones_print_their_rows() -> None:
    if int(openai.VERSION.partition(".")[0]) < 3:
        pytest.skip("the benchmarks compare with openai 3.x, on httpx2")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "benchmarks.run", "--quick", "--only", *QUICK]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    for name, row in QUICK.items():
        assert row in done.stdout, f"{name} is missing from\n{done.stdout}"


def test_every_benchmark_is_described_on_the_page() -> None:
    """A benchmark without a word on what its figures mean is of no use to a reader."""
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")

    assert run.BEGIN in page
    assert run.END in page
    for name in run.ALL:
        assert f"`{name}`" in page, name


def test_writing_replaces_what_stands_between_the_marks() -> None:
    page = f"# Speed\n{run.BEGIN}\nold\n{run.END}\nafter\n"

    again = run.written(run.written(page, "newer"), "newest")

    assert again == f"# Speed\n{run.BEGIN}\n\nnewest\n\n{run.END}\nafter\n"


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(SystemExit, match="has no"):
        run.written("# Speed\n", "measured")


@pytest.mark.parametrize(
    ("figures", "limit", "at_least", "said"),
    [
        pytest.param((10.0, 19.0), 20.0, False, "yes", id="both figures keep the target"),
        pytest.param((15.0, 21.0), 20.0, False, "unclear", id="one of two keeps it"),
        pytest.param((60.0, 61.0), 20.0, False, "no", id="none keeps it"),
        pytest.param((21.0, 25.0), 20.0, True, "yes", id="a target that is a minimum"),
    ],
)
def test_whether_a_target_is_met(figures: tuple[float, ...], limit: float, at_least: bool, said: str) -> None:
    assert measure.judged(figures, limit, at_least=at_least) == said


def test_a_difference_is_told_in_microseconds() -> None:
    bare, ours = Samples([1e-3, 1.2e-3], [0.0, 0.0]), Samples([1.03e-3, 1.25e-3], [0.0, 0.0])

    row = measure.difference("group", "what", bare, ours, 20)

    assert row.result == "+30.0 / +40.0 us a call (1.030 times)"
    assert row.met == "no"


def test_a_cell_cannot_break_the_table() -> None:
    lines = measure.table([Row("group", "a|b", "", "", "")]).splitlines()

    assert {line.count("|") for line in lines} == {8}
