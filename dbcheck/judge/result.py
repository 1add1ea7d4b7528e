"""The result of a run, as reports show it; its JSON is what --json prints.

docs/schema/run.json is the JSON Schema of RunResult.  RunDetail is what a page
draws beside it: charts, a map, what was configured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from dbcheck.judge.diagnosis import Explanation
from dbcheck.judge.item import ItemId, Status
from dbcheck.model.audited import Flag
from dbcheck.model.clocks import describe_clocks
from dbcheck.model.cluster import Promise, SiteKind
from dbcheck.model.cut import CutClass, PowerScope
from dbcheck.model.depth import Depth
from dbcheck.model.outage import OutageResult
from dbcheck.model.records import AfterRecord, LoadRecord, Manifest
from dbcheck.model.replication import PromotedBy
from dbcheck.model.verdict import Statistics, Verdict
from dbcheck.rows.copied import CopyRecord
from dbcheck.rows.differences import OtherNode, RowsLeftOnNode
from dbcheck.rows.keymap import KeyMap
from dbcheck.rows.loss import LossKind
from dbcheck.rows.lossshape import LossShape
from dbcheck.rows.tasks import TaskKind
from dbcheck.rows.timeline import Timeline


@dataclass(frozen=True, slots=True)
class DrivePoint:
    """Work of one drive between two samples.

    before_end_s: when the later one was taken, in seconds before the timeline's end.
    flushes_per_s: None where the kernel does not count them.
    """

    before_end_s: float
    writes_per_s: float
    flushes_per_s: float | None


@dataclass(frozen=True, slots=True)
class DriveSeries:
    """One drive of one node during the load."""

    node: str
    drive: str
    points: tuple[DrivePoint, ...]


@dataclass(frozen=True, slots=True)
class RunDetail:
    """Charts beside a RunResult.

    timeline, keys: None where the witness's log proves nothing, or is not here; keys
                    also where no rows were compared.
    compared: the rows were compared with the acks; else what survived is not known.
    drives: () if none were counted.
    copy:   of the copy that was taken beside the load; None if none was.
    missing: why something is not drawn that a run can have, "" if all is.
    """

    manifest: Manifest
    after: AfterRecord
    timeline: Timeline | None
    keys: KeyMap | None
    compared: bool
    drives: tuple[DriveSeries, ...]
    missing: str
    copy: CopyRecord | None = None


def to_values(result: object) -> Any:
    """Return a result as plain values, the form that --json prints."""
    return msgspec.to_builtins(result, str_keys=True)


@dataclass(frozen=True, slots=True)
class CheckedDrive:
    """A drive below the server, as its host names it; "" where that is not known."""

    name: str
    model: str
    serial: str
    firmware: str


@dataclass(frozen=True, slots=True)
class Checked:
    """When and by whom which host and drives were checked; "" where it is not known.

    begun:  when the cycle began, UTC, ISO 8601.
    host:   the name that the host of the server reported.
    drives: what the server's directories lie on; empty if the host was not asked.
    user:   the account on the client that ran dbcheck.
    clocks: which clocks differ from the client's, by which *begun* is given.
    pod:    the pod of the server, its node, and what its claims are bound to.
    """

    begun: str = ""
    host: str = ""
    drives: tuple[CheckedDrive, ...] = ()
    user: str = ""
    clocks: str = ""
    pod: str = ""


def describe_checked(manifest: Manifest) -> Checked:
    """Return what a run checked; of a cluster, of the node that took the load."""
    before = manifest.writer.host
    found = {
        drive.name: CheckedDrive(drive.name, drive.model, drive.serial, drive.firmware)
        for volume in (before.facts.volumes if before else ())
        for drive in volume.drives
    }
    return Checked(
        begun=manifest.created,
        host=before.facts.hostname if before else "",
        drives=tuple(found.values()),
        user=manifest.user,
        clocks=describe_clocks(manifest),
        pod=manifest.writer.pod.described if manifest.writer.pod else "",
    )


@dataclass(frozen=True, slots=True)
class WitnessResult:
    """Location of the acks' log; kind: "ssh" or "file"."""

    url: str
    kind: str


@dataclass(frozen=True, slots=True)
class DepthResult:
    """Depth of a cut and the reason; None if the canaries do not show it."""

    depth: Depth | None
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EvidenceResult:
    """One item of evidence; required: a PASS needs it present."""

    item: ItemId
    status: Status
    reason: str
    required: bool


@dataclass(frozen=True, slots=True)
class RangeResult:
    """Losses of one kind in one table, whose ids follow one another.

    first_acked_before_cut_s, last_...: seconds; None if the moment is not known.  Of a
    copy, before the moment when it was begun; less than 0 after that.
    """

    kind: LossKind
    table: str
    first_id: int
    last_id: int
    rows: int
    first_acked_before_cut_s: float | None
    last_acked_before_cut_s: float | None


