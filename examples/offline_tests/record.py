"""Records the cassettes of the tests anew: starts the local model on loopback and lets pytest record against it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from shim.local import LocalProvider
from shim.local.server import serve

HERE = Path(__file__).resolve().parent


def main() -> int:
    with serve(LocalProvider().handle_http) as server:
        environ = {**os.environ, "NOTES_BASE_URL": server.base_url}
        command = [sys.executable, "-m", "pytest", "-q", "--shim-record=all", "-m", "shim_cassette"]
        return subprocess.run(command, cwd=HERE, env=environ, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
