"""Importing, and making a client: CPU time, memory and modules, each in a fresh interpreter, sides in turns."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import measure
from benchmarks.measure import Row

GROUP = "Import (fresh interpreter)"
LIMIT = 1.05
_TAIL = """
import json, resource, sys, time
cpu = time.process_time()
try:
    with open('/proc/self/status') as status:
        peak = next(int(line.split()[1]) for line in status if line.startswith('VmHWM'))
except OSError:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([cpu, peak / 1024, len(sys.modules)]))
"""
# Not ru_maxrss where it can be helped: on Linux a child begins with its parent's, and here the parent is the larger.
_CONFIG = {
    "providers": {"lab": {"base_url": "http://127.0.0.1:9/v1", "api_key": "k"}},
    "families": {"f": {"kind": "chat", "routes": ["lab/m"]}},
}
SIDES = {
    "import": ("import openai", "import shim"),
    "class": ("from openai import OpenAI", "from shim import OpenAI"),
    "client": (
        "from openai import OpenAI; c = OpenAI(api_key='k')",
        "from shim import OpenAI; c = OpenAI(api_key='k')",
    ),
    "router": (
        "from openai import OpenAI; c = OpenAI(api_key='k')",
        f"from shim import OpenAI; c = OpenAI(api_key='k', router={_CONFIG!r})",
    ),
}
WORDS = {
    "import": "`import shim`, against `import openai`",
    "class": "`from … import OpenAI`",
    "client": "… and `OpenAI()`, no configuration",
    "router": "… and `OpenAI(router=…)`, against `OpenAI()`",
}
_ROOT = Path(__file__).resolve().parent.parent


def once(code: str) -> tuple[float, float, int]:
    """CPU seconds, peak MB and modules of an interpreter that runs `code`."""
    with tempfile.TemporaryDirectory() as home:
        environment = {"PATH": os.environ.get("PATH", ""), "HOME": home, "PYTHONPATH": str(_ROOT)}
        command = [sys.executable, "-c", code + _TAIL]
        run = subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True, check=True)
    cpu, memory, modules = json.loads(run.stdout)
    return cpu, memory, modules


def compared(name: str, rounds: int) -> Row:
    """One row: ours against the official client's."""
    found: tuple[list[tuple[float, float, int]], list[tuple[float, float, int]]] = ([], [])
    for number in range(-1, rounds):
        for side in (0, 1) if number % 2 == 0 else (1, 0):
            figures = once(SIDES[name][side])
            if number >= 0 or rounds == 1:  # the first pair fills the caches of the disk
                found[side].append(figures)
    bare, ours = ([side[n] for side in found[0]] for n in (0, 1)), ([side[n] for side in found[1]] for n in (0, 1))
    (bare_cpu, bare_memory), (our_cpu, our_memory) = bare, ours
    of_minima, of_medians = (f(our_cpu) / f(bare_cpu) for f in (min, statistics.median))
    memory = statistics.median(our_memory) / statistics.median(bare_memory)
    modules = found[1][0][2] - found[0][0][2]
    has_target = name != "router"
    return Row(
        GROUP,
        WORDS[name],
        f"{measure.amounts(bare_cpu, 1e3, 'ms')}, {statistics.median(bare_memory):.1f} MB",
        f"{measure.amounts(our_cpu, 1e3, 'ms')}, {statistics.median(our_memory):.1f} MB",
        f"{of_minima:.3f} / {of_medians:.3f} times the CPU, {memory:.3f} times the memory, {modules:+d} modules",
        f"at most {LIMIT} times both" if has_target else "",
        measure.judged((of_minima, of_medians, memory), LIMIT) if has_target else None,
        f"{rounds} rounds",
    )


def collect(is_quick: bool) -> list[Row]:
    """All rows."""
    if is_quick:
        return [compared("client", 1)]
    return [compared(name, 12) for name in SIDES]


if __name__ == "__main__":
    measure.main(collect, __doc__)
