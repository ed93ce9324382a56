"""Writes the tables that are made from the code into the documents that hold them.

    python scripts/tables.py

A document marks the place: `<!-- table: defaults_table.py -->`, the table, `<!-- end of table -->`.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent
ROOT = SCRIPTS.parent
_PLACE = re.compile(r"(<!-- table: (\w+\.py) -->\n).*?(<!-- end of table -->)", re.DOTALL)


def filled(match: re.Match[str]) -> str:
    """The place with the table as the code makes it now."""
    run = subprocess.run([sys.executable, SCRIPTS / match[2]], capture_output=True, text=True, check=True)
    return f"{match[1]}\n{run.stdout.strip()}\n\n{match[3]}"


def main() -> None:
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        before = path.read_text(encoding="utf-8")
        after = _PLACE.sub(filled, before)
        if after != before:
            path.write_text(after, encoding="utf-8")
            print(f"written: {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
