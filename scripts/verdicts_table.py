"""Prints the Markdown table of verdicts, made from the rows of the taxonomy: the one that docs/verdicts.md holds."""

from __future__ import annotations

import sys
from collections.abc import Container
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from shim._core.taxonomy import ANY, ROWS, Row

_BEFORE, _AFTER = r"(?<![\w-])(?:", r")(?![\w-])"


def statuses(status: Container[int]) -> str:
    """`404`, `400, 404`, `500 to 599`."""
    if status is ANY:
        return "any"
    if isinstance(status, range):
        return f"{status.start} to {status.stop - 1}"
    return ", ".join(str(number) for number in range(1000) if number in status)


def code(text: str) -> str:
    """A piece of code in a cell of a table."""
    escaped = text.replace("|", r"\|")
    return f"`` {escaped} ``" if "`" in escaped else f"`{escaped}`"


def told(row: Row) -> str:
    """The codes or types, and the words, that a row asks for."""
    parts = [code(word) for word in sorted(row.codes)]
    if row.text is not None:
        parts.append("text " + code(row.text.pattern.removeprefix(_BEFORE).removesuffix(_AFTER)))
    return " ".join(parts)


def seconds(value: float | None) -> str:
    """How long it is left alone, in the largest unit that fits."""
    if value is None:
        return ""
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if value >= size and value % size == 0:
            return f"{value / size:g} {unit}"
    return f"{value:g} s"


def table() -> str:
    """The whole table, in the order of the rows."""
    lines = [
        "| provider | status | code, type, text | verdict | scope | reason | left alone |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in ROWS:
        then = row.then
        who = "any" if row.preset == "*" else row.preset
        cells = (
            who,
            statuses(row.status),
            told(row),
            then.verdict.value,
            then.scope.value,
            then.reason,
            seconds(then.cooldown),
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
