"""One site and one witness, put together, and the permit to cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from dbcheck.base import limits
from dbcheck.model.cluster import Promise
from dbcheck.model.witness import Json
from dbcheck.ports.engine import Engine
from dbcheck.ports.listener import Listener
from dbcheck.ports.site import Copying, FaultPrograms, PodSource, Site
from dbcheck.ports.witness import LogReader, Witness
from dbcheck.runs.folder import reconcile_command

if TYPE_CHECKING:
    from dbcheck.load.far import FarWorkers


class CutPermit:
    """Permit of one target to be without power; alone, it never waits for others.

    A fleet limits how many targets are cut at once (--cutting).
    """

    def take(self) -> None:
        """Wait until the target may be without power; it may until give_back()."""

    def give_back(self) -> None:
        """Give the permit back: the target has its power.  Idempotent."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Time limits of a cycle, in seconds, and the limits of the witness's lag.

    silence_s:   without any reply for so long, the server is gone.
    cut_s:       an unattended cut must stop the acks within this time.
    return_s:    the server must take queries again within this time.
    window_acks: most acks that may be unconfirmed at once.
    """

    silence_s: float = limits.SILENCE_S
    cut_s: float = limits.CUT_S
    return_s: float = limits.RETURN_S
    window_acks: int = limits.WINDOW_ACKS


@dataclass(frozen=True, slots=True)
class Rig:
    """The site, the witness and the settings that a cycle runs with.

    runs:     folder that holds the run folders.
    lab:      the lab's spec; {} on real hardware.  Only a lab may have its
              witness on the target's own host.
    used_epochs: the epochs of all cycles that the server ever saw, if all are known, so
              that the seed may decide the next epoch; otherwise None.
    read_twice: after its rows were read, the server is restarted, and they are read
              again.
    audited:  the lines that audits of earlier cycles showed; they are not shown again.
    before_load: called in each cycle once its preflight has passed.
    store:    called before rows are dropped.  The campaign's folder is then the only
              evidence of them, so it must be stored where it outlives this machine.
    permit:   the permit of this target to be without power.
    client:   the address at which clients commit, None to try each node's own.
    client_command: the program that commits as clients do, () to commit without it.
    far:      the workers on other machines that share the sessions, None if the
              sessions run on this machine.
    fault:    begins and ends a fault beside the load, None if there is to be none.
    witness_pods: the pods on Kubernetes among which the witness's is, None if it is in
              none.
    reconcile_flags: the flags with which dbcheck reconcile reaches this target and its
              witness, and reads all that this rig reads.
    promises: what the commits of the cluster must survive, of which *site* tests one;
              () of a single server.
    find_nodes: returns the site as it is now, led by the node that is named: pods may
              have other addresses after a cut, and other hosts.  It raises
              DbcheckError as long as one of them cannot be reached.  None if the nodes
              stay where they are.
    copying:  how a copy of the server is taken, and restored elsewhere, where it is
              read; None where the server itself is read.
    """

    site: Site
    witness: Witness
    reader: LogReader
    listener: Listener
    runs: Path
    limits: Limits = Limits()
    lab: Json = field(default_factory=dict)
    used_epochs: set[int] | None = None
    audited: set[str] = field(default_factory=set)
    read_twice: bool = False
    before_load: Callable[[], None] = lambda: None
    store: Callable[[], None] = lambda: None
    permit: CutPermit = field(default_factory=CutPermit)
    client: Engine | None = None
    far: FarWorkers | None = None
    fault: FaultPrograms | None = None
    witness_pods: PodSource | None = None
    reconcile_flags: Sequence[str] = ()
    promises: Sequence[Promise] = ()
    client_command: Sequence[str] = ()
    find_nodes: Callable[[str], Site] | None = None
    copying: Copying | None = None

    @property
    def cuts_power(self) -> bool:
        """True if the power is to be cut."""
        return self.copying is None or self.copying.rpo_s is not None

    def reconcile_command(self, run: Path) -> str:
        """Return the command that judges *run*, which was made on this rig."""
        return reconcile_command(run, self.reconcile_flags)
