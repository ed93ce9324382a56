"""Reading an embeddings answer: ours against the official client's, as ratios within one run.

The official figure is a whole `client.embeddings.create` over a canned transport (parsing is nearly all of it); ours is
`read` and `floats`, and `read` and `packed` for those who want a matrix. Run: `python benchmarks/decode.py [--rows
1000] [--dimensions 1536]`.
"""

from __future__ import annotations

import argparse
import base64
import json
import random
import struct
import time
from collections.abc import Callable

import httpx2
import openai

from shim._core.vectors import Embedded, Wanted, read


def canned(rows: int, dimensions: int, *, as_base64: bool) -> bytes:
    """An answer of `rows` unit vectors, as OpenAI writes it."""
    source = random.Random(7)
    data: list[dict[str, object]] = []
    for index in range(rows):
        packed = struct.pack(f"<{dimensions}f", *(source.gauss(0, dimensions**-0.5) for _ in range(dimensions)))
        vector = base64.b64encode(packed).decode() if as_base64 else list(struct.unpack(f"<{dimensions}f", packed))
        data.append({"object": "embedding", "index": index, "embedding": vector})
    usage = {"prompt_tokens": rows, "total_tokens": rows}
    return json.dumps({"object": "list", "data": data, "model": "m", "usage": usage}).encode()


def fastest(work: Callable[[], object], rounds: int) -> float:
    """Seconds of process time of the best round: other processes disturb it least."""
    spans: list[float] = []
    for _ in range(rounds):
        begun_at = time.process_time()
        work()
        spans.append(time.process_time() - begun_at)
    return min(spans)


def official(body: bytes, encoding: str) -> Callable[[], object]:
    """A call of the official client that is answered with `body` without a socket. base64 is its own default."""
    headers = {"content-type": "application/json"}
    transport = httpx2.MockTransport(lambda request: httpx2.Response(200, content=body, headers=headers))
    http_client = httpx2.Client(transport=transport)
    client = openai.OpenAI(api_key="none", base_url="http://canned/v1", http_client=http_client)
    if encoding == "float":
        return lambda: client.embeddings.create(model="m", input="x", encoding_format="float")
    return lambda: client.embeddings.create(model="m", input="x")


def embedded(body: bytes, wanted: Wanted) -> Embedded:
    """What `read` makes of a good answer."""
    answer = read(body, wanted)
    if not isinstance(answer, Embedded):
        raise SystemExit(f"the canned answer was judged: {answer.message}")
    return answer


def main() -> None:
    """Prints one line per wire format: microseconds a vector, and how many times faster ours is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--dimensions", type=int, default=1536)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    wanted = Wanted(options.rows, options.dimensions)
    for encoding in ("base64", "float"):
        body = canned(options.rows, options.dimensions, as_base64=encoding == "base64")
        theirs = fastest(official(body, encoding), options.rounds if encoding == "base64" else 2)
        lists = fastest(lambda body=body: embedded(body, wanted).floats(), options.rounds)  # type: ignore[misc]
        matrix = fastest(lambda body=body: embedded(body, wanted).packed(), options.rounds)  # type: ignore[misc]
        scale = 1e6 / options.rows
        print(f"{encoding:7} official  {theirs * scale:7.1f} us/vector")
        print(f"{encoding:7} to lists  {lists * scale:7.1f} us/vector, {theirs / lists:5.1f} times as fast")
        print(f"{encoding:7} to packed {matrix * scale:7.1f} us/vector, {theirs / matrix:5.1f} times as fast")


if __name__ == "__main__":
    main()
