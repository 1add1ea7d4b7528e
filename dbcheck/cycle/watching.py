"""Watches the facts that a verdict rests on while the load runs.

Settings, tables, mounts and devices are read repeatedly, and the drives' flush counters
are sampled.  The first sample is taken before the first commit.  The acks are counted
just before each later sample, so the flush of every counted commit lies between the
samples.  A drive's writes include those of the canaries, which are never flushed.  In a
cluster the writer is asked for the nodes that follow it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from dbcheck.base import interrupt
from dbcheck.base.errors import EngineError, HostError
from dbcheck.base.system import now_us
from dbcheck.cycle.own_data import require_data_directory
from dbcheck.cycle.preflight.before_load import Started
from dbcheck.cycle.rig import Rig
from dbcheck.model.flushes import Sample, UnderLoad
from dbcheck.model.host import Volume
from dbcheck.model.places import DATA
from dbcheck.model.replication import ReplicationSeen, ReplicationTally
from dbcheck.model.server import ServerFacts
from dbcheck.model.watched import (
    CANARY,
    THERE,
    Looked,
    Watched,
    WatchTally,
    list_folders_of_places,
    make_facts_of_places,
    make_facts_of_settings,
    make_facts_of_tables,
    make_facts_of_volumes,
)
from dbcheck.ports.connection import Followers
from dbcheck.ports.feature import Feature
from dbcheck.ports.host import Counting, Look, TargetHost
from dbcheck.ports.listener import Phase
from dbcheck.rows.plans.registry import tables_of

log = logging.getLogger(__name__)

FOLLOWERS_EVERY_S = 0.04
_END_WAIT_S = 3.0  # how long end() waits for a thread
_SAMPLE_WAIT_S = 0.5  # one wait for a sample; an interrupt is seen after it


class FollowerWatch:
    """Asks the writer for its followers, in a thread of its own, while it answers."""

    def __init__(self, followers: Followers) -> None:
        """Take over *followers*, and ask once; raise EngineError."""
        self._followers = followers
        self._tally, self._ended = ReplicationTally(), ""
        self._ending = threading.Event()
        self._answered = threading.Condition()
        self._asked_us = 0
        self._ask()
        self._thread = threading.Thread(target=self._run, name="following", daemon=True)
        self._thread.start()

    def seen(self) -> ReplicationSeen | None:
        """Return the followers that the writer showed, after end()."""
        return self._tally.seen(self._ended)

    def await_sample(self, asked_us: int) -> bool:
        """Wait a moment for the answer to a question that was asked after *asked_us*.

        Return False if no answer came, and one may come yet.
        """

        def is_over() -> bool:
            return self._asked_us >= asked_us or not self._thread.is_alive()

        with self._answered:
            return self._answered.wait_for(is_over, _SAMPLE_WAIT_S)

    def end(self) -> None:
        """Ask no more; never raises.  Idempotent."""
        self._ending.set()
        self._followers.sever()
        self._thread.join(_END_WAIT_S)

    def _ask(self) -> None:
        """Ask once; raise EngineError.

        A sample has the time before its question, so that it never looks too new.
        """
        asked_us = now_us()
        followers = self._followers.read()
        self._tally.add(asked_us, followers, now_us())
        with self._answered:
            self._asked_us = asked_us
            self._answered.notify_all()

    def _run(self) -> None:
        try:
            while not self._ending.wait(FOLLOWERS_EVERY_S):
                self._ask()
        except EngineError as error:
            log.debug("the writer is asked no more: %s", error)
            self._ended = "" if self._ending.is_set() else str(error)
        finally:
            self._followers.close()


def begin_following(rig: Rig, server: ServerFacts) -> FollowerWatch | None:
    """Begin to ask the writer for its followers; return None if none is needed.

    A single server needs one if no commit may be lost with it.  server: the writer's
    facts.  Raise EngineError.
    """
    receives = rig.copying is not None and rig.copying.rpo_s == 0
    if rig.site.promise is None and not receives:
        return None
    return FollowerWatch(rig.site.writer.engine.open_followers(server=server))


EVERY_S = 0.5  # between two looks
SAMPLE_S = 0.5  # between two samples of the drives
_POLL_S = 0.1  # between two checks for an interrupt
HEADER = (
    "at_s,seconds,acked,node,drive,writes,bytes_written,write_ms,flushes,flush_ms\n"
)


class Watching:
    """Looks at one server or host, in a thread of its own, at its own pace.

    A connection that breaks is made anew: a server that crashes breaks it, and may then
    recover by itself.
    """

    def __init__(self, connect: Callable[[], Look], before: Looked) -> None:
        """Begin; a look that fails raises nothing.

        before: the facts before the load, with which each look is compared.
        """
        self._connect, self._tally = connect, WatchTally(before)
        self._look: Look | None = None
        self._failure = ""
        self._ending, self._begun = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="watching", daemon=True)
        self._thread.start()

    def await_first(self, until_s: float) -> None:
        """Wait for the first look, even a failed one, until *until_s* at the latest.

        until_s: a time of time.monotonic().  An interrupt ends the wait.
        """
        while not self._begun.wait(_POLL_S) and time.monotonic() < until_s:
            interrupt.raise_if_interrupted()

    def seen(self) -> Watched:
        """Return the observations, after end()."""
        return self._tally.watched(self._failure)

    def end(self) -> None:
        """Look no more; never raises, and waits for no server or host that is gone."""
        self._ending.set()
        if (look := self._look) is not None:
            look.sever()
        self._thread.join(_END_WAIT_S)

    def _run(self) -> None:
        try:
            while not self._ending.is_set():
                self._look_once()
                self._begun.set()
                self._ending.wait(EVERY_S)
        finally:
            self._begun.set()
            if self._look is not None:
                self._look.close()

    def _look_once(self) -> None:
        try:
            if self._look is None:
                self._look = self._connect()
                self._tally.connected(now_us())
            asked_us = now_us()
            looked = self._look.read()
        except (EngineError, HostError) as error:
            log.debug("a look failed: %s", error)
            if self._look is not None:
                self._look.close()
                self._look = None
            if not self._ending.is_set():
                self._failure = str(error)
            return
        if not self._ending.is_set():
            self._tally.add(asked_us, looked, now_us())
            self._failure = ""


def watch_server(rig: Rig, started: Started) -> Watching | None:
    """Look at the writer's settings and tables; return None if it shows none."""
    engine, manifest = rig.site.writer.engine, started.manifest
    if not engine.has(Feature.WATCH):
        return None
    facts = manifest.writer.facts
    # A canary that a session holds is lost with that session; Cutter watches that.
    epoch = None if manifest.no_canary or started.held else manifest.epoch
    tables = {name: table.definition for name, table in manifest.tables.items()}
    before = (
        make_facts_of_settings(facts.settings)
        | {CANARY: THERE}
        | make_facts_of_tables(tables)
    )
    specs = tables_of(manifest.workload)
    connect = partial(engine.open_look, facts.settings, epoch, specs, server=facts)
    return Watching(connect, before)


