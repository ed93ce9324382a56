"""Finds the fenced code blocks of the documentation."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
KINDS = ("python", "toml", "bash", "text", "diff", "mermaid", "yaml")
PRINTED = "<!-- printed -->"
_NEEDS = re.compile(r"<!-- needs (\w+) -->\s*\Z")
_FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```\s*$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block. `is_printed`: it shows what the Python block before it prints. `needs`: a module without which
    it cannot run, of an extra that development does not have and `scripts/test_distributed` has.
    """

    path: Path
    line: int
    kind: str
    text: str
    is_printed: bool
    needs: str = ""

    @property
    def place(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}"


def documents() -> list[Path]:
    """Every Markdown file of the repository that is written for users or contributors."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def blocks(path: Path) -> list[Block]:
    """The blocks of a file in order."""
    text = path.read_text(encoding="utf-8")
    found = []
    for match in _FENCE.finditer(text):
        before = text[: match.start()]
        line = before.count("\n") + 2
        printed = before.rstrip().endswith(PRINTED)
        needs = _NEEDS.search(before)
        found.append(Block(path, line, match[1].strip(), match[2], printed, needs[1] if needs else ""))
    return found
