"""An engine that has no optional feature, and what a test gives it."""

from __future__ import annotations

from typing import Any

from dbcheck.ports.engine import Engine
from dbcheck.ports.feature import Feature

REQUIRED = Engine.__abstractmethods__
# An engine that does what each does by default.
_BARE: Any = type("_Bare", (Engine,), dict.fromkeys(REQUIRED))


class BareEngine:
    """An engine, of which a test or a subclass defines what it is about.

    It can be a switch or a witness besides, so it is no subclass of Engine.
    """

    def __init__(self, **given: Any) -> None:
        vars(self).update(given)

    def has(self, feature: Feature) -> bool:
        """Return whether all methods of the feature are defined."""
        defined = {*dir(type(self)), *vars(self)}
        return defined.issuperset(feature.value)

    def require(self, feature: Feature) -> None:
        """Refuse what is not defined, as an engine does."""
        if not self.has(feature):
            self.__getattr__("require")(feature)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in REQUIRED:
            raise AttributeError(name)
        bare = _BARE()
        if name != "target":
            bare.target = self.target
        return getattr(bare, name)
