"""Protocol of the nodes that hold the data; each docstring is the contract.

A site knows which of its nodes takes the load, whose power is cut, and which node is
read afterwards.  What is measured on each node is the campaign's work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from dbcheck.base.points import Point, PointKind
from dbcheck.model.cluster import Promise, SiteKind
from dbcheck.model.cut import Cut, PowerState
from dbcheck.model.depth import Reached
from dbcheck.model.pods import Pod
from dbcheck.model.replication import Promotion
from dbcheck.ports.engine import Engine
from dbcheck.ports.host import TargetHost
from dbcheck.ports.power import PowerSwitch


class Restarter(Protocol):
    """Shuts a server down in an orderly way, and starts it again."""

    def restart(self) -> None:
        """Return once it was started; it may still take no queries.

        Raise PowerError if that could not be done, or took too long.
        """


class FaultPrograms(Protocol):
    """Begins and ends a fault beside the load, as in the network between the nodes.

    Both raise EngineError if that fails or takes too long.
    """

    def begin(self, name: str) -> None:
        """Return once the fault of the node *name* is there."""

    def end(self, name: str) -> None:
        """Return once the fault of the node *name* is no longer there.

        It may have ended before, or never have begun.
        """


class CopyPrograms(Protocol):
    """Takes a copy of a server, and restores it elsewhere.

    Each raises EngineError if that fails or takes too long.  run_id: names the copy.
    """

    def take(self, run_id: str, meanwhile: Callable[[], None]) -> None:
        """Return once the copy is complete.

        meanwhile: called again and again until then; what it raises ends the copying.
        """

    def restore(self, run_id: str, point: Point | None = None) -> None:
        """Return once a server was started on the copy; it may take no queries yet.

        point: of the log, to which the archive is restored; None for a copy.
        It may be called again, also while that server runs.
        """

    def remove(self, run_id: str) -> None:
        """End the server on the copy, and remove both; idempotent."""


@dataclass(frozen=True, slots=True)
class VolumeSteps:
    """The newest of the numbers that are written to several volumes in turn.

    begun:     the newest whose writing has begun.  completed: the newest that was
               flushed.
    longest_s: the longest time from one completion to the next since the last count.
    stopped:   why no more are written, "" if they are.
    """

    begun: int
    completed: int
    longest_s: float
    stopped: str


class VolumeWatch(Protocol):
    """Shows whether the volumes of a server were copied at one moment.

    Each call but stop() raises HostError if a host cannot be asked or refuses.
    nonce: names the numbers of one run, in hex.
    """

    @property
    def folders(self) -> tuple[str, ...]:
        """Those on the server's host, in the order in which they are written to."""

    def start(self, nonce: str) -> None:
        """Write a rising number to each volume in turn until stop()."""

    def count(self) -> VolumeSteps:
        """Return the newest numbers that were begun and flushed."""

    def stop(self) -> None:
        """Write no more, and remove what was written; never raises."""

    def read(self, run_id: str, nonce: str) -> Mapping[str, Sequence[range]]:
        """Return the numbers in each restored volume, by its folder."""


class PodSource(Protocol):
    """The pods of one database; every call may raise HostError."""

    def read(self) -> Sequence[Pod]:
        """Return the pods as the API shows them now, sorted by name.

        Pods that have ended, or have no node yet, are left out.
        """


@dataclass(frozen=True, slots=True)
class Node:
    """One server, its host and the switch of its power.

    host:     None if the host is not to be asked.
    log_path: the server's log on the host, as the user named it; "" to take the log
              that the server names.
    restore_command: see model.records.NodeBefore.
    measured_depth: how deep the cut of this switch went in dbcheck power test, on the
              idle host; None if that is not known.
    class_assumed: it was not declared what the human who cuts takes the power from.
    restarter: who restarts the server in an orderly way, None if nobody can.
    pods:     where the server runs on Kubernetes, None elsewhere.
    """

    engine: Engine
    power: PowerSwitch
    host: TargetHost | None = None
    log_path: str = ""
    restore_command: str = ""
    measured_depth: Reached | None = None
    class_assumed: bool = False
    restarter: Restarter | None = None
    pods: PodSource | None = None


