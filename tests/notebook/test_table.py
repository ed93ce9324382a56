"""Tables in HTML: what is short stays on one line, what is long may be broken."""

from __future__ import annotations

import pytest

from notebook_ext.table import html_table


@pytest.mark.parametrize(
    ("cell", "is_kept"),
    [("a/emb-a", True), ("34 ms", True), (280, True), ("last error rate_limit: the provider asks to wait", False)],
)
def test_short_cells_stay_on_one_line(cell: object, is_kept: bool) -> None:
    assert ("white-space:nowrap" in html_table(("now",), [(cell,)])) is is_kept
