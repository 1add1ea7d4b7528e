"""Faults of a lab's cluster during a load: a pause, a partition, links that fail."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import replace
from random import Random

from dbcheck.cycle.rig import Limits, Rig
from dbcheck.lab.clusters.cluster import ClusterLab
from dbcheck.lab.clusters.network import Way
from dbcheck.lab.clusters.spec import (
    BOTH_WAYS,
    FLAPPING,
    FROM_WRITER,
    TO_WRITER,
    ClusterSpec,
)
from dbcheck.model.cluster import Promise
from dbcheck.ports.listener import Listener, LoadStatus, Phase, Progress
from dbcheck.rows.workload import Workload

FLAP_S = 1.0  # how long a partition that flaps is on, and then off
_WAYS = {
    BOTH_WAYS: frozenset(Way),
    FLAPPING: frozenset(Way),
    FROM_WRITER: frozenset({Way.FROM}),
    TO_WRITER: frozenset({Way.TO}),
}
_PARTED = {
    BOTH_WAYS: "is cut off from the others",
    FLAPPING: "is cut off from the others, on and off",
    FROM_WRITER: "does not reach the others, and they reach it",
    TO_WRITER: "reaches the others, and they do not reach it",
}


def extend_for_faults(
    workload: Workload, limits: Limits, spec: ClusterSpec
) -> tuple[Workload, Limits]:
    """Return *workload* and *limits* for a load with a pause or a partition.

    The cut comes after both, or during the last of them if the spec says so.  Commits
    wait for a node that is silent, so the silence may last as long as the fault.  After
    a partition it may last as long again: TCP doubles the time between two tries to
    send what was dropped (RFC 6298, 5.5).
    """
    faults = [
        (begins_s, begins_s + lasts_s)
        for begins_s, lasts_s in (
            (spec.pause_after_s, spec.pause_s),
            (spec.partition_after_s, spec.partition_s),
        )
        if begins_s
    ]
    if not faults:
        return workload, limits
    begins_s, ends_s = map(max, zip(*faults, strict=True))
    moments = (begins_s, ends_s)
    if not spec.cut_in_fault:
        ends_s += spec.partition_s if spec.partition_after_s else 0.0
        first_s, last_s = workload.cut_after_s
        moments = (first_s + ends_s, last_s + ends_s)
    return (
        replace(workload, cut_after_s=moments),
        replace(limits, silence_s=limits.silence_s + ends_s - begins_s),
    )


def leave_faults_out(spec: ClusterSpec) -> ClusterSpec:
    """Return *spec* of a cluster to which nothing happens but the cut.

    Nor does a node rejoin, which would be compared with the one that was read.
    """
    return replace(
        spec,
        network=spec.has_network,
        link_down_after_s=0.0,
        pause_after_s=0.0,
        partition_after_s=0.0,
        cut_in_fault=False,
        cut_promoted_ms=0.0,
        old_writer_returns_s=0.0,
        rejoin=False,
    )


@contextlib.contextmanager
def inject_faults(
    cluster: ClusterLab, rig: Rig, seed: int
) -> Generator[Rig, None, None]:
    """Give *rig* for one cycle on *cluster*, during which the spec's faults happen.

    No fault begins after the cut, and no node stays paused once the load is over.
    seed: draws the node that is paused.  Raise at the end if a fault could not be made.
    """
    watcher, failures = _LoadWatcher(rig.listener), list[Exception]()

    def run() -> None:
        try:
            _Faults(cluster, seed, watcher).run()
        except Exception as error:  # of whatever kind: the cycle lacked its fault
            failures.append(error)

    thread = threading.Thread(target=run, name="faults", daemon=True)
    thread.start()
    try:
        yield replace(rig, listener=watcher)
    finally:
        watcher.end()
        thread.join()
    if failures:
        raise failures[0]


class _LoadWatcher:
    """A listener that notes when the load begins, and when its end does."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._began_s = 0.0
        self._began, self._cut = threading.Event(), threading.Event()
        self._over = threading.Event()

    def wait_into_load(self, after_s: float) -> bool:
        """Wait for *after_s* seconds of load; return False if the cut comes earlier."""
        self._began.wait()
        wait_s = self._began_s + after_s - time.monotonic()
        return not self._cut.wait(max(0.0, wait_s))

    def wait_until_over(self) -> None:
        """Wait until the load is over: what was to be cut is off by then."""
        self._over.wait()

    def load_s(self) -> float:
        """Return the seconds of load so far."""
        return time.monotonic() - self._began_s

    def end(self) -> None:
        """Wait for nothing any more."""
        for event in (self._over, self._cut, self._began):
            event.set()

    def phase(self, phase: Phase, detail: str) -> None:
        if phase is Phase.CUT:
            self._cut.set()
        if phase is Phase.GONE:
            self.end()
        self._listener.phase(phase, detail)

    def load(self, status: LoadStatus) -> None:
        if not self._began.is_set():
            self._began_s = time.monotonic() - status.seconds
            self._began.set()
        self._listener.load(status)

    def progress(self, progress: Progress) -> None:
        self._listener.progress(progress)