@dataclass(frozen=True, slots=True)
class SeenRow:
    """A row that a reader saw, that no confirmed ack names, and that is gone.

    seen_before_cut_s: seconds; None if the moment is not known.
    """

    id: int
    session: int
    seq: int
    seen_before_cut_s: float | None


@dataclass(frozen=True, slots=True)
class SeenResult:
    """Fate of the rows that readers saw; beside the verdict.

    rows: how many were seen, and confirmed by the witness.
    lost: how many of them are gone, without a confirmed ack: no promise is broken.
    first: those with the lowest ids, in that order; left_out: how many more there are.
    """

    rows: int
    lost: int
    first: tuple[SeenRow, ...]
    left_out: int


@dataclass(frozen=True, slots=True)
class LeftOnHost:
    """Canaries that still lie on the target's host, and what removes them."""

    host: str
    command: str


@dataclass(frozen=True, slots=True)
class HousekeepingResult:
    """The tasks that went on beside the load.

    done:   task -> how many were acked.
    at_cut: the one that was under way at the cut, null if none was.
    ended_early: the session that did them ended while the load went on.
    """

    done: Mapping[str, int]
    at_cut: TaskKind | None
    ended_early: bool


@dataclass(frozen=True, slots=True)
class MemberResult:
    """One node of a cluster.

    settings: those that the promise rests on, as they were before the load.
    awaited:  the writer listed it among the nodes that commits wait for, up to the cut;
              null of the writer itself, and if that is not known.
    cut:      its switch reported that it had cut; null if that is not known.
    compared: how its rows compare with those of the node that was read; null if they
              were not compared.
    """

    settings: Mapping[str, str]
    awaited: bool | None
    cut: bool | None
    compared: OtherNode | None


@dataclass(frozen=True, slots=True)
class ClusterResult:
    """A cluster, and what became of it.

    writer: the node that took the load.  standbys: the others.  read: the node whose
            rows were read.
    promise: what the commits were to survive.
    stagger_s: in how many seconds the nodes were cut, the writer first; 0: at once.
    promoted_by: null if no other node took over.
    left:   by the name of each other node that was read afterwards, by itself: what is
            there that the node which took over lacks.
    left_failed: by the same names, why one could not be read.
    rejoined: by the name of each node that followed the new writer afterwards: how its
            rows compare.
    topology: null in a result that was stored without it.
    members: each node by its name; {} in a result that was stored without it.
    returned: the writer got its power back beside the node that took over, before the
            rows were read.
    """

    writer: str
    standbys: tuple[str, ...]
    read: str
    promise: Promise
    stagger_s: float
    promoted_by: PromotedBy | None
    left: Mapping[str, RowsLeftOnNode]
    left_failed: Mapping[str, str]
    rejoined: Mapping[str, OtherNode]
    topology: SiteKind | None = None
    members: Mapping[str, MemberResult] = field(default_factory=dict)
    returned: bool = False

    @property
    def is_other_read(self) -> bool:
        """True if another node than the writer is read."""
        return self.read != self.writer


