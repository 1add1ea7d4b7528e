"""Looks repeatedly, while the load runs, at what a verdict is concluded from."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from functools import partial

from dbcheck import interrupt
from dbcheck.campaign.host import data_directory
from dbcheck.campaign.preflight import Started
from dbcheck.campaign.rig import Rig
from dbcheck.clock import now_us
from dbcheck.errors import EngineError, HostError
from dbcheck.model.places import DATA
from dbcheck.model.watched import (
    CANARY,
    THERE,
    Looked,
    Watched,
    WatchTally,
    folders_of,
    places_looked,
    settings_looked,
    tables_looked,
    volumes_looked,
)
from dbcheck.ports.abilities import can_be_watched
from dbcheck.ports.host import Look
from dbcheck.rows.plans.registry import tables_of

log = logging.getLogger(__name__)

EVERY_S = 0.5
_POLL_S = 0.1  # of interrupts
_END_S = 3.0


class Watching:
    """Looks at one server or host, in a thread of its own, at its own pace.

    A connection that breaks is made anew: a server that crashes and recovers by itself
    breaks each of them.
    """

    def __init__(self, connect: Callable[[], Look], before: Looked) -> None:
        """Begin; a look that fails raises nothing.  before: see WatchTally."""
        self._connect, self._tally = connect, WatchTally(before)
        self._look: Look | None = None
        self._failure = ""
        self._ending, self._begun = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="watching", daemon=True)
        self._thread.start()

    def await_first(self, until_s: float) -> None:
        """Return once it has looked once, or could not, at the latest at *until_s*.

        until_s: of time.monotonic().  An interrupt ends it.
        """
        while not self._begun.wait(_POLL_S) and time.monotonic() < until_s:
            interrupt.require_none()

    def seen(self) -> Watched:
        """Return what was seen, once end() was called."""
        return self._tally.watched(self._failure)

    def end(self) -> None:
        """Look no more; never raises.  A server or host that is gone is not awaited."""
        self._ending.set()
        if (look := self._look) is not None:
            look.sever()
        self._thread.join(_END_S)

    def _run(self) -> None:
        try:
            while not self._ending.is_set():
                self._once()
                self._begun.set()
                self._ending.wait(EVERY_S)
        finally:
            self._begun.set()
            if self._look is not None:
                self._look.close()

    def _once(self) -> None:
        try:
            if self._look is None:
                self._look = self._connect()
                self._tally.connected(now_us())
            asked_us = now_us()
            found = self._look.read()
        except (EngineError, HostError) as error:
            log.debug("a look failed: %s", error)
            if self._look is not None:
                self._look.close()
                self._look = None
            if not self._ending.is_set():
                self._failure = str(error)
            return
        if not self._ending.is_set():
            self._tally.add(asked_us, found, now_us())
            self._failure = ""


def watch_server(rig: Rig, started: Started) -> Watching | None:
    """Look at the writer's settings and tables; None if its server shows none."""
    engine, manifest = rig.site.writer.engine, started.manifest
    if not can_be_watched(engine):
        return None
    facts = manifest.writer.facts
    # A canary that a session holds is lost with that session, which is watched.
    epoch = None if manifest.no_canary or started.held else manifest.epoch
    tables = {name: table.definition for name, table in manifest.tables.items()}
    before = settings_looked(facts.settings) | {CANARY: THERE} | tables_looked(tables)
    specs = tables_of(manifest.workload)
    connect = partial(engine.open_look, facts.settings, epoch, specs, server=facts)
    return Watching(connect, before)


def watch_hosts(rig: Rig, started: Started) -> dict[str, Watching]:
    """Look at mounts, block devices and places of each node whose host was asked."""
    found: dict[str, Watching] = {}
    for name, node in started.manifest.nodes.items():
        host = rig.site.nodes[name].host
        if host is not None and node.host is not None:
            facts, places = node.host.facts, node.places
            names = {DATA, *(each.name for each in places)}
            known = folders_of(facts, names)  # to which each connection's look adds
            directory = data_directory(node.facts)
            connect = partial(host.look, facts, directory, places, known)
            before = volumes_looked(facts.volumes) | places_looked(facts, names)
            found[name] = Watching(connect, before)
    return found
