"""Settings that explain the losses of a run, or forbid a claim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dbcheck.audit import mysql, rules
from dbcheck.audit.rules import Finding
from dbcheck.judge.case import Case, find_flagged_settings, find_unsafe_settings
from dbcheck.judge.cutmoment import find_cut_us
from dbcheck.judge.item import Item, ItemId, Status
from dbcheck.judge.volumes import list_changes_of_storage, list_hidden_drives
from dbcheck.model.audited import RuleStatus
from dbcheck.model.cut import LabCut
from dbcheck.model.depth import Depth
from dbcheck.model.family import FAMILIES
from dbcheck.model.host import TargetFacts
from dbcheck.model.records import LoadRecord, Manifest, NodeBefore
from dbcheck.model.watched import FactKind

_TEARING_WRITES = ("torn", "pages", "blocks", "random")  # kinds of lab.spec.KEPT_WRITES
_ZFS = "zfs"  # the filesystem's name in /proc/mounts


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings that are not safe, the unsafe before the unreadable.

    depth: the deepest that the cut may have gone; an unknown depth counts as DRIVE.
           None if the node that was read was not cut.
    whole_pages: all places lie on storage that is known to tear no page.
    torn: a lab's drive tore the writes that were not flushed.
    known: there are rules for servers of this family.
    """

    flagged: tuple[Finding, ...]
    depth: Depth | None
    whole_pages: bool = False
    torn: bool = False
    known: bool = True

    def at_fault(self, *, lost: bool) -> tuple[Finding, ...]:
        """Return the settings under which such a cut loses commits.

        lost: the cut lost commits, so settings that allow torn pages are included.
        """
        return (*self._losing, *self._tearing) if lost else self._losing

    def others(self, *, lost: bool) -> tuple[Finding, ...]:
        """Return the settings not at fault, including those that could not be read."""
        at_fault = self.at_fault(lost=lost)
        return tuple(finding for finding in self.flagged if finding not in at_fault)

    @property
    def explains_everything(self) -> bool:
        """True if one of the settings can have lost all rows, even the oldest."""
        return any(finding.harm.everything for finding in self._losing)

    def item(self, *, kept: bool) -> Item:
        """Return the item on their meaning for the verdict; kept: nothing was lost."""
        status, detail = self._meaning("; this cut happened to lose none" * kept)
        return Item(ItemId.SETTINGS, status, detail, required=True)

    def _meaning(self, chance: str) -> tuple[Status, str]:
        if not self.known:
            reason = "no rules are known for servers of this family"
            return Status.NOT_OBSERVABLE, reason
        if self._losing:
            reason = f"{self._losing[0]} is documented to lose commits{chance}"
            return Status.ABSENT, reason
        if hiding := [f for f in self.flagged if f.hides]:
            return Status.ABSENT, f"{hiding[0]} may hide what was lost"
        if unread_findings := [
            f for f in self.flagged if f.value is None and _may_lose_or_hide(f)
        ]:
            names = ", ".join(finding.rule.fact for finding in unread_findings)
            return (
                Status.NOT_OBSERVABLE,
                f"could not be read, and commits may depend on it: {names}",
            )
        if self._tearing and self.torn:
            return (
                Status.ABSENT,
                f"{self._tearing[0]} leaves no guard against torn pages, and this "
                f"drive tears them{chance}",
            )
        if self._tearing:
            return (
                Status.ASSUMED,
                f"{self._tearing[0]}: the storage is assumed to write whole pages",
            )
        if self._unsafe:
            return Status.PRESENT, self._harmless(self._unsafe[0])
        return Status.PRESENT, "no setting of the server is known to lose commits"

    def _harmless(self, finding: Finding) -> str:
        """Return the reason why an unsafe setting loses no commit in such a cut."""
        if self.depth is None:
            why = "on a node that kept its power"
        elif finding.loses_at(self.depth):
            why = f"on {_ZFS}, which tears no page"
        elif finding.harm.depth:
            why = f"before {finding.harm.depth.value} depth"
        else:
            why = "by itself"
        return f"{finding} loses no commit {why}"

    @property
    def _losing(self) -> tuple[Finding, ...]:
        """Settings under which such a cut loses commits on any storage."""
        return tuple(finding for finding in self._reached if not finding.harm.tears)

    @property
    def _tearing(self) -> tuple[Finding, ...]:
        """Settings under which such a cut loses commits if it tears a page."""
        if self.whole_pages:
            return ()
        return tuple(finding for finding in self._reached if finding.harm.tears)

    @property
    def _reached(self) -> Sequence[Finding]:
        """Settings that lose commits in a cut as deep as this one."""
        if self.depth is None:
            return ()
        return [finding for finding in self._unsafe if finding.loses_at(self.depth)]

    @property
    def _unsafe(self) -> Sequence[Finding]:
        return [
            finding for finding in self.flagged if finding.status is RuleStatus.UNSAFE
        ]


def judge_durable_settings(case: Case) -> Item | None:
    """Judge the meaning of the settings for the verdict; None for a control.

    A control is meant to lose commits by its settings.
    """
    if case.manifest.control:
        return None
    found = case.found
    kept = found is not None and not found.counts and case.after.index is None
    return collect_settings(case).item(kept=kept)


def collect_settings(case: Case) -> Settings:
    """Return the settings of a run and of its storage that are not safe."""
    depths = [each.depth for each in case.depths]
    is_cut_too = case.cut_while_promoted is not None
    found = collect_settings_at_depths(
        case.manifest,
        case.load,
        depths,
        case.after.reader_name if is_cut_too else case.tested_name,
        find_cut_us(case),
    )
    kept_power = case.reader_kept_power and not is_cut_too
    return replace(found, depth=None) if kept_power else found


