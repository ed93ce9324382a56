"""Loading into IPython and out again: everything that is hooked in is taken out, and no thread stays."""

from __future__ import annotations

from typing import Any

from notebook_ext import cassettes, completion, failures, formats, loop, session
from notebook_ext.jobbars import JobBars

_MAGICS = ("shim", "embed", "shim_record", "shim_replay")
_bars: JobBars | None = None
_shell: Any = None


def load(shell: Any) -> None:
    """Hook in; once, however often it is asked. Says one line."""
    global _bars, _shell
    if _shell is shell:
        return
    if _shell is not None:
        unload(_shell)
    from notebook_ext.magics import ShimMagics

    shell.register_magics(ShimMagics)
    shell.set_hook("complete_command", completion.complete, re_key=completion.PATTERN)
    failures.install(shell)
    formats.install(shell)
    shell.events.register("post_run_cell", session.after_cell)
    _bars = JobBars(session.feed)
    _bars.install()
    _shell = shell
    print("shim: %shim panel shows your providers live, %shim? tells the rest")


def unload(shell: Any) -> None:
    """Live panels become tables; hooks, magics, observers and threads are gone."""
    global _bars, _shell
    if _shell is None:
        return
    _shell = None
    if _bars is not None:
        _bars.remove()
        _bars = None
    session.close_all()
    cassettes.close()
    loop.close()
    shell.events.unregister("post_run_cell", session.after_cell)
    formats.remove(shell)
    failures.remove(shell)
    commands = shell.strdispatchers.get("complete_command")
    if commands is not None:
        kept = [(key, chain) for key, chain in commands.regexs.items() if key.pattern != completion.PATTERN]
        commands.regexs = dict(kept)
    for name in _MAGICS:
        shell.magics_manager.magics["line"].pop(name, None)
    shell.magics_manager.registry.pop("ShimMagics", None)