@dataclass(frozen=True, slots=True)
class CopyResult:
    """A copy of the server, and what its restore brought back.

    target:   the URL of the server on the copy.
    taken_s:  seconds that the program which takes it took; null if it failed, and where
              the server was lost, and what was shipped by then is restored.
    restore_s: seconds that its restore took; null if it failed.
    due:      commits that the copy must have.  due_kept: those of them that it has.
    by_order: those of *due* that were acknowledged while it was taken, and before a
              commit was sent that is there.
    open, open_kept: commits that it may have or lack, and those that it has.
    after, after_kept: commits that were sent after it was taken, and those that are
              there all the same.  All these are null if no rows were compared.
    rpo_s:    the recovery point objective, in seconds; null without a loss of the
              server.
    point_kind, point: the point to which the archive of the server's log was restored:
              "lsn", "restore-point" or "gtid", and its value.  null for a copy.
    read_s:   seconds that reading the point took.  Where there is a point, *taken_s* is
              null, and "while it was taken" means while the point was read.
    missing:  commits that are missing or damaged, whether they must be there or not.
    reached_s: seconds before the loss at which the oldest missing commit was
              acknowledged, at least and at most; both 0 if none is missing.  null if
              that is not known.
    """

    target: str
    taken_s: float | None
    restore_s: float | None
    due: int | None
    due_kept: int | None
    by_order: int | None
    open: int | None
    open_kept: int | None
    after: int | None
    after_kept: int | None
    rpo_s: float | None = None
    missing: int | None = None
    reached_s: tuple[float, float] | None = None
    point_kind: str | None = None
    point: str | None = None
    read_s: float | None = None


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of one run.

    stored:     whether the judgement could be written to *folder*.
    reasons:    sentences, the most important first.
    final:      false if the run is to be reconciled again once the server is back.
    server:     product and version, for a person.
    family:     see model.family; "" in a result that was stored without it.
    class_assumed: nothing declared what was cut.
    witness_alone_why: why the verdict rests on the witness alone.
    load:       what the client saw of it, null if it was lost before it stored that.
    depth:      null if it was not measured.
    page_cache_kept: the cut is known to have destroyed the server's memory alone.
    statistics: what this one cut proves, null of a control.  A loss without a cut
                counts as no cut.
    confirmed, kept, recovered, unconfirmed, foreign, earlier, earlier_altered: see
                rows.reconcile.Reconciliation; null if no rows were compared.
    losses, earlier_losses: kind of loss -> rows, of this cycle and of earlier ones.
    ranges:     the losses; ranges_left_out: how many more there are.
    shape:      of the losses, null if there are none in the tables.
    diagnosis:  what can have caused the losses, what explains most of them first; []
                if the run is no FAIL, or nothing is known to look like that.
    settings_at_fault, layers_at_fault, other_settings: sentences.
    lab:        the lab's spec, {} on real hardware.
    image:      where the lab's drive is kept as the cut left it, "" if it is not.
    housekeeping: null if the workload has none, or the client was lost.
    controls:   the controls that the same command ran before it.
    seen:       null without readers, if no rows were compared, or if the client's
                record of the load is lost.
    audit:      what the audit before the cut found that is not safe, null if it could
                not be made.
    cluster:    null of a single server.
    uncut:      no cut of the server's power was asked for, whatever ended the load.
    recovery_s: seconds from the return of the power until the server took queries, or
                from a cut after which it returned at once; null if not measured.
    outage:     the time to recover; null of a control, and in a result that was stored
                without it.
    processes:  of the client, or Dask workers, that shared the sessions.
    cores:      the client's, by which the number of processes was chosen; null if it
                was given, and in a lab.
    copy:       null where the power was cut.
    """

    run: str
    control: bool
    folder: str
    stored: bool
    verdict: Verdict
    reasons: tuple[str, ...]
    final: bool
    target: str
    server: str
    workload: str
    sessions: int
    seed: int
    power: str
    cut_class: CutClass
    class_assumed: bool
    witness: WitnessResult
    witness_alone: bool
    witness_alone_why: str
    load: LoadRecord | None
    depth: DepthResult | None
    page_cache_kept: bool
    statistics: Statistics | None
    confirmed: int | None
    kept: int | None
    recovered: int | None
    unconfirmed: int | None
    foreign: int | None
    earlier: int | None
    earlier_altered: int | None
    earlier_lost: Mapping[int, int] | None
    losses: Mapping[str, int] | None
    earlier_losses: Mapping[str, int] | None
    ranges: tuple[RangeResult, ...]
    ranges_left_out: int
    shape: LossShape | None
    diagnosis: tuple[Explanation, ...]
    evidence: tuple[EvidenceResult, ...]
    settings_at_fault: tuple[str, ...]
    layers_at_fault: tuple[str, ...]
    other_settings: tuple[str, ...]
    left_on_host: LeftOnHost | None
    lab: Mapping[str, Any]
    image: str
    housekeeping: HousekeepingResult | None = None
    controls: tuple[RunResult, ...] = ()
    seen: SeenResult | None = None
    audit: tuple[Flag, ...] | None = None
    power_scope: PowerScope = PowerScope.HOST
    cluster: ClusterResult | None = None
    uncut: bool = False
    family: str = ""
    checked: Checked = Checked()
    recovery_s: float | None = None
    outage: OutageResult | None = None
    processes: int = 1
    cores: int | None = None
    copy: CopyResult | None = None

    @property
    def kind(self) -> str:
        """What was made: a "run" with a cut, a "control", "snapshot" or "restore"."""
        if self.copy is not None:
            return "snapshot" if self.copy.rpo_s is None else "restore"
        return "control" if self.control else "run"

    @property
    def is_cut(self) -> bool:
        """True if the power was to be cut."""
        return self.copy is None or self.copy.rpo_s is not None

    @property
    def lost_without_cut(self) -> bool:
        """True if it is a FAIL that says nothing about how often cuts lose."""
        return self.uncut and self.verdict is Verdict.FAIL

    @property
    def lost_in_cut(self) -> bool:
        """True if it is a FAIL of a cut."""
        return self.verdict is Verdict.FAIL and not self.uncut

    @property
    def counts(self) -> bool:
        """True if its cut is evidence, for the server or against it."""
        return self.verdict is Verdict.PASS or self.lost_in_cut

    @property
    def shown_depth(self) -> Depth | None:
        """The depth that the cut was seen to reach, None if it is not known."""
        return self.depth.depth if self.depth else None

    @property
    def rows_lost(self) -> tuple[int, int] | None:
        """The number of lost rows of this cycle and of earlier ones.

        None if they were not compared.
        """
        if self.losses is None:
            return None
        return sum(self.losses.values()), sum((self.earlier_losses or {}).values())
