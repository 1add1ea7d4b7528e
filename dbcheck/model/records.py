"""Records of a cycle as they are stored: before its load, at its cut and after it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dbcheck.base.limits import PROCESSES_MAX
from dbcheck.model.audited import Flag
from dbcheck.model.cluster import STAGGER_S_MAX, Promise, SiteKind, require_nodes
from dbcheck.model.cut import (
    Cut,
    CutClass,
    DriveCut,
    Gone,
    LabCut,
    PowerScope,
    Replaced,
    SwitchKind,
)
from dbcheck.model.depth import Completed, Reached
from dbcheck.model.flushes import UnderLoad
from dbcheck.model.host import ClientClocks, HostAfter, HostBefore
from dbcheck.model.moments import PlannedCut
from dbcheck.model.places import Place
from dbcheck.model.pods import Pod, PodsAfter
from dbcheck.model.replication import Promotion, ReplicationSeen
from dbcheck.model.server import LogPosition, Refill, ServerFacts, TableCheck
from dbcheck.model.unobserved import Observed
from dbcheck.model.verdict import ControlFacts
from dbcheck.model.watched import FactKind, Seen, Watched
from dbcheck.model.witness import Apart, Watermark, WindowFacts
from dbcheck.rows.copied import CopyPlan
from dbcheck.rows.differences import OtherNode, SecondReading
from dbcheck.rows.loss import ConditionCheck, IndexLoss
from dbcheck.rows.plans.plan import Plan
from dbcheck.rows.plans.registry import plan_of, tables_of
from dbcheck.rows.prepared import Decisions, LeftOver, Name
from dbcheck.rows.schedule import EPOCH_MAX, Schedule
from dbcheck.rows.table import TableFacts
from dbcheck.rows.workload import Workload

# One log of the client, one of each process, one of the readers.
LOGS_MAX = 1 + PROCESSES_MAX + 1


@dataclass(frozen=True, slots=True)
class NodeBefore:
    """Facts about one node of the site before the first commit of the load.

    target:        URL without a password.
    facts:         what its server reported.
    host:          what its host reported, None without --target-host.
    places:        the directories that an ack depends on.
    apart:         what showed that the witness is not on its host, None in a lab.
    power:         the kind of its switch.
    cut_class:     what the switch cuts, as far as that is known or declared.
    class_assumed: it was not declared: a person cuts, and AC is assumed.
    reached:       how deep the switch was seen to go on the idle host, if it was.
    restore_command: what a user types to restore the power that this run cuts; "" if
                   nothing can be typed, as where a human cuts.
    audit:         what the audit found that is not safe; None without an audit.
    scope:         whether the switch cuts the host, or its drives alone.
    member:        the name by which the writer of a cluster lists this node, "" if the
                   writer does not list it.
    connection:    what the writer shows of its connection to this node beside the name,
                   see model.replication.Follower; None if that was not compared.
    member_doubt:  what is assumed about member and connection, "" if nothing is.
    ahead_us:      by how much the server's clock is ahead of the client's, see
                   model.clocks; 0 if it is not known to differ.
    pod:           the pod of Kubernetes that has its server, None elsewhere.
    """

    target: str
    facts: ServerFacts
    power: SwitchKind
    host: HostBefore | None = None
    places: tuple[Place, ...] = ()
    apart: Apart | None = None
    cut_class: CutClass = CutClass.UNKNOWN
    class_assumed: bool = False
    reached: Reached | None = None
    restore_command: str = ""
    audit: tuple[Flag, ...] | None = None
    scope: PowerScope = PowerScope.HOST
    member: str = ""
    connection: str | None = None
    member_doubt: str = ""
    ahead_us: int = 0
    pod: Pod | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """Facts that were known before the first commit of the load.

    created:       UTC, ISO 8601.
    seed, epoch:   see rows.schedule; they decide every row.
    family:        "postgresql" or "mysql", see ports.engine.Engine.
    site:          see model.cluster.  nodes: name -> what was known of the node.
    writer_name:   the node that takes the load.
    witness, witness_kind: the witness's URL, and "ssh" or "file".
    window_acks:   most acks that may be unconfirmed at once.
    logs:          how many logs the witness holds of the run, numbered from 0.
    seen_log:      the last of these logs holds no acks, but what readers saw.
    own_clocks:    the sessions ran on other machines: each log of acks but log 0 has
                   the monotonic clock of its own machine, see model.witness.
    clock_us, wall_us: the client's monotonic and wall clocks at one moment.
    lab:           the lab's spec, if the rig is a lab; {} else.
    control:       this run is a control: its sessions were weakened.
    tables:        name of a table -> what it held.
    controls:      what the controls before this run showed, if there were any.
    moment:        when the cut is to come, if a campaign drew it.
    no_canary:     why no crash canary was planted on the writer, "" if one was.
    promise:       what the cluster promises to survive; None for a single server.
    stagger_s:     in how many seconds its nodes are cut, the writer first; 0: at once.
    user:          the account on the client that ran dbcheck, "" if it is not known.
    client_target: the URL, without a password, of the address that clients use; "" if
                   it was not named, and each node's own is tried after the cut.
    witness_ahead_us: by how much the witness's clock is ahead of the client's, see
                   model.clocks; 0 if it is not known to differ.
    fault:         a program of the user's was to begin a fault beside the load.
    copy:          the copy of the server that is restored elsewhere, and read there;
                   None where the server itself is read.
    """

    run_id: str
    created: str
    dbcheck: str
    seed: int
    epoch: int
    family: str
    site: SiteKind
    nodes: Mapping[str, NodeBefore]
    writer_name: str
    workload: Workload
    witness: str
    witness_kind: str
    window_acks: int
    clock_us: int
    wall_us: int
    tables: Mapping[str, TableFacts]
    lab: Mapping[str, Any] = field(default_factory=dict)
    control: bool = False
    controls: tuple[ControlFacts, ...] = ()
    moment: PlannedCut | None = None
    logs: int = 1
    no_canary: str = ""
    seen_log: bool = False
    own_clocks: bool = False
    promise: Promise | None = None
    stagger_s: float = 0.0
    user: str = ""
    witness_ahead_us: int = 0
    client_target: str = ""
    fault: bool = False
    copy: CopyPlan | None = None

    def __post_init__(self) -> None:
        """Refuse values that no run can have."""
        if not 1 <= self.ack_logs <= self.logs <= LOGS_MAX:
            raise ValueError(f"a run cannot have {self.logs} logs")
        if self.own_clocks and self.ack_logs < 2:
            raise ValueError("a run on other machines has a log for each of them")
        if self.stagger_s and not (self.promise is Promise.ALL and self.stagger_s > 0):
            raise ValueError("only the cut of all nodes of a cluster is staggered")
        if self.stagger_s > STAGGER_S_MAX:
            raise ValueError(f"no cuts are {self.stagger_s} s apart")
        if not 0 <= self.seed < 1 << 63 or not 1 <= self.epoch <= EPOCH_MAX:
            raise ValueError(f"no run has the seed {self.seed}, epoch {self.epoch}")
        if self.lab and self.lab.get("cut") not in [cut.value for cut in LabCut]:
            raise ValueError(f"a lab cannot cut {self.lab.get('cut')!r}")
        if {table.name for table in tables_of(self.workload)} != set(self.tables):
            raise ValueError(f"the tables {sorted(self.tables)} are not of that plan")
        require_nodes(self.site, self.nodes, self.writer_name)
        if (self.promise is None) != (self.site is SiteKind.SINGLE):
            raise ValueError("a cluster, and nothing else, has a promise")

    @property
    def ack_logs(self) -> int:
        """The number of logs that hold acks; these logs come first."""
        return self.logs - self.seen_log

    @property
    def processes(self) -> int:
        """The number of processes, or of Dask workers, that shared the sessions."""
        return max(1, self.ack_logs - 1)

    @property
    def writer(self) -> NodeBefore:
        """The node that takes the load."""
        return self.nodes[self.writer_name]

    @property
    def is_cut(self) -> bool:
        """True if the power is to be cut."""
        return self.copy is None or self.copy.is_after_loss

    @property
    def lab_cut(self) -> LabCut | None:
        """The target of the lab's cut; None on real hardware."""
        return LabCut(self.lab["cut"]) if self.lab else None

    def plan(self) -> Plan:
        """Return the plan: the run's operations, and how they are judged."""
        return plan_of(self.workload, self.schedule())

    def schedule(self) -> Schedule:
        """Return the schedule that decides the rows of the run."""
        sizes = self.workload.payload_bytes
        return Schedule(self.seed, self.epoch, sizes)


