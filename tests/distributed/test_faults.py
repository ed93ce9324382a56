"""The property of a partitioned run: whatever fails on the way, the rows are those of the clean local run."""

from __future__ import annotations

import random
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pandas as pd
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shim.embed.distributed import BatchEmbedder
from shim.embed.worker import dismiss
from tests.distributed.comparing import Rows, errors_of, local, rows_of
from tests.embed.serving import LENGTH, Provider, altered, config, failing, rate_limited, resetting
from tests.support.server import Server

POISON = frozenset({"row 23", "row 88"})
TEXTS = [*(f"row {number}" for number in range(140)), "", "row 7", "nul \x00"]
BAD = {"row 23", "row 88", "", "nul \x00"}
FAULTS = [rate_limited(0.1), failing(0.05), resetting(0.05), altered(0.05, lambda rows: rows[:-1])]


@cache
def clean() -> Rows:
    """The rows of the clean run: nothing fails but those that are bad. No argument: Hypothesis would print it."""
    with Server(Provider(poison=POISON)) as server, tempfile.TemporaryDirectory() as folder:
        frame = pd.DataFrame({"id": range(len(TEXTS)), "text": TEXTS})
        return local(config(server, dimensions=LENGTH), frame, Path(folder), batch_size=16)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**31), parts=st.integers(1, 9), at_once=st.integers(1, 4), order=st.permutations(range(9)))
def test_any_partition_under_any_faults_gives_the_rows_of_the_clean_local_run(
    seed: int, parts: int, at_once: int, order: list[int]
) -> None:
    """And exactly the bad rows fail. Several callers at once share one store; the order of the parts is any."""
    provider = Provider(faults=FAULTS, poison=POISON, dice=random.Random(seed))
    frame = pd.DataFrame({"id": range(len(TEXTS)), "text": TEXTS})
    pieces = [frame.iloc[part::parts] for part in order if part < parts]
    with Server(provider) as server, tempfile.TemporaryDirectory() as store, ThreadPoolExecutor(at_once) as pool:
        embed = BatchEmbedder(
            config(server, dimensions=LENGTH), column="text", store=store, workers=at_once, batch_size=16
        )
        back = pd.concat(pool.map(embed, pieces)).sort_values("id")
        dismiss()
        assert server.faults == []
    got = rows_of(back)
    assert [text for text, error in zip(TEXTS, errors_of(got), strict=True) if error] == [
        text for text in TEXTS if text in BAD
    ]
    assert got == clean()