class Site(Protocol):
    """The nodes that hold the data.  Calls block; any of them may raise PowerError."""

    @property
    def kind(self) -> SiteKind:
        """Kind of site, which decides whose data may be read, see compare_lineage()."""

    @property
    def nodes(self) -> Mapping[str, Node]:
        """Every node by its name, which records and reports use."""

    @property
    def writer_name(self) -> str:
        """The name of the node that takes the load."""

    @property
    def writer(self) -> Node:
        """The node that takes the load."""

    @property
    def reader_name(self) -> str:
        """The node whose rows are read after the cut.

        ready() may change it until it has returned None.
        """

    @property
    def reader(self) -> Node:
        """The node whose rows are read after the cut."""

    def with_writer(self, node: Node) -> Site:
        """Return the same site, the writer of which is *node*."""

    def led_by(self, name: str) -> Site:
        """Return the same site before a cut, the writer of which is the node *name*."""

    def promising(self, promise: Promise) -> Site:
        """Return the same cluster before a cut that tests *promise*.

        Raise UsageError if its nodes cannot be cut so.
        """

    @property
    def promise(self) -> Promise | None:
        """Failures that the cluster promises to survive; None of a single server."""

    @property
    def stagger_s(self) -> float:
        """In how many seconds all nodes are cut, the writer first; 0: at once."""

    @property
    def kept_off(self) -> frozenset[str]:
        """The names of the nodes that are to stay off until the rows were read."""

    @property
    def brings_back(self) -> bool:
        """True if the old writer gets its power back after the reading.

        No client reaches it then.
        """

    @property
    def rejoins(self) -> bool:
        """True if rejoin() is called once all else was read."""

    @property
    def attended(self) -> bool:
        """True if a human cuts: wait as long as it takes."""

    def prepare(self, seed: int) -> None:
        """Do what must be done before cut() can act at once.

        seed: draws when each node is cut, if that is not at one moment.
        """

    def cut(self) -> Mapping[str, Cut]:
        """Drop the power of the nodes that are to lose it; return how, by node.

        See PowerSwitch.cut().
        """

    def state(self) -> PowerState:
        """Return ON if every node that cut() cuts has power, as its switch reads it."""

    def restore(self) -> Mapping[str, float | None]:
        """Apply power again; return for how many seconds it was off, by node.

        See PowerSwitch.restore().  A node that must stay off is left out.
        """

    def ready(self) -> str | None:
        """Bring recovery one step on; never raises an EngineError.

        A step takes seconds, and up to 75 s where a server is asked to join its group.

        Return None if the node to be read takes queries, else the reason.
        """

    def failure(self) -> str | None:
        """Return the reason why the node to be read will never come back, or None."""

    def promotion(self) -> Promotion | None:
        """Return the promotion of another node, with a new look at the old writer.

        None if the writer itself is read, and is not of a group.
        """

    def bring_back(self) -> Mapping[str, float | None]:
        """Restore the power of the old writer, if it is kept off, as restore() does.

        To be called once the rows were read.  The node then serves its own data.
        """

    def rejoin(self) -> Mapping[str, str]:
        """Have every other node follow the one that was read.

        Return for each node why that failed, "" if it did not.  A node that was asked
        to follow need not do so.
        """

    @property
    def rebuilt(self) -> bool:
        """True if the nodes can follow one writer again before another cut.

        They do so by themselves, or by rebuild().
        """

    def rebuild(self, name: str) -> None:
        """Have a node follow the one that was read; raise DbcheckError.

        That may replace its data.  Nothing is done if the cluster does it by itself.
        """


@dataclass(frozen=True, slots=True)
class Copying:
    """How a copy of the server is taken and restored, and the server on the copy.

    rpo_s, until: see rows.copied.CopyPlan.
    lasts: what is copied is still there once this command has ended, so that a restore
           that failed can be tried again.
    volumes: shows whether the volumes were copied at one moment; None if that is not
           asked.
    """

    programs: CopyPrograms
    restored: Site
    rpo_s: float | None = None
    lasts: bool = True
    until: PointKind | None = None
    volumes: VolumeWatch | None = None