@dataclass(frozen=True, slots=True)
class NodeAtTheCut:
    """Observations of one node during the load; times as in LoadRecord.

    cut:         what its switch reported, None if it is not known to have cut.
    canaries:    how far the canaries beside the data directory came, None without any.
    canaries_elsewhere: how far the canaries of HostBefore.elsewhere came, in its order.
    heard_us:    when the canaries' last report came: the host had power until then.
    host_lived:  the host still answered when the load was over.  False also in a lab
                 and where no canaries ran; None if that is not known.
    drives:      what the drives of its host did during the load, None if not counted.
    host_watched: what its host showed during the load; None if it was not looked at.
    """

    cut: Cut | None
    canaries: Completed | None = None
    canaries_elsewhere: tuple[Completed | None, ...] = ()
    heard_us: int | None = None
    host_lived: bool | None = None
    drives: UnderLoad | None = None
    host_watched: Watched | None = None


@dataclass(frozen=True, slots=True)
class LoadRecord:
    """The client's record of one load; times in microseconds of its monotonic clock.

    sent, acked: session -> operations sent, acks received.
    gone_us:     when the sessions broke, or the silence began.
    in_flight:   sessions that waited for a reply when the server went; in lockstep or
                 under a rate also for their turn, within a second of an ack.
    watermarks:  what the witness had confirmed at the end of each log that holds acks,
                 by the log's number; None for a log of which it is not known.
    seen, seen_watermark: how many rows readers saw and handed over to their log, and
                 what the witness had confirmed of that log; 0, None without readers.
    windows:     the largest windows seen, by the log's number.
    refusals:    errors that the server answered instead of an ack.
    farewells:   the server's messages to the sessions that it ended itself.
    warned:      commits that the server answered with a warning instead of a plain ack:
                 they claim nothing.  warnings: the messages of these warnings.
    lost_early:  sessions that broke a second or more before the last ack of all and
                 were not replaced, or whose operation the server refused; 65535 is the
                 housekeeping session, which does the tasks.
    noted_us:    name of an event that the client noted at the witness -> when the
                 witness had confirmed it.
    task_at_end: the number of the task under way when the server went, 0 if none was.
    nodes:       name of a node -> what was seen of it.
    switched_us: when the switch reported that it had cut, None if it did not.
    due_us:      when the cut was to come; None if it was never to come.
    quiet_us:    from when until when no session had an operation in flight, each time
                 that the sessions were held for the cut; None if not known.
    no_checkpoint: why there was no checkpoint although the cut was to come during one.
    checkpoint_us: when a checkpoint was asked for, and when the server had answered
                 that it ended, None if it did not; None if none was asked for, or if
                 that is not known.
    cut_failed:  why a switch that was asked to cut did not report that it had (it
                 failed, or the client was interrupted), "" if it did: the power may
                 have gone all the same.
    settings:    the writer's settings just before the cut, None if not read.
    settings_us: when these settings were asked for, None if that is not known.
    log:         where the writer's log stood when the load began and just before the
                 cut; None if either is not known.
    replication: what the writer of a cluster showed of its standbys, None if nothing.
    watched:     what the writer showed during the load; None if it was not looked at.
    sessions_watched: what the load's own sessions showed of their settings as they
                 committed; None if that is not known.
    replaced:    sessions that broke and that others replaced while the load ran; None
                 if that is not known.
    observed:    what the sessions of each log observed of its acks, and when they
                 observed nothing, by the log's number; None if that is not known.
    clocks:      the client's clocks when the load began and when it was over; None if
                 they are not known.
    canary_held: the session that holds the crash canary, if it needs one, was open
                 just before the cut; before one by hand, as far as is known.
    """

    sent: Mapping[int, int]
    acked: Mapping[int, int]
    began_us: int
    last_ack_us: int | None
    gone: Gone
    gone_us: int | None
    in_flight: int
    rate: float
    latency_ms: Mapping[str, float]
    watermarks: tuple[Watermark | None, ...]
    windows: tuple[WindowFacts, ...]
    refusals: tuple[str, ...]
    farewells: tuple[str, ...]
    nodes: Mapping[str, NodeAtTheCut]
    settings: Mapping[str, str] | None = None
    settings_us: int | None = None
    log: tuple[LogPosition, LogPosition] | None = None
    canary_held: bool = True
    switched_us: int | None = None
    due_us: int | None = None
    quiet_us: tuple[tuple[int, int], ...] | None = None
    no_checkpoint: str = ""
    checkpoint_us: tuple[int, int | None] | None = None
    cut_failed: str = ""
    seen: int = 0
    seen_watermark: Watermark | None = None
    lost_early: tuple[int, ...] = ()
    task_at_end: int = 0
    noted_us: Mapping[str, int] = field(default_factory=dict)
    warned: int = 0
    warnings: tuple[str, ...] = ()
    replication: ReplicationSeen | None = None
    watched: Watched | None = None
    observed: tuple[Observed, ...] | None = None
    sessions_watched: Watched | None = None
    replaced: Replaced | None = None
    clocks: tuple[ClientClocks, ClientClocks] | None = None

    def settings_seen(self, until_us: int | None) -> list[tuple[str, str]]:
        """Return (setting, value) for each setting that was once unlike before.

        A setting that could not be seen is left out.  until_us: see seen_of().
        """
        changes = [
            change
            for watched in (self.watched, self.sessions_watched)
            if watched is not None
            for change in self.seen_of(watched, until_us, FactKind.SETTING)
        ]
        return [(change.of, change.value) for change in changes if change.value]

    def seen_of(
        self, watched: Watched, until_us: int | None, *kinds: FactKind
    ) -> list[Seen]:
        """Return the changes in *watched* of the server that took the load.

        until_us: when the cut came; it may be the moment of the last look.  If the
        moment is not known (None), only looks over a connection from before the last
        ack count: a later connection may be to a server that had started again.
        """
        if until_us is None:
            until_us = watched.lived_us(self.last_ack_us or self.began_us)
        if until_us is None:
            return []
        return [change for change in watched.of(*kinds) if change.first_us <= until_us]

    @property
    def sent_us(self) -> int | None:
        """The time at which the newest acked operation was sent, None if not known.

        The operation's commit may have been flushed at once: its reply may wait, for a
        standby or in a proxy, for longer than a drive needs to write.
        """
        known_us = (observed.sent_us for observed in self.observed or ())
        return max((at_us for at_us in known_us if at_us is not None), default=None)

    @property
    def may_be_cut(self) -> bool:
        """True if the power was cut, or may have been."""
        was_cut = any(node.cut for node in self.nodes.values())
        return was_cut or bool(self.cut_failed) or self.gone is not Gone.NEVER


