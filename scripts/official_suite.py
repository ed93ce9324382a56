"""Runs openai-python's own test suite with our classes in place of the official ones; fails when only ours fail.

    python scripts/official_suite.py [--openai VERSION]... [--quick] [--jobs N] [--work DIR]

Needs Python 3.11 or newer and a package index; docs/official_suite.md tells what runs and what is left out.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from time import monotonic

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))

from tests.official.environment import Place, prepare  # noqa: E402
from tests.official.outcomes import Comparison, Outcomes, compare  # noqa: E402
from tests.official.runs import Runner, mock_api  # noqa: E402
from tests.official.selection import all_files, client_files  # noqa: E402

VERSIONS = ("3.57.0", "2.54.0")
# Names printed of a long list of failures.
_SHOWN = 60
CLASSES = "shim:OpenAI,AsyncOpenAI"


def main() -> int:
    """0 when every test that passes with the official classes passes with ours, else 1."""
    options = _options()
    return max(judge_version(version, options) for version in options.openai or VERSIONS)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="openai-python's own test suite, with our classes")
    parser.add_argument("--openai", action="append", metavar="VERSION", help=f"may be repeated; default {VERSIONS}")
    parser.add_argument("--quick", action="store_true", help="only the files that exercise the clients themselves")
    parser.add_argument("--everything", action="store_true", help="also the pass-through run goes over all files")
    parser.add_argument("--jobs", type=int, default=3, help="pytest-xdist workers (default 3)")
    parser.add_argument("--classes", default=CLASSES, metavar="MODULE:SYNC,ASYNC", help=f"default {CLASSES}")
    parser.add_argument("--work", type=Path, default=REPOSITORY, help="where .venv-official-<version> is kept")
    return parser.parse_args()


def judge_version(version: str, options: argparse.Namespace) -> int:
    """Run one version's suite officially, in pass-through and routed; print what differs; 0 or 1."""
    package = REPOSITORY if str(options.classes).startswith("shim:") else None
    home = options.work / f".venv-official-{version}{'' if package else '-standin'}"
    place = prepare(version, home.resolve(), package)
    quick = client_files(place.root)
    whole = quick if options.quick else all_files(place.root)
    with mock_api(place) as api:
        official = Runner(place, api, options.jobs)
        baseline = _timed(f"openai {version} official", official, whole)
        if not any(outcome == "passed" for outcome in baseline.values()):
            print(f"openai {version}: the official run itself brought nothing; see above")
            return 1
        verdicts = [
            _judge(official, baseline, part, routed, options.classes)
            for part, routed in ((whole if options.everything else quick, False), (whole, True))
        ]
    return max(verdicts)


def _judge(official: Runner, baseline: Outcomes, part: list[str], routed: bool, classes: str) -> int:
    place: Place = official.place
    name = f"openai {place.version} {'routed' if routed else 'pass-through'}"
    runner = Runner(place, official.api, official.jobs, classes=classes, routed=routed)
    outcomes = _timed(name, runner, part)
    expected = baseline if "tests" in part else {test: o for test, o in baseline.items() if test.split("::")[0] in part}
    result: Comparison = compare(expected, outcomes, official.alone, runner.alone)
    for test in result.flaky:
        print(f"  differed once, not when alone: {test}")
    for test in result.only_ours_fail[:_SHOWN]:
        print(f"  fails only with ours: {test}")
    if len(result.only_ours_fail) > _SHOWN:
        print(f"  … and {len(result.only_ours_fail) - _SHOWN} more")
    print(f"{name}: {result.line()}", flush=True)
    return 1 if result.only_ours_fail else 0


def _timed(name: str, runner: Runner, part: list[str]) -> Outcomes:
    started_at = monotonic()
    outcomes = runner.run(part)
    print(f"{name}: {len(outcomes)} tests in {monotonic() - started_at:.0f} s", flush=True)
    return outcomes


if __name__ == "__main__":
    sys.exit(main())
