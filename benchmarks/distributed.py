"""Rows a second over Ray Data, Dask and Spark beside one local job: `python -m benchmarks.distributed [--rows N]`.

All on one machine: provider, scheduler and workers share its cores, so this shows what distribution costs there, not
what it gains on several. Each way reads one Parquet file, embeds with an empty store, and writes Parquet. Needs the
extras ray, dask and spark; `scripts/test_distributed` makes an environment that has them.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

import shim
from shim.embed.distributed import BatchEmbedder
from shim.local.server import Answer, serve

WIDTH, BATCH, WORKERS = 256, 1000, 2


def answer(method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
    """A vector for each text that depends on the text alone."""
    texts = msgspec.json.decode(body)["input"]
    raw = b"".join(hashlib.shake_128(text.encode()).digest(WIDTH) for text in texts)
    vectors = np.frombuffer(raw, dtype=np.int8).astype("<f4").reshape(-1, WIDTH) / 128 + 1e-3
    data = [
        {"object": "embedding", "index": number, "embedding": base64.b64encode(vector.tobytes()).decode()}
        for number, vector in enumerate(vectors)
    ]
    usage = {"prompt_tokens": len(texts), "total_tokens": len(texts)}
    told = {"object": "list", "data": data, "model": "m", "usage": usage}
    return 200, [("content-type", "application/json")], msgspec.json.encode(told)


@contextmanager
def provider() -> Iterator[str]:
    """The base URL of a provider in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.distributed", "--serve"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()
            process.wait(10)


def noting(embed: BatchEmbedder, folder: Path) -> Callable[[Any], Any]:
    """The same, and a note in `folder` of the most memory that the process has had, in KiB."""

    def noted(batch: Any) -> Any:
        embedded = embed(batch)
        (folder / f"peak-{os.getpid()}").write_text(str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))
        return embedded

    return noted


def _embedder(base_url: str, folder: Path) -> BatchEmbedder:
    return BatchEmbedder(
        _config(base_url), column="text", store=folder / "store", workers=WORKERS, batch_size=BATCH, concurrency=8
    )


def _config(base_url: str) -> dict[str, Any]:
    family = {"kind": "embedding", "dimensions": WIDTH, "routes": ["here/m"]}
    return {"providers": {"here": {"base_url": base_url}}, "families": {"texts": family}}


def locally(base_url: str, source: Path, folder: Path) -> float:
    """Seconds of one job in this process, as `client.embed` runs it."""
    began = time.perf_counter()
    with shim.OpenAI(router=_config(base_url)) as client:
        client.embed(
            source,
            column="text",
            out=folder / "out.parquet",
            store=folder / "store",
            batch_size=BATCH,
            progress=False,
        )
    return time.perf_counter() - began


def over_ray(base_url: str, source: Path, folder: Path) -> float:
    """Seconds of the same on a local Ray, which is up before."""
    import ray
    import ray.data

    ray.init(address="local", num_cpus=WORKERS, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    ray.data.DataContext.get_current().enable_progress_bars = False
    embed = _embedder(base_url, folder)
    compute = ray.data.TaskPoolStrategy(size=embed.workers)
    try:
        began = time.perf_counter()
        rows = ray.data.read_parquet(str(source)).repartition(WORKERS * 4)
        rows.map_batches(
            noting(embed, folder), batch_format="pyarrow", batch_size=10_000, compute=compute
        ).write_parquet(str(folder / "out"))
        return time.perf_counter() - began
    finally:
        ray.shutdown()


def over_dask(base_url: str, source: Path, folder: Path) -> float:
    """Seconds of the same on a local Dask cluster, which is up before."""
    import dask.dataframe as dd
    from distributed import Client, LocalCluster

    embed = _embedder(base_url, folder)
    where = {"n_workers": WORKERS, "threads_per_worker": 1, "dashboard_address": None, "host": "127.0.0.1"}
    with LocalCluster(**where) as cluster, Client(cluster):
        began = time.perf_counter()
        rows = dd.read_parquet(source).repartition(npartitions=WORKERS * 4)
        pandas = rows.map_partitions(noting(embed, folder), meta=embed.meta(rows))
        pandas.map_partitions(_written, folder / "out", meta=("rows", "int64")).compute()
        return time.perf_counter() - began


def over_spark(base_url: str, source: Path, folder: Path) -> float:
    """Seconds of the same on a local Spark, which is up before; needs a Java runtime."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local[{WORKERS}]").config("spark.ui.showConsoleProgress", "false")
    spark = builder.config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    embed = _embedder(base_url, folder)
    try:
        began = time.perf_counter()
        rows = spark.read.parquet(str(source)).repartition(WORKERS * 4)
        rows.mapInPandas(embed.frames, embed.schema(rows)).write.parquet(str(folder / "out"))
        return time.perf_counter() - began
    finally:
        spark.stop()


def _written(frame: Any, folder: Path) -> Any:
    """Write a part: Dask's own writer does not take a column of arrays."""
    import pandas

    folder.mkdir(exist_ok=True)
    frame.to_parquet(folder / f"{frame['id'].iloc[0]}.parquet")
    return pandas.Series([len(frame)])


WAYS: Mapping[str, Callable[[str, Path, Path], float]] = {
    "client.embed": locally,
    "Ray Data": over_ray,
    "Dask": over_dask,
    "Spark": over_spark,
}


def _checked(folder: Path, rows: int) -> None:
    """All rows are there, each with its vector."""
    import pyarrow.dataset as ds

    found = next(path for path in (folder / "out", folder / "out.parquet") if path.exists())
    table = ds.dataset(found).to_table(columns=["id", "embedding_error"])
    assert (table.num_rows, table.column("embedding_error").null_count) == (rows, rows), (table.num_rows, found)
    assert len(set(table.column("id").to_pylist())) == rows


def measure(rows: int, ways: list[str]) -> None:
    """Print a line for each way."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    print(f"{os.cpu_count()} cores; {rows:,} rows, {WIDTH} numbers each, {WORKERS} workers, provider on the same cores")
    base = None
    for way in ways:
        with provider() as base_url, tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            texts = [f"text number {number}, of about the length of a title" for number in range(rows)]
            pq.write_table(pa.table({"id": range(rows), "text": texts}), folder / "in.parquet", row_group_size=25_000)
            del texts
            seconds = WAYS[way](base_url, folder / "in.parquet", folder)
            _checked(folder, rows)
            peak = max((int(path.read_text()) for path in folder.glob("peak-*")), default=0)
        base = seconds if base is None else base
        memory = f"  largest worker {peak / 1024:,.0f} MiB" if peak else ""
        print(f"{way:13} {seconds:7.1f} s {rows / seconds:9,.0f} rows/s {base / seconds:6.2f} of {ways[0]}{memory}")


def main() -> None:
    """Measure, or serve until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--only", nargs="+", choices=list(WAYS), default=list(WAYS))
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if not given.serve:
        measure(given.rows, given.only)
        return
    with serve(answer) as server:
        print(server.base_url, flush=True)
        ended = threading.Event()
        threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
        ended.wait(1800)


if __name__ == "__main__":
    main()