def watch_hosts(rig: Rig, started: Started) -> dict[str, Watching]:
    """Look at mounts, block devices and places of each node whose host was asked."""
    watching_of_node: dict[str, Watching] = {}
    for name, node in started.manifest.nodes.items():
        host = rig.site.nodes[name].host
        if host is not None and node.host is not None:
            facts, places = node.host.facts, node.places
            names = {DATA, *(place.name for place in places)}
            # The look of each connection adds folders to these.
            folders = list_folders_of_places(facts, names)
            directory = require_data_directory(node.facts)
            connect = partial(host.look, facts, directory, places, folders)
            before = make_facts_of_volumes(facts.volumes) | make_facts_of_places(
                facts, names
            )
            watching_of_node[name] = Watching(connect, before)
    return watching_of_node


class DriveCounts:
    """Counts the drives' work on one host, sampled by a thread of its own.

    whole: the drives' work up to the last sample that saw new acks and all drives; None
           without such a sample.
    """

    def __init__(self, counters: Counting, acked: Callable[[], int]) -> None:
        """Take the first sample, before the load; raise HostError.

        acked: returns how many commits were answered, at least; now it returns 0.
        end() closes the *counters*.
        """
        self._counters, self._acked = counters, acked
        self._first = self._last = counters.read()
        self._last_acked = 0
        self._series: list[tuple[int, UnderLoad]] = []
        self.whole: UnderLoad | None = None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="drives", daemon=True)

    def begin(self) -> None:
        """Go on sampling, until end() or until the host is gone."""
        self._thread.start()

    @property
    def newest(self) -> UnderLoad | None:
        """The drives' work between the last two samples, None before the second."""
        return self._series[-1][1] if self._series else None

    def series(self) -> Sequence[tuple[int, UnderLoad]]:
        """Return the work between each two samples, with the time of the later sample.

        The time is in microseconds of the client's monotonic clock.
        """
        return tuple(self._series)

    def end(self) -> None:
        """Take no more samples; never raises.  Does not wait for a host that is gone.

        Idempotent.
        """
        self._ending.set()
        self._counters.close()
        if self._thread.ident is not None:
            self._thread.join(_END_WAIT_S)

    def _run(self) -> None:
        while not self._ending.wait(SAMPLE_S):
            # Read before the sample, so that it has the flush of each counted commit.
            acked = self._acked()
            try:
                sample = self._counters.read()
            except HostError as error:
                log.debug("the drives are counted no more: %s", error)
                return
            self._take(sample, acked)

    def _take(self, sample: Sample, acked: int) -> None:
        work = _subtract_samples(self._last, sample, acked - self._last_acked)
        self._series.append((now_us(), work))
        # Drives that alone lost their power are missing in the samples after the cut.
        is_complete = self._first.devices.keys() <= sample.devices.keys()
        if acked > self._last_acked and is_complete:
            self.whole = _subtract_samples(self._first, sample, acked)
        self._last, self._last_acked = sample, acked


