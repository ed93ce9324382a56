"""`client.embed` of a whole column against the ways people write it by hand: CPU for a row of 1,536 numbers.

The sides: a loop over the official client's `embeddings.create`; a gathered official `AsyncOpenAI` with 64 requests in
flight; and the quickest reader that we could write by hand for these very bytes (one blocking socket, a scan for the
payloads, no HTTP library, nothing checked or kept), which is a limit and no alternative. All end with one float32
matrix; ours also checks every vector and has it on the disk.
"""

from __future__ import annotations

import asyncio
import binascii
import json
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import openai

import shim
from benchmarks import canned, measure
from benchmarks.measure import Block, Row, Samples
from benchmarks.server import Server, serving

LIMIT_US, FASTER, SHARE_OF_LIMIT, MOST_MB = 25.0, 10.0, 0.5, 1536.0
WORDS = "a text of the usual length, with a word or two more so that it is about a hundred characters long"


def _texts(rows: int, start: int = 0) -> list[str]:
    return [f"{number} {WORDS}" for number in range(start, start + rows)]


def _pieces(texts: list[str], size: int) -> Iterator[list[str]]:
    for at in range(0, len(texts), size):
        yield texts[at : at + size]


def _loop(base: str, texts: list[str], size: int) -> Any:
    with openai.OpenAI(api_key=canned.KEY, base_url=base) as client:
        rows = [
            row.embedding
            for piece in _pieces(texts, size)
            for row in client.embeddings.create(model="m", input=piece).data
        ]
    return np.array(rows, dtype=np.float32)


def _gathered(base: str, texts: list[str], size: int) -> Any:
    async def main() -> Any:
        limit = asyncio.Semaphore(64)
        async with openai.AsyncOpenAI(api_key=canned.KEY, base_url=base) as client:

            async def one(piece: list[str]) -> list[list[float]]:
                async with limit:
                    answer = await client.embeddings.create(model="m", input=piece)
                return [row.embedding for row in answer.data]

            parts = await asyncio.gather(*(one(piece) for piece in _pieces(texts, size)))
        return np.array([row for part in parts for row in part], dtype=np.float32)

    return asyncio.run(main())


def _by_hand(base: str, texts: list[str], size: int, dimensions: int) -> Any:
    """Trusts order, spacing and lengths: right for this server and for nothing else."""
    parts = urlsplit(base)
    matrix = np.empty((len(texts), dimensions), dtype=np.float32)
    with socket.create_connection((parts.hostname, parts.port)) as connection:
        at = 0
        for piece in _pieces(texts, size):
            body = json.dumps({"model": "m", "input": piece, "encoding_format": "base64"}).encode()
            head = f"POST {parts.path}/embeddings HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
            connection.sendall(head.encode() + body)
            answer, place = _answer(connection), 0
            for _ in piece:
                begin = answer.index(b'"embedding":"', place) + 13
                place = answer.index(b'"', begin)
                matrix[at] = np.frombuffer(binascii.a2b_base64(answer[begin:place]), dtype="<f4")
                at += 1
    return matrix


