"""Puts the switch of drives alone together with the server on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dbcheck.cycle.host import data_directory
from dbcheck.ports.engine import Engine
from dbcheck.power.driveonly import Server
from dbcheck.rows.table import LEDGER


def server_on(engine: Engine, start: Callable[[], str] | None = None) -> Server:
    """Return the server as the switch of its drives needs it; nothing is asked yet.

    start: see power.driveonly.Server.
    """

    def directory() -> str:
        return data_directory(engine.facts())

    def places() -> Sequence[str]:
        return [place.path for place in engine.places((LEDGER,))]

    return Server(directory, places, start)