def collect_settings_at_depths(
    manifest: Manifest,
    load: LoadRecord | None,
    depths: Sequence[Depth | None],
    tested_name: str,
    went_us: int | None,
) -> Settings:
    """Return the unsafe settings of a run whose cut had *depths* on its volumes.

    load, tested_name, went_us: see judge.case.find_unsafe_settings().
    """
    return Settings(
        tuple(find_unsafe_settings(manifest, load, tested_name, went_us)),
        _find_deepest(manifest, load, tested_name, depths),
        _writes_whole_pages(manifest.nodes[tested_name]),
        _tears_writes(manifest),
        bool(rules.RULES[manifest.family]),
    )


def _tears_writes(manifest: Manifest) -> bool:
    """Return True if the drive is a lab's that tears the writes not flushed."""
    drive = manifest.lab.get("drive")
    return isinstance(drive, Mapping) and drive.get("kept_writes") in _TEARING_WRITES


def find_hiding_settings(manifest: Manifest, settings: Mapping[str, str]) -> str:
    """Return the reason why nothing may be read under *settings*, "" if there is none.

    settings: the settings in effect when the rows are to be read.  For a single server
    settings about its peers are left out: another restart does not undo what the peers
    gave back, see AfterRecord.refill.
    """
    alone = not manifest.site.is_cluster
    names = ", ".join(
        str(flag)
        for flag in find_flagged_settings(manifest, settings)
        if flag.hides and not (alone and flag.harm.peers)
    )
    return names and (
        f"{names}: what is read under this proves nothing, so nothing was read; restart"
        " the server without it, then run dbcheck reconcile"
    )


# What a control of MySQL or MariaDB changes on the server.  A control of PostgreSQL
# changes its own sessions, each of which reads the setting back when it begins.
_SETTING_RELAXED_FOR_ENGINE = {
    mysql.INNODB: "innodb_flush_log_at_trx_commit",
    mysql.ROCKSDB: "rocksdb_flush_log_at_trx_commit",
}
_SETTING_RELAXED_FOR_BINLOG = "sync_binlog"
_SETTING_BUFFERING_LOG = "innodb_log_file_buffering"  # of MariaDB, for InnoDB's log


def explain_durable_commits(manifest: Manifest, load: LoadRecord | None) -> str:
    """Return the setting that kept a control's commits durable before the cut, or "".

    "" also for a cluster, whose control changes no setting of the server.
    If the binary log is flushed at each commit, that flush reaches the redo log's drive
    too.  So both settings must be weak.  MariaDB's redo log must not go past the page
    cache, unless the commits stay in the server.
    """
    of_sessions = FAMILIES[manifest.family].has_session_durability
    if of_sessions or manifest.promise is not None:
        return ""
    if load is None or load.settings is None:
        return "its settings were not read just before the cut"
    unsafe = {
        finding.rule.fact
        for finding in rules.find_flagged_settings(manifest.family, load.settings)
        if finding.status is RuleStatus.UNSAFE
    }
    has_binlog = (
        load.settings.get("log_bin", "").lower() in ("on", "1")
        and load.settings.get(mysql.BINLOG_STORAGE, "").lower() != "innodb"
    )
    relaxed = _SETTING_RELAXED_FOR_ENGINE[load.settings.get(mysql.TABLES, mysql.INNODB)]
    for name in (relaxed, _SETTING_RELAXED_FOR_BINLOG) if has_binlog else (relaxed,):
        if name not in unsafe:
            return f"{name} = {load.settings.get(name, 'unknown')} just before the cut"
    past = load.settings.get(_SETTING_BUFFERING_LOG, "").lower() in ("off", "0")
    in_innodb = relaxed == _SETTING_RELAXED_FOR_ENGINE[mysql.INNODB]
    if past and in_innodb and load.settings[relaxed] != "0":
        return f"{_SETTING_BUFFERING_LOG} = OFF just before the cut"
    return ""


def _may_lose_or_hide(finding: Finding) -> bool:
    return finding.harm.depth is not None or finding.harm.hides


def _writes_whole_pages(tested: NodeBefore) -> bool:
    """Return True if all that the host showed lies on a filesystem that tears no page.

    ZFS never commits a part of a write (OpenZFS documentation, Workload Tuning), as
    long as its records are no smaller than a page; they are 128 KiB by default.
    """
    if tested.host is None or tested.host.facts.unseen:
        return False
    volumes = tested.host.facts.volumes
    return all(volume.filesystem == _ZFS for volume in volumes)


def _has_hidden_drives(facts: TargetFacts) -> bool:
    return bool(facts.unseen or list_hidden_drives(facts.volumes))


def _find_deepest(
    manifest: Manifest,
    load: LoadRecord | None,
    name: str,
    depths: Sequence[Depth | None],
) -> Depth:
    tested = manifest.nodes[name]
    if manifest.lab_cut is LabCut.PROCESS:
        return Depth.PROCESS
    if load is not None and list_changes_of_storage(
        manifest, load, name, FactKind.PLACE
    ):
        return Depth.DRIVE  # the depth at the places' other locations is not known
    if tested.host is not None and _has_hidden_drives(tested.host.facts):
        return Depth.DRIVE  # the depth on the hidden drives is not known
    known = [depth for depth in depths if depth is not None]
    if manifest.lab_cut is LabCut.DRIVE or not known or len(known) < len(depths):
        return Depth.DRIVE
    return max(known, key=lambda depth: depth.rank)
