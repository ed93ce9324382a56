"""The accessibility check of axe-core (WCAG 2.0 to 2.2, levels A and AA) on a part of a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

_RUN = """async (place) => {
  const told = await axe.run(place, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] });
  const said = (node) => `${node.html.slice(0, 120)} ${node.any.concat(node.all).map((one) => one.message).join(" ")}`;
  return told.violations.map((one) => `${one.id}: ${one.help}: ${one.nodes.slice(0, 3).map(said).join(" | ")}`);
}"""


def violations(page: Any, place: str = ".shim-panel") -> list[str]:
    """What it complains about; empty when nothing."""
    import axe_playwright_python

    page.add_script_tag(path=str(Path(axe_playwright_python.__file__).parent / "axe.min.js"))
    found: list[str] = page.evaluate(_RUN, place)
    return found