@dataclass(frozen=True, slots=True)
class CutAsked:
    """Note that the power is about to be cut, stored before the switch is asked.

    asked_us: on the client's monotonic clock, microseconds.
    Only a LoadRecord shows whether the power went; without one it may have gone.
    """

    asked_us: int


@dataclass(frozen=True, slots=True)
class RestoreRecord:
    """Record that the power was restored.

    off_s: name of a node -> its seconds without power, 0 or more, None if not measured.
    drives: name of a node whose drives alone lost their power -> what its host showed
           of the cut.
    """

    off_s: Mapping[str, float | None]
    drives: Mapping[str, DriveCut] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a time that no clock can have measured."""
        for off_s in self.off_s.values():
            if off_s is not None and not 0 <= off_s < math.inf:
                raise ValueError(f"no power is off for {off_s} s")


@dataclass(frozen=True, slots=True)
class StoredRows:
    """One file of survivors: how many rows it holds, and its SHA-256."""

    rows: int
    sha256: str


@dataclass(frozen=True, slots=True)
class PreparedRecord:
    """Facts that were read before dbcheck decided the first prepared transaction.

    names:  the transactions that the server listed as prepared.
    log_bytes: how long each of the witness's logs was when these facts were read.
    reader_name, survivors, sides_lost, decisions, canary, refill, deleted: as in
            AfterRecord.
    """

    names: tuple[Name, ...]
    reader_name: str
    survivors: Mapping[str, StoredRows]
    log_bytes: tuple[int, ...]
    sides_lost: Mapping[str, str] = field(default_factory=dict)
    decisions: Decisions | None = None
    canary: bool | None = None
    refill: Refill | None = None
    deleted: int | None = None

    def __post_init__(self) -> None:
        """Refuse a record without a transaction to decide."""
        if not self.names:
            raise ValueError("it names no prepared transaction")


@dataclass(frozen=True, slots=True)
class NodeAfter:
    """Findings about one node after the power came back.

    facts: the facts of the node's server, None if it did not come back.
    host:  what the node's host reported, None without --target-host.
    pods:  the pods of the database; None if Kubernetes was not asked.
    """

    facts: ServerFacts | None
    host: HostAfter | None = None
    pods: PodsAfter | None = None


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The markers on a node that was brought back after the rows were read.

    rows:   the file that holds the markers; None if they could not be read.
    failure: why the markers could not be read, "" if they could.
    """

    rows: StoredRows | None = None
    failure: str = ""