class _Faults:
    """The faults of a cluster's spec, during one load.

    seed: draws the node that is paused.
    """

    def __init__(self, cluster: ClusterLab, seed: int, watcher: _LoadWatcher) -> None:
        self._cluster, self._spec, self._watcher = cluster, cluster.spec, watcher
        others = [name for name in cluster.spec.names if name != cluster.writer]
        self._name = Random(seed).choice(others)
        self._due: list[tuple[float, Callable[[], object]]] = []
        self._is_parted = False
        for after_s, make in (
            (self._spec.link_down_after_s, self._take_down),
            (self._spec.pause_after_s, self._pause),
            (self._spec.partition_after_s, self._begin_partition),
        ):
            if after_s:
                self._due.append((after_s, make))

    def run(self) -> None:
        """Make the faults in their order, and undo them."""
        try:
            while self._due:
                nearest = min(self._due, key=lambda fault: fault[0])
                self._due.remove(nearest)
                at_s, make = nearest
                if not self._watcher.wait_into_load(at_s):
                    break
                make()
        except BaseException:
            self._undo()
            raise
        self._watcher.wait_until_over()
        self._undo()

    def _undo(self) -> None:
        """Let the nodes that stay go on, once those that were cut are off.

        A writer that is to be gone stays cut off: its kernel still has what its server
        had not sent, which no host without power would send.
        """
        is_gone = not Promise(self._spec.promise).writer_returns
        try:
            if is_gone and self._spec.cut_in_fault:
                self._cluster.take_links_down()
            elif self._is_parted and not is_gone:
                self._cluster.part(())
        finally:
            if self._spec.pause_after_s:
                self._cluster.labs[self._name].thaw_server()

    def _say(self, text: str) -> None:
        self._watcher.phase(Phase.LAB, text)

    def _take_down(self) -> None:
        self._say("the links go down")
        self._cluster.take_links_down()

    def _pause(self) -> None:
        paused, lasts_s = self._cluster.labs[self._name], self._spec.pause_s
        until_cut = self._spec.cut_in_fault
        lasts = "until the cut" if until_cut else f"for {lasts_s:g} s"
        self._say(f"{self._name} is paused {lasts}")
        paused.freeze_server()
        if not until_cut:
            self._due.append((self._watcher.load_s() + lasts_s, paused.thaw_server))

    def _begin_partition(self) -> None:
        writer, spec = self._cluster.writer, self._spec
        lasts = "until the cut" if spec.cut_in_fault else f"for {spec.partition_s:g} s"
        self._say(f"{writer} {_PARTED[spec.partition]}, {lasts}")
        self._part()
        if not spec.cut_in_fault:
            ends_s = self._watcher.load_s() + spec.partition_s
            self._due.append((ends_s, self._end_partition))

    def _part(self) -> None:
        self._is_parted = True
        self._cluster.part(_WAYS[self._spec.partition])
        self._flap(self._join)

    def _join(self) -> None:
        self._is_parted = False
        self._cluster.part(())
        self._flap(self._part)

    def _flap(self, change: Callable[[], object]) -> None:
        """Have the other change come next, if the partition is one that flaps."""
        if self._spec.partition == FLAPPING:
            self._due.append((self._watcher.load_s() + FLAP_S, change))

    def _end_partition(self) -> None:
        self._due = [
            (at_s, make)
            for at_s, make in self._due
            if make not in (self._part, self._join)
        ]
        self._is_parted = False
        self._say(f"{self._cluster.writer} and the others reach each other again")
        self._cluster.part(())
