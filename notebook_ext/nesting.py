"""`%shim asyncio on`: lets the user's own `asyncio.run(...)` work in a cell. Nothing of shim needs it."""

from __future__ import annotations

import asyncio
from importlib import metadata

NEEDED = (1, 7, 3)
"""Before it, and in nest-asyncio, cells that are queued under ipykernel 7 are lost: their "[*]" never ends."""


class CannotNest(RuntimeError):
    """Why it was not switched on, and what to do."""


def switch_on() -> str:
    """Apply nest-asyncio2 to the running loop; what to tell the user. Raises CannotNest."""
    if hasattr(asyncio, "_nest_patched") and not hasattr(asyncio, "_nest_asyncio2"):
        raise CannotNest(
            "nest-asyncio 1.x has patched this kernel already, and under ipykernel 7 it loses queued cells: take "
            "`nest_asyncio.apply()` out, uninstall nest-asyncio, restart the kernel"
        )
    try:
        version = metadata.version("nest-asyncio2")
    except metadata.PackageNotFoundError:
        raise CannotNest(
            "needs nest-asyncio2: `%pip install 'openai-shim[nested-asyncio]'`. Without it, write `await main()` in "
            "place of `asyncio.run(main())`, or `notebook_ext.run(main())`"
        ) from None
    if _numbers(version) < NEEDED:
        needed = ".".join(map(str, NEEDED))
        raise CannotNest(
            f"nest-asyncio2 {version} loses queued cells under ipykernel 7: `%pip install 'nest-asyncio2>={needed}'`, "
            "then restart the kernel"
        )
    loop = asyncio.get_event_loop_policy().get_event_loop() if not _running() else asyncio.get_running_loop()
    if not isinstance(loop, asyncio.BaseEventLoop):
        raise CannotNest(f"a loop of type {type(loop).__module__}.{type(loop).__name__} cannot be patched: use await")
    import nest_asyncio2

    nest_asyncio2.apply(loop)
    return (
        "asyncio.run(...) works in cells now, in this kernel until it is restarted. Tasks that nest end in the reverse "
        "order of their start: for anything timed use await"
    )


def _running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _numbers(version: str) -> tuple[int, ...]:
    found = []
    for part in version.split(".")[:3]:
        digits = "".join(sign for sign in part if sign.isdigit())
        found.append(int(digits or 0))
    return tuple(found)