@dataclass(frozen=True, slots=True)
class AfterRecord:
    """Findings after the power came back.

    nodes:  name of a node -> what was found of it.
    reader_name: the node whose rows were read.  All other fields are about this node.
    failure: why the node, or its table, certainly did not come back; "" if it did.
    survivors: table -> the rows that were read of it.
    canary: whether the row that recovery from a crash removes was still there, None
            if there was no such row or it could not be read.
    missing: the server answers and has no such table.
    log:    what the server logged since the preflight, read over SQL; None if the log
            cannot be read over SQL.
    index:  why the table's index, read after the table, disagrees with the table; None
            if it agrees.
    unanswered: why the server took no queries in its time, if its data may not be to
            blame; "" if it took queries, or if its data are to blame.  With a reason
            nothing is final: the run can be reconciled once the server is back.
    tables: name of a table -> what was read of it, with the table's identity after the
            reading; {} if the tables were not read to their end.
    failed_before: the failure that was on record when the server took queries after
            all, "" if there was none.
    answered: the client's clocks when the server was first seen to take queries again;
            None if it did not, or if that is not known.
    check:  what the server's own check of the tables showed, after all other readings;
            None without such a check.
    left_over: the run's transactions that the server listed as prepared before the
            rows were read, and what became of each after the reading.
    sides_lost: side table that the server names and cannot open -> its error.
    conditions: which of the plan's conditions do not hold, None if the plan has none or
            the rows could not be read.
    again:  the second reading after a clean restart, None if none was asked for, or
            if there was no first reading.
    promotion: how another node took over from the writer, None if the writer is read.
    elsewhere: name of each other node that was read after this record was stored ->
            what was found there.
    others: name of each other node that was to have the same rows -> how its rows
            compare.
    places: the directories that an ack depends on, as the server that was read named
            them after the reading; None if it did not name them.
    deleted: how many rows of the plan's first table, of which no operation deletes
            any, the server counted as deleted from its start to the end of the
            reading; None if that is not known, or if another node than the writer
            was read.  The most that any reading of this run was shown.
    decisions: how many prepared transactions anybody decided since the server
            started; None if the plan prepares none, the server counts none, or another
            node than the writer was read.  The most that any reading of this run was
            shown.
    engines: table -> its storage engine, if it differs from the engine that the load
            was written to; {} if none is known to differ.  If one does, no row is read.
    refill: what a server that was tested alone may have taken from others before its
            rows were read, by any reading of this run; None if nothing showed any, or
            if it was not alone.
    """

    nodes: Mapping[str, NodeAfter]
    reader_name: str
    failure: str
    survivors: Mapping[str, StoredRows]
    canary: bool | None
    missing: bool = False
    log: str | None = None
    index: IndexLoss | None = None
    unanswered: str = ""
    tables: Mapping[str, TableFacts] = field(default_factory=dict)
    failed_before: str = ""
    answered: ClientClocks | None = None
    check: TableCheck | None = None
    left_over: tuple[LeftOver, ...] = ()
    sides_lost: Mapping[str, str] = field(default_factory=dict)
    conditions: ConditionCheck | None = None
    again: SecondReading | None = None
    promotion: Promotion | None = None
    elsewhere: Mapping[str, Elsewhere] = field(default_factory=dict)
    others: Mapping[str, OtherNode] = field(default_factory=dict)
    places: tuple[Place, ...] | None = None
    deleted: int | None = None
    engines: Mapping[str, str] = field(default_factory=dict)
    decisions: Decisions | None = None
    refill: Refill | None = None

    def __post_init__(self) -> None:
        """Refuse a record that lacks the node that was read."""
        if self.reader_name not in self.nodes:
            raise ValueError(f"nothing was found of the node {self.reader_name!r}")

    @property
    def facts(self) -> ServerFacts | None:
        """The facts of the server whose rows were read, None if it is not back."""
        return self.nodes[self.reader_name].facts

    def stored_rows(self, table: str) -> StoredRows:
        """Return the stored rows of *table*; no rows if the table was not read."""
        return self.survivors.get(table, StoredRows(0, ""))
