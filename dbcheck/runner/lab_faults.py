"""Faults of the nodes and links of a lab's cluster while the load runs."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import replace
from random import Random

from dbcheck.cycle.rig import Rig
from dbcheck.lab.clusters.cluster import ClusterLab
from dbcheck.ports.listener import Listener, LoadStatus, Phase, Progress


@contextlib.contextmanager
def faults(cluster: ClusterLab, rig: Rig, seed: int) -> Generator[Rig, None, None]:
    """Give *rig*, for one cycle on *cluster*, in which the faults of its spec happen.

    None happens after the cut, and no node is paused beyond the end of this.
    seed: draws the node that is paused.  Raise at the end if a fault could not be made.
    """
    watching, failed = _Watching(rig.listener), list[Exception]()

    def run() -> None:
        try:
            _happen(cluster, seed, watching)
        except Exception as error:  # of whatever kind: the cycle lacked its fault
            failed.append(error)

    thread = threading.Thread(target=run, name="faults", daemon=True)
    thread.start()
    try:
        yield replace(rig, listener=watching)
    finally:
        watching.end()
        thread.join()
    if failed:
        raise failed[0]


class _Watching:
    """A listener that knows when the load began, and when it is cut."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._began_s = 0.0
        self._began, self._over = threading.Event(), threading.Event()

    def comes(self, after_s: float) -> bool:
        """Return after so many seconds of load; False if it is cut before."""
        self._began.wait()
        wait_s = self._began_s + after_s - time.monotonic()
        return not self._over.wait(max(0.0, wait_s))

    def load_s(self) -> float:
        """Return for how many seconds the load has run."""
        return time.monotonic() - self._began_s

    def end(self) -> None:
        """Have nothing happen any more."""
        self._over.set()
        self._began.set()

    def phase(self, phase: Phase, detail: str) -> None:
        if phase is Phase.CUT:
            self.end()
        self._listener.phase(phase, detail)

    def load(self, status: LoadStatus) -> None:
        if not self._began.is_set():
            self._began_s = time.monotonic() - status.seconds
            self._began.set()
        self._listener.load(status)

    def progress(self, progress: Progress) -> None:
        self._listener.progress(progress)


def _happen(cluster: ClusterLab, seed: int, watching: _Watching) -> None:
    """Make the faults in their order."""
    spec, name = cluster.spec, Random(seed).choice(cluster.spec.names[1:])
    paused = cluster.labs[name]
    due: list[tuple[float, Callable[[], object]]] = []

    def take_down() -> None:
        watching.phase(Phase.LAB, "the links go down")
        cluster.take_links_down()

    def pause() -> None:
        watching.phase(Phase.LAB, f"{name} is paused for {spec.pause_s:g} s")
        paused.freeze_server()
        due.append((watching.load_s() + spec.pause_s, paused.thaw_server))

    if spec.link_down_after_s:
        due.append((spec.link_down_after_s, take_down))
    if spec.pause_after_s:
        due.append((spec.pause_after_s, pause))
    try:
        while due:
            at_s, make = due.pop(due.index(min(due, key=lambda fault: fault[0])))
            if not watching.comes(at_s):
                break
            make()
    finally:
        if spec.pause_after_s:
            paused.thaw_server()
