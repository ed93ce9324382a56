"""The magics: `%shim`, `%embed`, `%shim_record`, `%shim_replay`. Line magics, so that a cell may still await."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring

from notebook_ext import cassettes, datasets, nesting, rehearsals, session, views, words
from notebook_ext.render import to_html, to_text
from notebook_ext.watch import Watch
from shim.router import Router

COMMANDS = (
    "panel",
    "status",
    "explain",
    "attempts",
    "reset",
    "off",
    "on",
    "pin",
    "unpin",
    "rehearse",
    "config",
    "asyncio",
)


@magics_class
class ShimMagics(Magics):  # type: ignore[misc]  # IPython's decorator has no types
    """Kept in a notebook while the extension is loaded."""

    @magic_arguments()
    @argument("command", choices=COMMANDS, nargs="?", default="panel", help="what to do; `panel` without one")
    @argument("names", nargs="*", help="a model, a route (provider/model), a provider, a family, a number")
    @argument("-r", "--router", help="the variable that holds the client or router; else the newest router")
    @argument("-f", "--family", help="pin: the family, where a route stands in several")
    @argument("-m", "--mode", choices=("auto", "widget", "table", "text"), default="auto", help="panel: how to show it")
    @argument("--freeze", action="store_true", help="panel: turn the live panels into tables that stay")
    @argument("--times", type=int, default=rehearsals.TIMES, help="rehearse: how many attempts meet the fault")
    @argument("--seconds", type=float, default=rehearsals.SECONDS, help="rehearse: when all is as before again")
    @line_magic
    def shim(self, line: str) -> Any:
        """See and steer the providers of this notebook.

        %shim panel                  a live panel; --freeze turns it into a table that a saved notebook shows
        %shim status                 the same, once
        %shim explain MODEL          who would be asked, in which order, and why not the others
        %shim attempts [N]           the last N calls, attempt by attempt
        %shim reset [NAME]           close breakers, forget cooldowns
        %shim off NAME, on NAME      leave a route or provider out
        %shim pin [FAMILY] NAME      send a family's calls to one route alone; `unpin` ends it
        %shim rehearse NAME FAULT    let attempts meet a 429, 500, 401, timeout or connection fault, or `off`
        %shim config                 the configuration, without its keys
        %shim asyncio on             let your own asyncio.run(...) work in cells
        """
        arguments = parse_argstring(self.shim, line)
        try:
            return _DOES[arguments.command](self, arguments)
        except (ValueError, TypeError, nesting.CannotNest) as wrong:
            raise UsageError(f"%shim {arguments.command}: {words.clean(wrong, 1000)}") from None

    @magic_arguments()
    @argument("name", help="the variable: a list of texts, a Series, a DataFrame")
    @argument("-c", "--column", help="of a DataFrame: the column that holds the texts")
    @argument("-f", "--family", help="the embedding family; else the default one")
    @argument("-i", "--into", default="embedding", help="the new column, or the new variable for a list")
    @argument("--client", help="the variable that holds the client; else the newest one")
    @line_magic
    def embed(self, line: str) -> Any:
        """Embed a variable: `%embed df --column text --family bge-m3 --into embedding`. Returns the job."""
        arguments = parse_argstring(self.embed, line)
        try:
            return datasets.embed(self.shell.user_ns, arguments)
        except (ValueError, TypeError, KeyError) as wrong:
            raise UsageError(f"%embed: {words.clean(wrong, 1000)}") from None

    @line_magic
    def shim_record(self, line: str) -> Any:
        """Record what goes to providers from here on: `%shim_record cassettes/notebook.yaml`; `%shim_record off`."""
        return self._cassette("shim_record", line, "new")

    @line_magic
    def shim_replay(self, line: str) -> Any:
        """Answer from a cassette from here on, without a network: `%shim_replay cassettes/notebook.yaml`, or `off`."""
        return self._cassette("shim_replay", line, "none")

    def _cassette(self, magic: str, line: str, mode: str) -> Any:
        try:
            return views.of_line(cassettes.switch(line, mode))
        except (ValueError, ImportError) as wrong:
            raise UsageError(f"%{magic}: {words.clean(wrong, 1000)}") from None

    # -- the commands of %shim

    def _router(self, arguments: Namespace) -> Router:
        if arguments.router is None:
            return session.router_of()
        if arguments.router not in self.shell.user_ns:
            raise ValueError(f"no variable {arguments.router!r} in this notebook")
        return session.router_of(self.shell.user_ns[arguments.router])

    def _panel(self, arguments: Namespace) -> None:
        if arguments.freeze:
            for panel in session.panels():
                panel.freeze()
            return
        session.panel_for(self._router(arguments), mode=arguments.mode)._ipython_display_()

    def _status(self, arguments: Namespace) -> Any:
        watch = Watch(self._router(arguments), lambda: None)
        watch.close()
        snapshot = watch.snapshot()
        return views.View(to_text(snapshot), to_html(snapshot))

    def _explain(self, arguments: Namespace) -> Any:
        model = arguments.names[0] if arguments.names else "auto"
        return views.of_explanation(self._router(arguments).explain(model))

    def _attempts(self, arguments: Namespace) -> Any:
        asked = arguments.names[0] if arguments.names else "5"
        if not asked.isdigit() or int(asked) < 1:
            raise ValueError(f"the number of calls must be at least 1, is {asked!r}")
        return views.of_calls(list(reversed(self._router(arguments).calls))[: int(asked)])

    def _reset(self, arguments: Namespace) -> Any:
        router = self._router(arguments)
        for name in arguments.names or [None]:
            router.reset(name)
        return views.of_line(f"reset {', '.join(arguments.names) or 'all routes'}")

    def _off(self, arguments: Namespace) -> Any:
        for name in _named(arguments):
            self._router(arguments).disable(name)
        return views.of_line(f"off: {', '.join(arguments.names)}")

    def _on(self, arguments: Namespace) -> Any:
        for name in _named(arguments):
            self._router(arguments).enable(name)
        return views.of_line(f"on: {', '.join(arguments.names)}")

    def _pin(self, arguments: Namespace) -> Any:
        router, names = self._router(arguments), _named(arguments)
        if len(names) == 2 and arguments.family is None:
            arguments.family, names = names[0], names[1:]
        if len(names) > 1:
            raise ValueError(f"one route at a time: %shim pin [FAMILY] ROUTE, not {' '.join(arguments.names)}")
        name = names[0]
        families = [
            family.name
            for family in router.config.families.values()
            if any(name in (route.route, route.provider) for route in family.routes)
        ]
        family = arguments.family or (families[0] if len(families) == 1 else None)
        if family is None and families:
            raise ValueError(f"{name} stands in several families: say which before it, one of {', '.join(families)}")
        if family is None and name in router.config.families:
            raise ValueError(f"{name} is a family: say the route as well, as `%shim pin {name} provider/model`")
        router.pin(family or next(iter(router.config.families), ""), name)
        return views.of_line(f"{family}: pinned to {name}")

    def _unpin(self, arguments: Namespace) -> Any:
        router = self._router(arguments)
        pinned = {route.family for route in router.status().routes if route.is_pinned}
        for family in arguments.names or ([arguments.family] if arguments.family else sorted(pinned)):
            router.unpin(family)
        return views.of_line("nothing is pinned" if not pinned else "unpinned")

    def _rehearse(self, arguments: Namespace) -> Any:
        router = self._router(arguments)
        if arguments.names == ["off"]:
            rehearsals.end(router)
            return views.of_line("no rehearsal is under way: all is as it was before")
        if len(arguments.names) != 2:
            raise ValueError(f"say a route or provider and a fault: {', '.join(rehearsals.FAULTS)}; or `off`")
        name, fault = arguments.names
        rehearsals.begin(router, name, fault, times=arguments.times, seconds=arguments.seconds)
        attempts, back = words.plural(arguments.times, "attempt"), words.seconds(arguments.seconds)
        return views.of_line(f"rehearsal: the next {attempts} on {name} meet {fault}; all is as before in {back}")

    def _config(self, arguments: Namespace) -> Any:
        return views.of_config(self._router(arguments).config)

    def _asyncio(self, arguments: Namespace) -> Any:
        if arguments.names != ["on"]:
            raise ValueError("say `on`; it cannot be switched off again but by restarting the kernel")
        return views.of_line(nesting.switch_on())


def _named(arguments: Namespace) -> list[str]:
    names: list[str] = arguments.names
    if not names:
        raise ValueError("say which route (provider/model) or provider; `%shim status` lists them")
    return names


_DOES: dict[str, Callable[[ShimMagics, Namespace], Any]] = {name: getattr(ShimMagics, f"_{name}") for name in COMMANDS}
