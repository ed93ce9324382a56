"""The plugin for pytest: fixtures, the marker `shim_cassette`, and the options `--shim-record` and `--shim-unused`.

It is read in every run of pytest where the package is installed, so all but pytest itself is imported when it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from shim.router import Router
    from shim.testing.cassette import Cassette
    from shim.testing.clock import FakeClock
    from shim.testing.provider import FakeProvider

_MARKER = "shim_cassette"
_HAS_FAILED = pytest.StashKey[bool]()
_UNUSED = "shim_unused"
_ARGUMENTS = ("record", "hosts", "repeats", "match", "all_used", "secrets", "keep_headers", "about")


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the command line."""
    group = parser.getgroup("shim", "cassettes of shim.testing")
    group.addoption(
        "--shim-record",
        choices=("none", "once", "new", "all"),
        default=None,
        help="whether cassettes record: none (default), once (where there is none yet), new (what is missing), all",
    )
    group.addoption(
        "--shim-unused",
        action="store_true",
        default=False,
        help="list the recordings that passing tests did not ask for",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Announce the marker, and hand on the record mode."""
    config.addinivalue_line(
        "markers",
        f"{_MARKER}(path=None, **arguments of use_cassette): answer the HTTP requests of this test from a cassette; "
        "without a path from cassettes/<file>/<test>.yaml beside it",
    )
    mode = config.getoption("shim_record")
    if mode is not None:
        from shim.testing.use import set_default_mode

        set_default_mode(mode)
        config.add_cleanup(lambda: set_default_mode(None))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember a failure, or a skip half-way: what such a test recorded is not kept. An unrecorded request is told in
    short."""
    report = yield
    if report.failed or (report.skipped and not hasattr(report, "wasxfail")):
        item.stash[_HAS_FAILED] = True
    if report.failed:
        is_unrecorded = call.excinfo is not None and call.excinfo.typename == "UnrecordedRequest"
        if is_unrecorded and not item.config.getoption("fulltrace"):
            report.longrepr = _short(item, call)
    return report


def _short(item: pytest.Item, call: pytest.CallInfo[None]) -> str:
    """Where the project's own code made the request, and the message; not the frames of client and library beneath."""
    assert call.excinfo is not None
    lines = []
    for entry in call.excinfo.traceback:
        path = Path(entry.path)
        if item.config.rootpath in path.parents and "site-packages" not in path.parts:
            lines += [f"{path}:{entry.lineno + 1}: in {entry.name}", f"    {str(entry.statement).strip()}"]
    return "\n".join([*lines, "", *(f"E   {line}".rstrip() for line in str(call.excinfo.value).splitlines())])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """A marked test gets its cassette without naming the fixture."""
    if isinstance(item, pytest.Function) and item.get_closest_marker(_MARKER) is not None:
        # A list of its own: parameters of one test share theirs, and one of them may be marked alone.
        item.fixturenames = [_MARKER, *(name for name in item.fixturenames if name != _MARKER)]


@pytest.fixture(name=_MARKER)
def _shim_cassette(request: pytest.FixtureRequest) -> Iterator[Cassette]:
    """The cassette of this test, open: `cassettes/<file>/<test>.yaml` beside it, or as the marker says.

    What a test recorded is kept when it passed.
    """
    from shim.testing.use import path_for, use_cassette

    marker = request.node.get_closest_marker(_MARKER)
    arguments, named = (marker.args, dict(marker.kwargs)) if marker is not None else ((), {})
    path = named.pop("path", arguments[0] if arguments else None)
    _refuse_unknown(request.node.nodeid, arguments, named)
    own = Path(str(request.node.path))
    if path is None:
        name = request.node.nodeid.partition("::")[2].replace("::", ".")
        place = path_for(own, name or request.node.name)
    else:
        place = own.parent / path
    opened = use_cassette(place, **named)
    cassette = opened.__enter__()
    yield cassette
    failure = AssertionError("the test failed") if request.node.stash.get(_HAS_FAILED, False) else None
    opened.__exit__(None if failure is None else type(failure), failure, None)
    if failure is None and cassette.unused and request.config.getoption(_UNUSED):
        request.node.user_properties.append((_UNUSED, f"{place}: {_listed(cassette)}"))


def _refuse_unknown(nodeid: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
    unknown = [name for name in named if name not in _ARGUMENTS]
    if unknown or len(arguments) > 1:
        what = f"has no argument {unknown[0]!r}" if unknown else "takes one path"
        raise pytest.UsageError(f"{nodeid}: @pytest.mark.{_MARKER} {what}; it takes: path, {', '.join(_ARGUMENTS)}")


def _listed(cassette: Cassette) -> str:
    return f"{len(cassette.unused)} of {len(cassette.recordings)} recordings not asked for: " + ", ".join(
        str(one.asked) for one in cassette.unused[:5]
    )


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """With `--shim-unused`, the recordings that nothing asked for; those of xdist's workers are among them."""
    if not config.getoption(_UNUSED):
        return
    lines = [
        value
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", None) == "teardown"
        for name, value in getattr(report, "user_properties", ())
        if name == _UNUSED
    ]
    terminalreporter.section("recordings that nothing asked for")
    for line in lines or ["none"]:
        terminalreporter.line(line)


@pytest.fixture
def fake_clock() -> FakeClock:
    """A clock that moves when it is told to; `shim_router` and `fake_provider` of the same test use it as well."""
    from shim.testing.clock import FakeClock

    return FakeClock()


@pytest.fixture
def fake_provider(fake_clock: FakeClock) -> Iterator[Callable[..., FakeProvider]]:
    """Makes scripted providers that answer without a network until the test ends: `fake_provider(says("hello"))`.

    Named a, b, c and so on unless `name` says otherwise. Time is that of `fake_clock`.
    """
    from shim.testing.provider import FakeProvider

    with ExitStack() as stack:
        made: list[FakeProvider] = []

        def make(*words: Any, name: str | None = None, **settings: Any) -> FakeProvider:
            settings.setdefault("clock", fake_clock)
            own = name or "abcdefghijklmnopqrstuvwxyz"[len(made) % 26]
            made.append(stack.enter_context(FakeProvider(*words, name=own, **settings)))
            return made[-1]

        yield make


@pytest.fixture
def shim_router(fake_clock: FakeClock) -> Callable[..., Router]:
    """Makes a router over scripted providers: `shim_router(a, b, kind="chat")`, model `test`, on `fake_clock`."""
    from shim.testing.routers import router_over

    def make(*providers: FakeProvider, **settings: Any) -> Router:
        settings.setdefault("clock", fake_clock)
        return router_over(*providers, **settings)

    return make
