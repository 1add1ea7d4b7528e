"""Everything that a judgement is based on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from dbcheck.audit import platform, rules, storage
from dbcheck.audit.rules import Finding
from dbcheck.judge.volumes import (
    VolumeDepth,
    find_least_depth,
    find_shallowest,
    find_volume_depths,
    list_changes_of_storage,
    was_page_cache_kept,
)
from dbcheck.model.audited import RuleStatus
from dbcheck.model.cut import Cut, CutClass, DriveCut, FaultRecord, LabCut, PowerScope
from dbcheck.model.depth import Depth, DepthFinding
from dbcheck.model.host import HostAfter, HostBefore, Volume
from dbcheck.model.managed import SERVICE
from dbcheck.model.outage import OutageRecord
from dbcheck.model.places import LOGS, list_moved_places
from dbcheck.model.records import (
    AfterRecord,
    CutAsked,
    LoadRecord,
    Manifest,
    NodeAtTheCut,
    NodeBefore,
    RestoreRecord,
)
from dbcheck.model.replication import CutWhilePromoted
from dbcheck.model.watched import FactKind, Seen
from dbcheck.model.witness import LogFacts
from dbcheck.rows.copied import Copied, CopyRecord
from dbcheck.rows.differences import RowsLeftOnNode
from dbcheck.rows.lossshape import LossShape
from dbcheck.rows.reconcile import Reconciliation
from dbcheck.rows.seen import SeenRows

_NO_FLUSH_TIMES: Mapping[str, int] = {}


def find_unsafe_settings(
    manifest: Manifest, load: LoadRecord | None, tested_name: str, went_us: int | None
) -> list[Finding]:
    """Return the findings on the settings of a run, including its storage's.

    A setting that could not be read is included, as unknown.
    A setting counts as it was in the preflight, or as it was during the load or just
    before the cut if it was worse then.  Of a control only the preflight counts, since
    a control itself makes settings worse.
    went_us: when the cut came, None if the time is not known.
    tested_name: the node whose cut is judged.  If a standby was cut and read, its own
    settings count beside the settings of the writer, which answered the commits.
    """
    tested = manifest.nodes[tested_name]
    of_mounts = _list_mount_settings(manifest, load, tested_name)
    settings = {**manifest.writer.facts.settings, **of_mounts}
    found = find_flagged_settings(manifest, settings)
    if tested is not manifest.writer:
        of_standby = find_flagged_settings(
            manifest, {**tested.facts.settings, **of_mounts}
        )
        found = _add_findings_that_became_unsafe(found, of_standby)
    if load is not None and not manifest.control:
        for setting, value in load.settings_seen(went_us):
            found = _add_findings_that_became_unsafe(
                found, find_flagged_settings(manifest, {**settings, setting: value})
            )
        if load.settings:
            found = _add_findings_that_became_unsafe(
                found, find_flagged_settings(manifest, load.settings)
            )
    return found


def find_flagged_settings(
    manifest: Manifest, settings: Mapping[str, str]
) -> list[Finding]:
    """Return the findings on settings; for a group, leave out findings about peers."""
    found = rules.find_flagged_settings(manifest.family, settings)
    grouped = manifest.site.is_group
    return [finding for finding in found if not (grouped and finding.harm.peers)]


def _add_findings_that_became_unsafe(
    before: Sequence[Finding], later: Sequence[Finding]
) -> list[Finding]:
    """Return *before*, with each finding replaced that became unsafe in *later*."""

    def unsafe(findings: Sequence[Finding]) -> dict[str, Finding]:
        found = (f for f in findings if f.status is RuleStatus.UNSAFE)
        return {finding.rule.fact: finding for finding in found}

    became = {**unsafe(later), **unsafe(before)}
    others = (finding for finding in before if finding.rule.fact not in became)
    return [*became.values(), *others]


def _list_mount_settings(
    manifest: Manifest, load: LoadRecord | None, name: str
) -> Mapping[str, str]:
    """List the settings that the mounts and the server's process imply.

    Options that a mount had only for a time are included.
    """
    host = manifest.nodes[name].host
    if host is not None:
        options = [volume.mount_options for volume in host.facts.volumes]
        if load is not None:
            changes = list_changes_of_storage(manifest, load, name, FactKind.MOUNT)
            options += [change.value for change in changes]
        process = host.facts.process
        return {
            **storage.parse_mount_settings(options),
            **(platform.list_facts_of_process(process) if process else {}),
        }
    return storage.parse_mount_settings([str(manifest.lab.get("mount_options", ""))])


def find_flush_times(
    manifest: Manifest, name: str, load: LoadRecord | None
) -> Mapping[str, int]:
    """Return a moment after which a drive of the writer was flushed, by drive name.

    name: the node that was cut; nothing is known of a node other than the writer.
    The moment is when the newest answered commit was sent, in microseconds of the
    client's monotonic clock.  The commit is taken to have flushed each drive that got
    at least one flush for each commit.  Other writers may have sent the flushes, so
    nothing is claimed where commits may need no flush: under settings that relax
    commits, as in a control, on storage that changed during the load, or with FUA.

    An honest drive that loses power keeps what it completed before its last flush
    began.  If older writes are gone, with all that came after them, more than the
    drive's cache was lost: the drive ignored the flush, or the storage came back in an
    older state.
    """
    before, at_the_cut = (
        manifest.nodes[name].host,
        load.nodes.get(name) if load else None,
    )
    if load is None or name != manifest.writer_name or not (before and at_the_cut):
        return _NO_FLUSH_TIMES
    under_load, sent_us = at_the_cut.drives, load.sent_us
    if under_load is None or sent_us is None:
        return _NO_FLUSH_TIMES
    if _may_answer_before_flush(manifest, load, name) or list_changes_of_storage(
        manifest, load, name
    ):
        return _NO_FLUSH_TIMES
    volatile_drives = set(_list_volatile_log_drives(before.facts.volumes))
    return {
        drive: sent_us
        for drive, counts in under_load.drives.items()
        if drive in volatile_drives and 0 < under_load.acked <= (counts.flushes or 0)
    }


def _may_answer_before_flush(manifest: Manifest, load: LoadRecord, name: str) -> bool:
    """Return True if commits may have been answered before they were flushed.

    A setting that could not be read may allow it.
    """
    found = find_unsafe_settings(manifest, load, name, None)
    relaxes = any(finding.harm.depth and not finding.harm.tears for finding in found)
    return manifest.control or relaxes


def _list_volatile_log_drives(volumes: tuple[Volume, ...]) -> Iterator[str]:
    """Yield the drives below the logs, except volumes that may write with FUA.

    A write with FUA needs no flush, and flushes nothing else.
    """
    for volume in volumes:
        fua = any(layer.fua == "1" for layer in volume.layers)
        if not fua and not volume.places.keys().isdisjoint(LOGS):
            yield from volume.file_drives


@dataclass(frozen=True)
class Case:
    """The records of one cycle, and what was computed from its log and its rows.

    load:    None if the client was lost before it could store one.
    restore: None if the power is not known to be back.
    logs:    what each log of the witness holds; () if they are not known.
    damage:  what is wrong with the witness's log, so that it proves nothing; a sentence
             without its full stop, "" if the log is whole.
    clock_set: why times of different machines cannot be compared, "" if they can.
    found:   the fate of the acks and rows; None if no rows are compared.
    cut_asked: what was stored just before the cut was asked for, None if nothing was.
    outage:  what probes were answered after the cut; None if that was not stored.
    fault:   of the user's programs, beside the load; None if there was to be none.
    copy:    of a copy that was taken beside the load; None if none was begun.
    copied:  how the commits of the load stand in that copy; None where *found* is, and
             where no copy was taken.
    shape:   the shape of the losses; None if nothing was lost, or no rows are compared.
    left:    name of each other node that was read -> its RowsLeftOnNode.
    seen:    the fate of the rows that readers saw; None without readers, if no rows
             are compared, or if what the sessions sent is not known.
    """

    manifest: Manifest
    load: LoadRecord | None
    restore: RestoreRecord | None
    after: AfterRecord
    logs: tuple[LogFacts, ...] = ()
    damage: str = ""
    clock_set: str = ""
    found: Reconciliation | None = None
    shape: LossShape | None = None
    seen: SeenRows | None = None
    left: Mapping[str, RowsLeftOnNode] = field(default_factory=dict)
    cut_asked: CutAsked | None = None
    outage: OutageRecord | None = None
    fault: FaultRecord | None = None
    copy: CopyRecord | None = None
    copied: Copied | None = None

    @property
    def writer(self) -> NodeBefore:
        """The node that took the load."""
        return self.manifest.writer

    @property
    def lost(self) -> str:
        """A clause on when the client was lost, for a case without a load record."""
        if self.cut_asked is not None:
            return "the client was lost once the cut had been asked for"
        if any(log.cut_announced for log in self.logs):
            return (
                "the client was lost about when it asked for the cut, as the witness"
                " holds, and the cut may have come"
            )
        return "the client was lost before the cut"

    @property
    def none_there(self) -> bool:
        """True if no row of this run was read, not even a row from before the load.

        A copy of the data from before the run has no row of it.
        """
        return self.found is None or self.found.all_gone

    @property
    def promoted(self) -> bool:
        """True if another node was read than the one that took the load."""
        return self.after.reader_name != self.manifest.writer_name

    @property
    def tested_name(self) -> str:
        """The name of the node whose cut is judged.

        It is the node that was read if all nodes were cut, and otherwise the writer.
        """
        promise = self.manifest.promise
        cut_too = promise is not None and promise.cuts_all
        return self.after.reader_name if cut_too else self.manifest.writer_name

    @property
    def tested(self) -> NodeBefore:
        """The tested node, as it was before the load."""
        return self.manifest.nodes[self.tested_name]

    @property
    def reader_kept_power(self) -> bool:
        """True if the node that was read kept its power.

        What the tested node's host and drives show of the cut then says nothing about
        the rows that were read.
        """
        return self.promoted and self.tested_name != self.after.reader_name

    @property
    def cut_while_promoted(self) -> CutWhilePromoted | None:
        """The cut of the node that was read, while it took over; None without one."""
        promotion = self.after.promotion if self.promoted else None
        cut = promotion.cut if promotion else None
        return cut if cut is not None and cut.node == self.after.reader_name else None

    @property
    def lost_while_promoted(self) -> CutWhilePromoted | None:
        """The cut of a node that was to take over and stayed off; None without one.

        Another standby was read.
        """
        promotion = self.after.promotion if self.promoted else None
        cut = promotion.cut if promotion else None
        return cut if cut is not None and cut.off is not None else None

    @property
    def whole_group(self) -> bool:
        """True if all nodes of a group were to lose their power.

        Each node gives the others what they lost, so the rows that are read survived no
        deeper a cut than the shallowest cut of any node.
        """
        promise = self.manifest.promise
        cut_all = promise is not None and promise.cuts_all
        return cut_all and self.manifest.site.is_group

    def as_tested(self, name: str) -> Case:
        """Return the case whose tested node is *name*, as if that node had been read.

        The places of the tables, the log over SQL and the crash canary are known only
        for the node that was read, so another node has none of them.
        """
        if name == self.after.reader_name:
            return self
        after = replace(
            self.after, reader_name=name, places=None, log=None, canary=None
        )
        return replace(self, after=after)

    @property
    def cut_names(self) -> tuple[str, ...]:
        """The nodes whose cuts are judged: all of a whole group, or the tested node."""
        names = tuple(self.manifest.nodes)
        return names if self.whole_group else (self.tested_name,)

    @property
    def cut_class(self) -> CutClass:
        """The class of the cut; for a managed service always FAILOVER."""
        if SERVICE in self.writer.facts.settings:
            return CutClass.FAILOVER
        classes = {self.manifest.nodes[name].cut_class for name in self.cut_names}
        return classes.pop() if len(classes) == 1 else CutClass.UNKNOWN

    @cached_property
    def at_the_cut(self) -> NodeAtTheCut:
        """The observations of the tested node; empty ones if none are known."""
        seen = self.load.nodes if self.load else {}
        return seen.get(self.tested_name, NodeAtTheCut(cut=None))

    @property
    def cut(self) -> Cut | None:
        """The report of the tested node's switch, None if no cut of it is known."""
        return self.at_the_cut.cut

    @property
    def uncut(self) -> bool:
        """True if no cut of the server's power was asked for.

        False if the client's record of the load is lost, which may have shown a cut,
        and if a switch was asked that may have cut without a report.
        """
        load = self.load
        return load is not None and self.cut is None and not load.cut_failed

    @property
    def drive_only(self) -> bool:
        """True if the drives alone were to lose their power, and the host to go on."""
        return self.tested.scope is PowerScope.DRIVE

    @property
    def drive_cut(self) -> DriveCut | None:
        """The host's record of a cut of its drives alone, None if there is none."""
        restored = self.restore.drives if self.restore else {}
        return restored.get(self.tested_name)

    @property
    def drives_gone_us(self) -> int | None:
        """When the tested node's host saw its drives gone, or None; see DriveCut."""
        return self.drive_cut.gone_us if self.drive_cut else None

    @property
    def off_s(self) -> float | None:
        """The tested node's seconds without power, None if they were not measured."""
        restored = self.restore.off_s if self.restore else {}
        return restored.get(self.tested_name)

    @property
    def before(self) -> HostBefore | None:
        """The host's report before the load, None if it was not asked."""
        return self.tested.host

    @property
    def host(self) -> HostAfter | None:
        """The host's report after recovery, None if it was not asked."""
        found = self.after.nodes.get(self.tested_name)
        return found.host if found else None

    @cached_property
    def depths(self) -> list[VolumeDepth]:
        """The depth of the cut on each volume; [] if that was not measured.

        [] for a failover, too: it may spare the host that was asked and lead to another
        host.  If the node that was read kept its power, no depth bears on its rows.
        """
        if self.cut_class is CutClass.FAILOVER or self.reader_kept_power:
            return []
        seen, name = self.at_the_cut, self.tested_name
        # It is known what a lab's drive lost, or a drive that the host saw go.
        known = bool(self.manifest.lab) or self.drives_gone_us is not None
        return find_volume_depths(
            self.before,
            seen.canaries,
            seen.canaries_elsewhere,
            self.host,
            self.tested.cut_class,
            {} if known else find_flush_times(self.manifest, name, self.load),
        )

    @cached_property
    def depth(self) -> DepthFinding | None:
        """The depth of the cut for all places, None if that was not measured."""
        depths = [self.as_tested(name).own_depth for name in self.cut_names]
        known = [finding for finding in depths if finding is not None]
        if len(known) < len(depths):
            return None
        return min(
            known, key=lambda finding: finding.depth.rank if finding.depth else -1
        )

    @cached_property
    def moved(self) -> Mapping[str, str]:
        """Places of the node that was read that moved since the load began.

        Name of the place -> where it is now; no canaries were there.
        """
        before = self.manifest.nodes[self.after.reader_name].places
        now = self.after.places
        return list_moved_places(before, now) if before and now is not None else {}

    @cached_property
    def strayed(self) -> Sequence[Seen]:
        """Changed locations of the tested node's places while the load ran.

        No canaries were at these locations.
        """
        if self.load is None:
            return ()
        return list_changes_of_storage(
            self.manifest, self.load, self.tested_name, FactKind.PLACE
        )

    @property
    def seen_otherwise(self) -> Mapping[str, str]:
        """Places at whose path the server found other files than its host.

        Name of the place -> what the server found, before the load or after recovery.
        """
        found = dict(self.before.facts.seen_otherwise) if self.before else {}
        if self.host and self.host.facts:
            found |= self.host.facts.seen_otherwise
        return found

    @property
    def own_depth(self) -> DepthFinding | None:
        """The depth for the places of the tested node alone."""
        if self.before is None:
            return None
        facts = self.before.facts
        unseen = {**facts.unseen, **self.seen_otherwise}
        unseen |= {seen.of: "it lay elsewhere for a time" for seen in self.strayed}
        if self.moved and self.tested_name == self.after.reader_name:
            unseen |= self.moved
        return find_least_depth(self.depths, replace(facts, unseen=unseen))

    @property
    def shown_depth(self) -> Depth | None:
        """The depth of the cut for all places, None if it is not known."""
        return self.depth.depth if self.depth else None

    @cached_property
    def shallowest(self) -> DepthFinding | None:
        """The least depth known of any volume: it describes the host alone."""
        return find_shallowest(self.depths)

    @property
    def page_cache_kept(self) -> bool:
        """True if the cut is known to have destroyed the server's memory alone."""
        process = self.manifest.lab_cut is LabCut.PROCESS
        return was_page_cache_kept(self.depths) or (
            process and not self.reader_kept_power
        )
