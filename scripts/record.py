"""Records `cassettes/` from real servers on loopback: installs, starts, asks, stops; see `scripts/record --help`."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import shim  # noqa: E402
from scripts.servers import SERVERS, Server, started  # noqa: E402
from shim.testing import use_cassette  # noqa: E402
from tests.support.situations import ALL, Situation, router_for, run, verdicts  # noqa: E402

CASSETTES = ROOT / "cassettes"


async def record(server: Server, situation: Situation, base_url: str) -> None:
    """One situation, asked of one server, as one cassette."""
    path = CASSETTES / server.name / f"{situation.name}.yaml"
    path.unlink(missing_ok=True)
    router = router_for(situation, base_url, server.model, server.key)
    about = {
        "server": f"{server.package} {server.version}",
        "model": situation.model or server.model,
        "situation": situation.name,
        "client": f"openai {importlib.metadata.version('openai')}",
    }
    taped = use_cassette(path, record="all", hosts={base_url: f"http://{server.name}.invalid"}, about=about)
    with taped as cassette:
        async with shim.AsyncOpenAI(
            router=router, base_url=base_url, api_key="none", max_retries=0, timeout=120
        ) as client:
            outcomes = await run(client, situation)
        # Written last: what this version of the package made of the answers.
        cassette.say(verdicts=verdicts(router, outcomes))
    print(f"  {situation.name}: {', '.join(verdicts(router, outcomes))}", flush=True)


def install(server: Server, folder: Path) -> Path:
    """The environment of a server: made and filled, or kept from the last time where `--work` keeps it."""
    place = folder / server.name
    ready = place / f".installed-{server.version}"
    if not ready.exists():
        shutil.rmtree(place, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        for requirements in server.requirements:
            quiet = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run([place / "bin" / "python", *quiet, *requirements], check=True)
        ready.touch()
    return place


@contextlib.contextmanager
def workplace(named: str | None) -> Iterator[Path]:
    """Where environments are made: a folder that stays, or one that is gone afterwards."""
    if named is not None:
        place = Path(named).resolve()
        place.mkdir(parents=True, exist_ok=True)
        yield place
        return
    with tempfile.TemporaryDirectory(prefix="shim-record-") as made:
        yield Path(made)


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/record", description=__doc__)
    parser.add_argument(
        "servers", nargs="*", metavar="server", help=f"of these: {', '.join(SERVERS)}; default: all quick"
    )
    parser.add_argument("--only", metavar="SITUATION", action="append", help="record this situation alone")
    parser.add_argument("--work", metavar="FOLDER", help="keep the environments there for the next time")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.servers if name not in SERVERS]
    unknown += [name for name in arguments.only or () if name not in ALL]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; servers: {', '.join(SERVERS)}; situations: {', '.join(ALL)}")
    for name in [name for name in os.environ if name.startswith(("OPENAI_", "SHIM_"))]:
        del os.environ[name]
    os.environ["SHIM_CACHE_DIR"] = ""
    chosen = arguments.servers or [name for name, server in SERVERS.items() if server.is_quick]
    with workplace(arguments.work) as work:
        for name in chosen:
            server = SERVERS[name]
            print(f"{server.package} {server.version}: installing", flush=True)
            place = install(server, work)
            with started(server, place, work) as base_url:
                for situation in server.situations:
                    if not arguments.only or situation.name in arguments.only:
                        asyncio.run(record(server, situation, base_url))
    return 0


if __name__ == "__main__":
    sys.exit(main())
