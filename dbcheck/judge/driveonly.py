"""Judges a cut of drives alone: its host keeps running, so boot_id shows nothing."""

from __future__ import annotations

from collections.abc import Sequence

from dbcheck.judge.case import Case
from dbcheck.judge.cutmoment import find_newest_ack_us
from dbcheck.judge.host import compare_boots, count_rises_since
from dbcheck.judge.item import Item, ItemId, Status
from dbcheck.model.cut import CutDrive, DriveCut
from dbcheck.model.host import HostBefore, TargetFacts

_PRESENT, _CONTRADICTED = Status.PRESENT, Status.CONTRADICTED
_UNSEEN, _ABSENT = Status.NOT_OBSERVABLE, Status.ABSENT
_CUT_NOT_ON_RECORD = "what the host showed of it is not on record"


def judge_drives_gone(case: Case) -> Item | None:
    """Judge whether the drives went and came back, and the host did not.

    None unless the drives alone were cut.
    """
    if not case.drive_only:
        return None
    status, reason = _judge_drives_went_alone(case)
    return Item(ItemId.DRIVES_GONE, status, reason, required=True)


def _judge_drives_went_alone(case: Case) -> tuple[Status, str]:
    if compare_boots(case.before, case.host) == "new":
        return _CONTRADICTED, (
            "the host has another boot_id: it went down as well, or was booted anew"
        )
    drive_cut = case.drive_cut
    if drive_cut is None or not drive_cut.drives:
        return _UNSEEN, _CUT_NOT_ON_RECORD
    for serial, drive in drive_cut.drives.items():
        drive_name = f"{', '.join(drive.names)} ({serial})"
        if not drive.names_after:
            return _CONTRADICTED, f"no drive with the serial of {drive_name} came back"
        if not drive.gone:
            return _ABSENT, (
                f"the host never saw {drive_name} gone: it kept its power, or the"
                " kernel does not notice that it lost it"
            )
    shown = "; ".join(
        map(_describe_return_of_drive, drive_cut.drives, drive_cut.drives.values())
    )
    return (
        _PRESENT,
        f"{shown}; the host kept running{_find_acks_without_drives(case, drive_cut)}",
    )


def _find_acks_without_drives(case: Case, drive_cut: DriveCut) -> str:
    """Say that acks came after the drives were surely gone, "" if none is known."""
    exact_us = case.cut.exact_us if case.cut else None
    gone_us = drive_cut.gone_us if exact_us is None else exact_us
    last_us = find_newest_ack_us(case.load) if case.load else None
    if gone_us is None or last_us is None or last_us <= gone_us:
        return ""
    late_s = (last_us - gone_us) / 1e6
    return f", and its server acked commits for {late_s:.3f} s without them"


def _describe_return_of_drive(serial: str, drive: CutDrive) -> str:
    before, after = ", ".join(drive.names), ", ".join(drive.names_after)
    renamed = f" as {after}" if after != before else ""
    return f"{before} ({serial}) was gone and came back{renamed}"


def judge_server_killed(case: Case) -> Item | None:
    """Judge whether the server was ended before its drives got their power back.

    None unless the drives alone were cut.
    """
    if not case.drive_only:
        return None
    drive_cut, name = case.drive_cut, ItemId.SERVER_KILLED
    if drive_cut is None:
        return Item(name, _UNSEEN, _CUT_NOT_ON_RECORD, required=True)
    if drive_cut.left:
        pids = ", ".join(map(str, drive_cut.left))
        reason = f"its processes {pids} still ran when the power came back"
        return Item(name, _CONTRADICTED, reason, required=True)
    reason = "it had ended by itself"
    if drive_cut.killed:
        reason = f"processes of it that were killed: {len(drive_cut.killed)}"
    reason += ", before the power came back"
    return Item(name, _PRESENT, reason, required=True)


def judge_mounted_anew(case: Case) -> Item | None:
    """Judge whether each filesystem was forced off, and mounted from its own drive.

    None unless the drives alone were cut.
    """
    if not case.drive_only:
        return None
    volumes = case.before.facts.volumes if case.before else ()
    status, reason = _judge_mounts(
        case.drive_cut, [volume.mount_point for volume in volumes]
    )
    return Item(ItemId.MOUNTED_ANEW, status, reason, required=True)