def _answer(connection: socket.socket) -> memoryview | bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536)
    head, _, rest = data.partition(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
    body = bytearray(length)
    body[: len(rest)] = rest
    view, at = memoryview(body), len(rest)
    while at < length:
        at += connection.recv_into(view[at:])
    return bytes(body)


def _ours(client: Any, folder: Path, texts: list[str], size: int) -> Any:
    job = client.embed(texts, batch_size=size, store=folder, fresh=True, progress=False)
    return job.vectors


def _limit(group: str, hand: Samples, ours: Samples) -> Row:
    share = min(hand.cpu) / min(ours.cpu)
    return Row(
        group,
        "of the speed of a reader by hand, which checks and keeps nothing",
        measure.amounts(hand.cpu, 1e6, "us"),
        measure.amounts(ours.cpu, 1e6, "us"),
        f"{share:.2f} of it",
        f"over {SHARE_OF_LIMIT:g}",
        measure.judged([share], SHARE_OF_LIMIT, at_least=True),
    )


def _absolute(group: str, ours: Samples) -> Row:
    low = min(ours.cpu) * 1e6
    kept = measure.judged([low], LIMIT_US)
    shown = measure.amounts(ours.cpu, 1e6, "us")
    return Row(
        group,
        "CPU a row, checked, on the disk and in a matrix",
        "",
        shown,
        f"{low:.1f} us",
        f"at most {LIMIT_US:g} us",
        kept,
    )


def _compared(server: Server, rows: int, size: int, dimensions: int, rounds: int) -> list[Row]:
    base, texts = server.base("good"), _texts(rows)
    folder = Path(tempfile.mkdtemp(prefix="shim-benchmark-"))
    group = f"A column of {rows:,} texts, {size:,} a request (CPU us a row)"
    try:
        with shim.OpenAI(api_key=canned.KEY, router=canned.one_route(base, "embedding")) as client:
            right = _loop(base, texts[:size], size)
            for found in (_ours(client, folder, texts[:size], size), _by_hand(base, texts[:size], size, dimensions)):
                if found.tobytes() != right.tobytes():
                    raise SystemExit("the vectors differ from the official client's")
            sides: dict[str, Block] = {
                "loop": lambda: len(_loop(base, texts, size)),
                "gathered": lambda: len(_gathered(base, texts, size)),
                "hand": lambda: len(_by_hand(base, texts, size, dimensions)),
                "ours": lambda: len(_fresh(client, folder, texts, size)),
            }
            found = measure.in_turns(sides, rounds, warm=0)
    finally:
        shutil.rmtree(folder)
    return [
        measure.faster(
            group, "against a loop over `embeddings.create`", found["loop"], found["ours"], FASTER, (1e6, "us")
        ),
        measure.faster(group, "against 64 gathered async calls", found["gathered"], found["ours"], FASTER, (1e6, "us")),
        _limit(group, found["hand"], found["ours"]),
        _absolute(group, found["ours"]),
    ]


def _fresh(client: Any, folder: Path, texts: list[str], size: int) -> Any:
    shutil.rmtree(folder, ignore_errors=True)
    return _ours(client, folder, texts, size)


def _memory(rows: int) -> Row:
    """Parquet to Parquet in a process of its own: the most memory that it ever held."""
    code = "from benchmarks.datasets import through_parquet; import sys; through_parquet(int(sys.argv[1]))"
    run = subprocess.run([sys.executable, "-c", code, str(rows)], capture_output=True, text=True, check=True)
    megabytes, seconds = map(float, run.stdout.split()[-2:])
    what = f"{rows:,} rows of 1,536 numbers, Parquet to Parquet: most memory"
    met = measure.judged([megabytes], MOST_MB)
    note = f"{seconds:.0f} s on the wall, the server beside it"
    return Row("Memory", what, "", f"{megabytes:.0f} MB", f"{megabytes:.0f} MB", f"under {MOST_MB:.0f} MB", met, note)


def through_parquet(rows: int) -> None:
    """Embed a Parquet file into another and print the most memory (MB) and the seconds that it took."""
    import time

    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = Path(tempfile.mkdtemp(prefix="shim-benchmark-"))
    try:
        with pq.ParquetWriter(folder / "in.parquet", pa.schema([("text", pa.string())])) as writer:
            for at in range(0, rows, 50_000):
                writer.write_table(pa.table({"text": _texts(min(50_000, rows - at), at)}))
        with serving(1000, 1536) as server:
            router = canned.one_route(server.base("good"), "embedding")
            with shim.OpenAI(api_key=canned.KEY, router=router) as client:
                began = time.perf_counter()
                client.embed(
                    folder / "in.parquet", out=folder / "out.parquet", batch_size=1000, store=folder, progress=False
                )
                took = time.perf_counter() - began
        print(_most_memory(), took)
    finally:
        shutil.rmtree(folder)


def _most_memory() -> float:
    """MB that this process ever held, by Linux: the figure of getrusage includes what the parent held at the fork."""
    status = Path("/proc/self/status")
    if status.exists():
        lines = [line for line in status.read_text().splitlines() if line.startswith("VmHWM:")]
        return int(lines[0].split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def collect(is_quick: bool) -> list[Row]:
    """All rows."""
    rows, size, dimensions, rounds = (100, 20, 64, 1) if is_quick else (20_000, 1000, 1536, 3)
    with serving(size, dimensions) as server:
        found = _compared(server, rows, size, dimensions, rounds)
    return found if is_quick else [*found, _memory(1_000_000)]


if __name__ == "__main__":
    measure.main(collect, __doc__)
