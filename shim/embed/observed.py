"""Says by which right a route's vectors belong to a store: observed, or declared; refuses what was not compared."""

from __future__ import annotations

from typing import Any

from shim.embed.errors import StoreError
from shim.embed.plan import Setup
from shim.embed.store import Store


class Observed:
    """The spaces of one job's routes. `of(route)` is `observed:<fingerprint>` or `declared:<identity>`."""

    def __init__(self, router: Any, setup: Setup, store: Store) -> None:
        self._router, self._setup, self._store = router, setup, store
        self._known: dict[str, str] = {}

    def of(self, route: str) -> str:
        """The space of a route that has just served. Raises StoreError where it would be mixed with another."""
        if route not in self._known:
            self._known[route] = self._found(route)
        return self._known[route]

    def _found(self, route: str) -> str:
        observed, members = self._reference()
        if observed is not None and self._endpoint(route) in members:
            self._compare_with_earlier(route, members)
            self._store.observe(observed)
            return f"observed:{observed}"
        reference = self._store.reference
        makers = self._store.makers()
        if reference and self._is_checked(route) and f"observed:{reference}" not in makers.get(route, ()):
            raise StoreError(
                f"the vectors in {self._store.folder} belong to an observed space ({reference}), and {route} was never "
                "compared with it: have a route that made them in the family beside it, embed afresh with fresh=True "
                "or in another `store`, or trust it with space_check = false"
            )
        return f"declared:{self._setup.space.id[:12]}"

    def _compare_with_earlier(self, route: str, members: frozenset[str]) -> None:
        """Vectors from before the space was observed: one who made them must be in it, or about to be compared."""
        makers = self._store.makers() if self._store.reference is None else {}
        priorities = {one.route: one.priority for one in self._setup.routes}
        turn = {one for one in priorities if priorities[one] == priorities[route] or not self._is_checked(one)}
        if makers and not any(maker in turn or self._endpoint(maker) in members for maker in makers):
            raise StoreError(
                f"the vectors in {self._store.folder} were made by {', '.join(sorted(makers))} before any space was "
                f"observed, and {route} was not compared with it: embed afresh with fresh=True, or in another `store`"
            )

    def _reference(self) -> tuple[str | None, frozenset[str]]:
        space = self._setup.space
        key = f"{space.family} {space.dimensions or 'native'} {space.input_type or 'any'}"
        for one in self._router.spaces():
            if one.key == key:
                return one.fingerprint, frozenset(one.members)
        return None, frozenset()

    def _endpoint(self, route: str) -> str:
        """As the router names it: where the route lives and its model; "" for one that is no longer in the family."""
        for one in self._setup.family.routes:
            if one.route == route:
                return f"{self._router.config.providers[one.provider].base_url} {one.model}"
        return ""

    def _is_checked(self, route: str) -> bool:
        for one in self._setup.family.routes:
            if one.route == route and one.space_check is not None:
                return one.space_check
        return self._setup.family.policy.space_check
