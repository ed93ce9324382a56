"""A pytest plugin that writes each test's outcome to the JSON file named by OFFICIAL_SUITE_REPORT."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

_RANK = {"passed": 0, "skipped": 1, "failed": 2}


class Recorder:
    """Keeps the worst outcome of a test's three phases."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._outcomes: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note one phase; under xdist the reports of all workers arrive here."""
        known = self._outcomes.get(report.nodeid, "passed")
        self._outcomes[report.nodeid] = max(known, report.outcome, key=lambda outcome: _RANK[outcome])

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that cannot be imported counts as one failed test."""
        if report.failed:
            self._outcomes[report.nodeid] = "failed"

    def pytest_sessionfinish(self) -> None:
        """Write what was seen."""
        self._target.write_text(json.dumps(self._outcomes), encoding="utf-8")


def pytest_configure(config: pytest.Config) -> None:
    """Record in the controlling process alone."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(Path(os.environ["OFFICIAL_SUITE_REPORT"])), "official-recorder")
