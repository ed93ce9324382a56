"""Tables in plain text and in HTML that survives every sanitizer: no style sheet, no script, everything escaped."""

from __future__ import annotations

import html
from collections.abc import Sequence

Rows = Sequence[Sequence[object]]
LONGEST_LINE = 36
"""Characters of a cell that is never broken."""


def text(head: Sequence[str], rows: Rows, *, right: Sequence[int] = (), indent: str = "") -> str:
    """Columns under a head; those whose numbers are in `right` end flush."""
    cells = [list(map(str, row)) for row in (head, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    lines = []
    for row in cells:
        parts = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append((indent + "  ".join(parts)).rstrip())
    return "\n".join(lines)


def html_table(head: Sequence[str], rows: Rows, *, left: Sequence[int] = (0,)) -> str:
    """A table; columns whose numbers are in `left` are words, the others numbers. Short cells are kept on one line: a
    page would break `a/emb-a` at its hyphen and `34 ms` at its space."""
    sides = ["left" if column in left else "right" for column in range(len(head))]
    top = "".join(f'<th style="text-align:{side}">{escape(cell)}</th>' for side, cell in zip(sides, head, strict=True))
    body = "".join(
        "<tr>"
        + "".join(
            f'<td style="{_style(side, cell)}">{escape(cell)}</td>' for side, cell in zip(sides, row, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _style(side: str, cell: object) -> str:
    return f"text-align:{side}" + (";white-space:nowrap" if len(str(cell)) <= LONGEST_LINE else "")


def escape(value: object) -> str:
    """Text for HTML. A dollar sign is written so that no notebook reads a formula between two of them."""
    return html.escape(str(value)).replace("$", "&#36;<!-- -->")
