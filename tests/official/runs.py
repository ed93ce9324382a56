"""Runs a part of the suite in its place, as it is or with our classes, against the mock API."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.official.environment import Place
from tests.official.outcomes import Outcomes
from tests.official.selection import SWITCHES

_PLUGINS = Path(__file__).parent
# Seconds for one test and for one whole run: a hang is a failure, not a stuck build.
_TEST_LIMIT, _RUN_LIMIT = 60, 1200
# Variables that would change what a client does by itself.
_PRIVATE = ("OPENAI_", "AZURE_", "AWS_", "SHIM_", "TEST_API_", "XDG_CONFIG_HOME", "PYTEST_")
# A family that no test asks for: the hook looks at every request and lets it pass. Port 9 discards.
_ROUTER = """
[providers.elsewhere]
base_url = "http://127.0.0.1:9/v1"
api_key = "unused"
[families.asked-for-by-no-test]
kind = "chat"
routes = [{ provider = "elsewhere", model = "asked-for-by-no-test-either" }]
[families.embedded-by-no-test]
kind = "embedding"
dimensions = 7
routes = [{ provider = "elsewhere", model = "embedded-by-no-test-either" }]
"""


@dataclass(frozen=True, slots=True)
class Runner:
    """Starts pytest in a place; `classes` empty means the official ones."""

    place: Place
    api: str
    jobs: int
    classes: str = ""
    routed: bool = False
    switches: dict[str, str] = field(default_factory=dict)

    def run(self, arguments: list[str], jobs: int | None = None) -> Outcomes:
        """Outcomes by test id of `pytest <arguments>`; empty when pytest did not get as far as running."""
        with tempfile.TemporaryDirectory(prefix="official-suite-") as scratch:
            report, log = Path(scratch, "outcomes.json"), Path(scratch, "pytest.log")
            with log.open("wb") as output, contextlib.suppress(subprocess.TimeoutExpired):
                subprocess.run(
                    self._command(arguments, self.jobs if jobs is None else jobs),
                    cwd=self.place.root,
                    env=self._environment(Path(scratch), report),
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    timeout=_RUN_LIMIT,
                    check=False,
                )
            if not report.exists():
                print("".join(log.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)[-40:]))
                return {}
            outcomes: dict[str, str] = json.loads(report.read_text(encoding="utf-8"))
            return outcomes

    def alone(self, tests: list[str]) -> Outcomes:
        """The same for named tests, in one process."""
        return self.run(tests, jobs=0)

    def _command(self, arguments: list[str], jobs: int) -> list[str]:
        command = [str(self.place.python), "-m", "pytest", "-q", "-o", "addopts=", "-p", "no:cacheprovider"]
        command += ["-p", "official_record", f"--timeout={_TEST_LIMIT}", f"-n{jobs}", "--dist=worksteal", "--tb=short"]
        return command + (["-p", "official_swap"] if self.classes else []) + arguments

    def _environment(self, scratch: Path, report: Path) -> dict[str, str]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(_PRIVATE)}
        environment |= {"HOME": str(scratch), "TEST_API_BASE_URL": self.api, "OFFICIAL_SUITE_REPORT": str(report)}
        environment |= {"OFFICIAL_SUITE_CLASSES": self.classes, "DEFER_PYDANTIC_BUILD": "false"}
        environment |= SWITCHES[int(self.place.version.split(".")[0])] | self.switches
        paths = (str(_PLUGINS), os.environ.get("PYTHONPATH", ""))
        environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
        if self.routed:
            configuration = scratch / "shim.toml"
            configuration.write_text(_ROUTER, encoding="utf-8")
            environment["SHIM_CONFIG"] = str(configuration)
        return environment


@contextlib.contextmanager
def mock_api(place: Place) -> Iterator[str]:
    """The base URL of a mock API that knows the paths of this place's openai version."""
    command = [str(place.python), "-W", "ignore", "-m", "tests.official.mock_api"]
    with subprocess.Popen(command, cwd=_PLUGINS.parent.parent, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.terminate()
