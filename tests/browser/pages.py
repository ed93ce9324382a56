"""The panel's page module in a bare page: a stub of the widget's model, and nothing of Jupyter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import notebook_ext

STATIC = Path(notebook_ext.__file__).parent / "static"
LIGHT = ""
DARK = (
    "--jp-layout-color1:#111;--jp-layout-color2:#262626;--jp-ui-font-color1:#fff;--jp-ui-font-color2:#bdbdbd;"
    "--jp-border-color2:#4a4a4a;--jp-brand-color1:#64b5f6;background:#111"
)
_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>panel</title>
<style>body{margin:8px}%s</style></head><body style="%s"><main id="place"></main></body></html>"""
_MOUNT = """async ([source, snapshot]) => {
  const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  const widget = (await import(url)).default;
  const heard = {};
  window.sent = [];
  window.model = {
    state: { snapshot, beats: 0 },
    get(name) { return this.state[name]; },
    on(event, act) { (heard[event] = heard[event] || []).push(act); },
    off(event, act) { heard[event] = (heard[event] || []).filter((other) => other !== act); },
    send(message) { window.sent.push(message); },
    set(name, value) { this.state[name] = value; this.tell(`change:${name}`); },
    tell(event, message) { for (const act of heard[event] || []) act(message); },
    listeners() { return Object.values(heard).flat().length; },
  };
  window.leave = widget.render({ model: window.model, el: document.getElementById("place") });
}"""


def mount(page: Any, snapshot: dict[str, Any], *, style: str = LIGHT, width: int = 1200) -> None:
    """Show a snapshot. The stub is `window.model`; what the page sends lies in `window.sent`."""
    page.set_viewport_size({"width": width, "height": 900})
    page.set_content(_PAGE % ((STATIC / "panel.css").read_text(), style))
    page.evaluate(_MOUNT, [(STATIC / "panel.js").read_text(), snapshot])


def update(page: Any, snapshot: dict[str, Any]) -> None:
    """The kernel sends another snapshot."""
    page.evaluate("snapshot => model.set('snapshot', snapshot)", snapshot)
