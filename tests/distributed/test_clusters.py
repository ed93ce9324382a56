"""Real local clusters of Ray, Dask and Spark against a provider in its own process: the rows of the clean local run."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from shim.embed.distributed import BatchEmbedder
from tests.distributed import redis_server
from tests.distributed.comparing import Rows, errors_of, local, rows_of
from tests.distributed.provider import POISON, counts, provider
from tests.embed.serving import LENGTH, config

pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("ignore")]  # the frameworks warn of their own affairs
ROWS = 3000
TEXTS = [f"row {number}" if number % 500 else "" for number in range(ROWS)]
BAD = {"", *POISON}
WORKERS = 2


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return pd.DataFrame({"id": range(ROWS), "text": TEXTS})


@pytest.fixture(scope="module")
def clean(frame: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """The local run, where nothing fails but the rows that are bad."""
    with provider(with_faults=False) as base_url:
        rows = local(config(base_url, dimensions=LENGTH), frame, tmp_path_factory.mktemp("clean"))
    assert {row["text"] for row in rows if row["embedding_error"]} == BAD
    return rows


@pytest.fixture
def sick() -> Iterator[str]:
    """A provider with faults."""
    with provider(with_faults=True) as base_url:
        yield base_url


@pytest.fixture
def embed(sick: str, tmp_path: Path) -> BatchEmbedder:
    return BatchEmbedder(
        config(sick, dimensions=LENGTH), column="text", store=tmp_path / "store", workers=WORKERS, batch_size=50
    )


def _same(got: Rows, clean: Rows, sick: str) -> None:
    assert errors_of(got) == errors_of(clean)
    assert got == clean
    assert counts(sick)["most"] == 1, "no text was paid for twice"


# -- Ray


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    """Two workers; a short path, since sockets lie below it."""
    ray = pytest.importorskip("ray", reason="needs the extra ray: scripts/test_distributed installs it")
    pytest.importorskip("ray.data")
    folder = tempfile.mkdtemp(prefix="shim-ray-", dir="/tmp")
    ray.init(
        address="local",
        num_cpus=WORKERS,
        include_dashboard=False,
        log_to_driver=False,
        object_store_memory=200 << 20,
        _temp_dir=folder,
        _node_ip_address="127.0.0.1",
    )
    yield ray
    ray.shutdown()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("batch_format", ["pyarrow", "numpy", "pandas"])
def test_ray_gives_the_rows_of_the_local_run(
    ray: Any, embed: BatchEmbedder, frame: pd.DataFrame, clean: Rows, sick: str, batch_format: str
) -> None:
    compute = ray.data.TaskPoolStrategy(size=embed.workers)
    rows = ray.data.from_pandas(frame).repartition(8)
    back = rows.map_batches(embed, batch_format=batch_format, batch_size=375, compute=compute)
    _same(rows_of(back.take_all()), clean, sick)


def test_ray_writes_and_reads_parquet(
    ray: Any, embed: BatchEmbedder, frame: pd.DataFrame, clean: Rows, sick: str, tmp_path: Path
) -> None:
    ray.data.from_pandas(frame).repartition(4).write_parquet(str(tmp_path / "in"))
    rows = ray.data.read_parquet(str(tmp_path / "in"))
    rows.map_batches(embed, batch_format="pyarrow").write_parquet(str(tmp_path / "out"))
    _same(rows_of(pd.read_parquet(tmp_path / "out")), clean, sick)


# -- Dask


@pytest.fixture(scope="module")
def dask_frame(frame: pd.DataFrame) -> Iterator[Any]:
    """The rows in eight partitions, on two worker processes."""
    reason = "needs the extra dask: scripts/test_distributed installs it"
    distributed = pytest.importorskip("distributed", reason=reason)
    dataframe = pytest.importorskip("dask.dataframe", reason=reason)
    with (
        distributed.LocalCluster(
            n_workers=WORKERS, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
        ) as cluster,
        distributed.Client(cluster),
    ):
        yield dataframe.from_pandas(frame, npartitions=8)


def test_dask_gives_the_rows_of_the_local_run(dask_frame: Any, embed: BatchEmbedder, clean: Rows, sick: str) -> None:
    back = dask_frame.map_partitions(embed, meta=embed.meta(dask_frame))
    assert list(back.columns) == list(clean[0]), "known before anything is asked"
    _same(rows_of(back.compute()), clean, sick)


def test_dask_workers_share_through_redis(dask_frame: Any, clean: Rows, sick: str, tmp_path: Path) -> None:
    servers = redis_server.found()
    if not servers:
        pytest.skip("needs a redis-server: scripts/test_distributed installs one")
    with redis_server.running(next(iter(servers.values())), tmp_path) as address:
        embed = BatchEmbedder(
            config(sick, dimensions=LENGTH),
            column="text",
            store=tmp_path / "store",
            workers=WORKERS,
            batch_size=50,
            share=address,
        )
        _same(rows_of(dask_frame.map_partitions(embed, meta=embed.meta(dask_frame)).compute()), clean, sick)


# -- Spark


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    """A local master with two threads, each with a Python worker; needs Java 17 or newer."""
    sql = pytest.importorskip("pyspark.sql", reason="needs the extra spark: scripts/test_distributed installs it")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("no Java runtime here: Spark's function is tested as a function alone (test_batches.py)")
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
    }
    builder = sql.SparkSession.builder.master(f"local[{WORKERS}]").appName("shim")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


def test_spark_gives_the_rows_of_the_local_run(
    spark: Any, embed: BatchEmbedder, frame: pd.DataFrame, clean: Rows, sick: str
) -> None:
    rows = spark.createDataFrame(frame).repartition(4)
    back = rows.mapInPandas(embed.frames, embed.schema(rows))
    assert back.columns == list(clean[0])
    _same(rows_of([row.asDict() for row in back.collect()]), clean, sick)
