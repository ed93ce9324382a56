"""By which right a route's vectors belong to a store: observed, or declared. Refuses what was not compared."""

from __future__ import annotations

from shim._core import space
from shim._core.plan import model_name
from shim.config import RouteConfig
from shim.embed.errors import StoreError
from shim.embed.plan import Setup
from shim.embed.store import Maker, Store
from shim.router import Router


class Observed:
    """The spaces of one job's routes. `of(route)` is `observed:<fingerprint>` or `declared:<identity>`.

    Raises StoreError at once where the family's routes name other models than those that filled the store.
    """

    def __init__(self, router: Router, setup: Setup, store: Store) -> None:
        self._router, self._setup, self._store = router, setup, store
        self._known: dict[str, str] = {}
        self._check_models()

    def of(self, route: str) -> str:
        """The space of a route that has just served. Raises StoreError where it would be mixed with another."""
        if route not in self._known:
            config = next(one for one in self._setup.family.routes if one.route == route)
            found = self._found(config)
            self._store.note_maker(Maker(route, self._base_url(config), config.model, found))
            self._known[route] = found
        return self._known[route]

    def _check_models(self) -> None:
        """The configuration says that its routes are one model, and that the family is the same as before: one of them
        must have a part in what is here."""
        makers, family = self._store.makers(), self._setup.family
        names = {_plain(one.model) for one in family.routes}
        endpoints = {self._endpoint(one) for one in family.routes}
        if not makers or any(_plain(one.model) in names or _endpoint_of(one) in endpoints for one in makers):
            return
        reference = self._store.reference
        is_trusted = not any(self._is_checked(one) for one in family.routes)
        if reference is not None and (is_trusted or self._reference()[0] == reference):
            return
        made = ", ".join(dict.fromkeys(f"{one.model} ({one.route})" for one in makers))
        now = ", ".join(dict.fromkeys(one.model for one in family.routes))
        raise StoreError(
            f"the vectors in {self._store.folder} were made by {made}, and family {family.name!r} is now {now}: "
            "vectors of two models never mix. Embed afresh with fresh=True (what is there is kept aside), in another "
            "`store` or under another family's name; if it is the same model, keep the old route beside the new one"
        )

    def _found(self, route: RouteConfig) -> str:
        observed, members = self._reference()
        if observed is not None and self._endpoint(route) in members:
            self._compare_with_earlier(route, members)
            self._store.observe(observed)
            return f"observed:{observed}"
        reference = self._store.reference
        if reference and self._is_checked(route) and not self._has_been_in(f"observed:{reference}", route):
            raise StoreError(
                f"the vectors in {self._store.folder} belong to an observed space ({reference}), and {route.route} at "
                "its present address was never compared with it: have a route that made them in the family beside it, "
                "embed afresh with fresh=True or in another `store`, or trust it with space_check = false"
            )
        return f"declared:{self._setup.space.id[:12]}"

    def _has_been_in(self, observed: str, route: RouteConfig) -> bool:
        endpoint = self._endpoint(route)
        return any(one.space == observed and _endpoint_of(one) == endpoint for one in self._store.makers())

    def _compare_with_earlier(self, route: RouteConfig, members: frozenset[str]) -> None:
        """Vectors from before the space was observed: one who made them must be in it, or about to be compared."""
        makers = self._store.makers() if self._store.reference is None else []
        turn = {
            self._endpoint(one)
            for one in self._setup.routes
            if one.priority == route.priority or not self._is_checked(one)
        }
        if makers and not any(_endpoint_of(maker) in turn | members for maker in makers):
            made = ", ".join(dict.fromkeys(maker.route for maker in makers))
            raise StoreError(
                f"the vectors in {self._store.folder} were made by {made} before any space was observed, and "
                f"{route.route} was not compared with it: embed afresh with fresh=True, or in another `store`"
            )

    def _reference(self) -> tuple[str | None, frozenset[str]]:
        wanted = self._setup.space
        key = space.key_of(wanted.family, wanted.dimensions, wanted.input_type)
        for one in self._router.spaces():
            if one.key == key:
                return one.fingerprint, frozenset(one.members)
        return None, frozenset()

    def _base_url(self, route: RouteConfig) -> str:
        return self._router.config.providers[route.provider].base_url

    def _endpoint(self, route: RouteConfig) -> str:
        return space.endpoint(self._base_url(route), route.model)

    def _is_checked(self, route: RouteConfig) -> bool:
        return self._setup.family.policy.space_check if route.space_check is None else route.space_check


def _endpoint_of(maker: Maker) -> str:
    return space.endpoint(maker.base_url, maker.model)


def _plain(model: str) -> str:
    """A model's name as different hosts write it: without owner and case, and without the tag for the newest."""
    return model_name(model).removesuffix(":latest")