def begin_counting(
    rig: Rig, started: Started, acked: Callable[[], int]
) -> dict[str, DriveCounts]:
    """Count the drives' work on each node whose host was asked; report what fails.

    acked: returns how many commits were answered, at least.
    """
    counts_of_node: dict[str, DriveCounts] = {}
    try:
        for name, node in started.manifest.nodes.items():
            host = rig.site.nodes[name].host
            names = list_drives(node.host.facts.volumes) if node.host else []
            if host is None or not names:
                continue
            try:
                counts_of_node[name] = _take_first_counts(host, names, acked)
            except HostError as error:
                text = f"the flushes of its drives are not counted: {error}"
                rig.listener.phase(Phase.LOAD, text)
        for counts in counts_of_node.values():
            counts.begin()
    except BaseException:
        for counts in counts_of_node.values():
            counts.end()
        raise
    return counts_of_node


def _take_first_counts(
    host: TargetHost, drives: Sequence[str], acked: Callable[[], int]
) -> DriveCounts:
    counters = host.counting(drives)
    try:
        return DriveCounts(counters, acked)
    except BaseException:
        counters.close()
        raise


def list_drives(volumes: Sequence[Volume]) -> list[str]:
    """Return the drives below *volumes*, by name, each once."""
    return list(
        dict.fromkeys(drive.name for volume in volumes for drive in volume.drives)
    )


def format_csv(
    counts_of_node: Mapping[str, DriveCounts], began_us: int
) -> Iterator[str]:
    """Yield drives.csv: the work of each drive of each node, by half seconds.

    began_us: when the load began, from which at_s is counted.
    """
    yield HEADER
    for node, counts in counts_of_node.items():
        for at_us, work in counts.series():
            head = f"{(at_us - began_us) / 1e6:.3f},{work.seconds:.3f},{work.acked}"
            for drive, n in work.drives.items():
                writes = f"{n.writes},{n.bytes_written},{n.write_ms}"
                flushes = ",".join(
                    "" if number is None else str(number)
                    for number in (n.flushes, n.flush_ms)
                )
                yield f"{head},{node},{drive},{writes},{flushes}\n"


def _subtract_samples(earlier: Sample, later: Sample, acked: int) -> UnderLoad:
    """Return the work between two samples."""
    seconds = max(0, later.at_us - earlier.at_us) / 1e6
    work = {
        name: counts.since(earlier.devices[name])
        for name, counts in later.devices.items()
        if name in earlier.devices
    }
    return UnderLoad(seconds, acked, work)