def _judge_mounts(
    drive_cut: DriveCut | None, points: Sequence[str]
) -> tuple[Status, str]:
    """Judge the filesystems; points: mount points that hold the server's places."""
    if drive_cut is None or not drive_cut.mounts:
        return _UNSEEN, _CUT_NOT_ON_RECORD
    for mount in drive_cut.mounts:
        if not mount.taken_off:
            return _CONTRADICTED, (
                f"{mount.point} was never off: what is read may come from the memory "
                "of the host, and not from the drive"
            )
        if not mount.mounted_on:
            why = f": {drive_cut.failure}" if drive_cut.failure else ""
            return _ABSENT, f"{mount.point} was not mounted again{why}"
    taken_off = [mount.point for mount in drive_cut.mounts]
    if missing := [point for point in points if point not in taken_off]:
        return (
            _UNSEEN,
            f"{missing[0]} was not among the filesystems that were forced off",
        )
    mounted_from = (
        f"{mount.point} from {mount.mounted_on}" for mount in drive_cut.mounts
    )
    return _PRESENT, f"forced off, and mounted anew: {', '.join(mounted_from)}"


def judge_power_cycles(case: Case) -> Item | None:
    """Judge whether the drives counted a loss of power, where they count any.

    None unless the drives alone were cut, and None in a lab, whose drive counts
    nothing.  Neither a disabled link nor a reset of a drive raises this counter.
    """
    if not case.drive_only or case.manifest.lab_cut is not None:
        return None
    after = case.host.facts if case.host else None
    status, reason = _judge_counted_power_cycles(case.before, after)
    return Item(ItemId.POWER_CYCLES, status, reason, required=True)


def _judge_counted_power_cycles(
    before: HostBefore | None, after: TargetFacts | None
) -> tuple[Status, str]:
    counted: dict[str, int] = {}
    silent: list[str] = []
    if before is not None and after is not None:
        counted, silent = count_rises_since(before.facts, after, "power_cycles")
    for name, rise in counted.items():
        if rise <= 0:
            return _CONTRADICTED, (
                f"{name} counted no power cycle: its link was disabled, or it was "
                "reset, and neither cuts its power"
            )
    if silent or not counted:
        which = ", ".join(silent) or "the drives"
        return Status.ASSUMED, (
            f"the counters of {which} cannot be read; a link that is disabled looks "
            "the same"
        )
    shown = ", ".join(f"{name} {rise}" for name, rise in counted.items())
    return _PRESENT, f"counted since: {shown}"


def judge_places_cut(case: Case) -> Item | None:
    """Judge whether all that an ack depends on lies on drives that lost their power.

    None unless the drives alone were cut.
    """
    if not case.drive_only:
        return None
    name, drive_cut, before = ItemId.PLACES_CUT, case.drive_cut, case.before
    if drive_cut is None or before is None:
        return Item(name, _UNSEEN, _CUT_NOT_ON_RECORD, required=True)
    names_of_cut_drives = {
        each for drive in drive_cut.drives.values() for each in drive.names
    }
    for volume in before.facts.volumes:
        if kept := [
            drive.name
            for drive in volume.drives
            if drive.name not in names_of_cut_drives
        ]:
            reason = (
                f"{volume.named} kept the power of {', '.join(kept)}, so that part was "
                "not tested; name all drives in dbcheck_power_drives, on one switch"
            )
            return Item(name, _ABSENT, reason, required=True)
        if not volume.drives:
            reason = f"on which drives {volume.named} lies is not known"
            return Item(name, _UNSEEN, reason, required=True)
    if before.facts.unseen:
        place, why = next(iter(before.facts.unseen.items()))
        reason = f"on which drives {place} lies is not known ({why})"
        return Item(name, _UNSEEN, reason, required=True)
    reason = f"all are on {', '.join(sorted(names_of_cut_drives))}"
    return Item(name, _PRESENT, reason, required=True)


def explain_unproven_drive_cut(case: Case) -> str:
    """Return the reason why a cut of drives alone is not shown, "" if it is."""
    for item in (judge_drives_gone(case), judge_server_killed(case)):
        if item is not None and item.status is not _PRESENT:
            return item.reason
    return ""
