"""Evidence from the target's host."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from dbcheck.judge.case import Case
from dbcheck.judge.cutmoment import Elapsed, measure_elapsed
from dbcheck.judge.item import Item, ItemId, Status
from dbcheck.judge.server_end import Ended, decide_how_server_ended
from dbcheck.model.cut import CutClass, Gone, LabCut
from dbcheck.model.depth import Depth, DepthFinding, Remains
from dbcheck.model.host import Drive, HostAfter, HostBefore, TargetFacts

_PRESENT, _CONTRADICTED = Status.PRESENT, Status.CONTRADICTED
_UNSEEN = Status.NOT_OBSERVABLE
# A kernel that started more than RAN_ON_S before its host was last heard did not go
# down.  If it started later than that, the two clocks may only disagree.
RAN_ON_S = 60.0
READ_HERE = "cut again, and reconcile on this client before it is restarted"


def judge_readings_after_cut(case: Case) -> Item | None:
    """Judge whether all that the host reported before the load was read again after it.

    A report that is missing after the cut might have contradicted a PASS.  None if the
    host was not asked before the load.
    """
    before, after = case.before, case.host
    if before is None:
        return None
    item_id = ItemId.HOST_ASKED_AGAIN
    in_lab = case.manifest.lab_cut is not None  # whose kernel never shuts down
    if after is None:
        reason = (
            f"host {before.facts.hostname} was checked before the load but not after"
        )
        reason += " it, so its boot_id and canaries prove nothing; add --target-host"
        return Item(item_id, _UNSEEN, reason, True)
    unread = [
        subject
        for subject, is_read in (
            ("boot_id and storage", after.facts is not None),
            ("canaries", _are_all_canaries_read(before, after)),
            ("server's log", after.log is not None or not before.log_path),
            ("the host's records of a shutdown", in_lab or after.shut_down is not None),
        )
        if not is_read
    ]
    if not unread:
        return Item(
            item_id, _PRESENT, "all that it reported before was read again", True
        )
    reasons = [
        remains.missing for remains in _list_remains(after) if remains is not None
    ]
    why = after.failure or next(filter(None, reasons), "")
    reason = f"not read after the cut: {', '.join(unread)}"
    return Item(item_id, _UNSEEN, f"{reason}: {why}" if why else reason, True)


def _are_all_canaries_read(before: HostBefore, after: HostAfter) -> bool:
    """Return True if all canaries that were started could be read."""
    readable = [
        remains
        for remains in _list_remains(after)
        if remains is not None and not remains.missing
    ]
    return len(readable) == len(before.canary_folders)


def _list_remains(after: HostAfter) -> tuple[Remains | None, ...]:
    return (after.remains, *after.remains_elsewhere)


def judge_same_storage(case: Case) -> Item | None:
    """Judge whether the host and its storage are the same as before the load.

    None if the host was not asked both before the load and after the cut.
    """
    before, after = case.before, case.host
    if before is None or after is None or after.facts is None:
        return None
    name = ItemId.SAME_STORAGE
    then, now = (
        _list_storage_identities(before.facts),
        _list_storage_identities(after.facts),
    )
    unknown = (
        _find_unidentified_drives(before.facts),
        _find_unidentified_drives(after.facts),
    )
    shared = [key for key in then if key in now]
    for subject, place in shared:
        was, is_now = then[subject, place], now[subject, place]
        if subject == "drives" and _may_be_same(place, was, is_now, *unknown):
            continue
        if was != is_now:
            reason = f"{subject}{_format_of_place(place)} was {was} and is {is_now}"
            return Item(name, _CONTRADICTED, reason, True)
    places = [place for volume in before.facts.volumes for place in volume.places]
    if blind := [place for place in places if place in after.facts.unseen]:
        reason = f"{blind[0]} cannot be inspected again: {after.facts.unseen[blind[0]]}"
        return Item(name, _UNSEEN, reason, True)
    same = [subject for subject, place in shared if not place]
    for volume in before.facts.volumes:
        first_place = next(iter(volume.places))
        suffix = _format_of_place(first_place) if before.facts.volumes[1:] else ""
        same += [
            f"{subject}{suffix}"
            for subject, place in shared
            if place == first_place and subject != "path"
        ]
    if not same:
        return Item(name, _UNSEEN, "the host reports nothing of it", False)
    reason = f"same {', '.join(same)}"
    unidentified = sorted(
        {drive for each in unknown for drives in each.values() for drive in drives}
    )
    if unidentified and case.manifest.lab_cut is None:
        reason += (
            f"; {', '.join(unidentified)} shows neither a serial nor a WWID, so whether"
            " it is the same drive is not known"
        )
    return Item(name, _PRESENT, reason, True)


def _format_of_place(place: str) -> str:
    return f" of {place}" if place else ""


def _list_storage_identities(facts: TargetFacts) -> dict[tuple[str, str], str]:
    """List the identities of the host and its storage: (subject, place) -> identity.

    The place is "" for the identity of the host itself.
    """
    known = {("machine id", ""): facts.machine_id}
    for volume in facts.volumes:
        # With multipath a drive is listed once for each of its working paths.
        drives = sorted({d.serial or d.wwid for d in volume.drives} - {""})
        for place, path in volume.places.items():
            known["path", place] = path
            known["filesystem", place] = volume.filesystem_uuid
            known["drives", place] = ", ".join(drives)
    return {key: value for key, value in known.items() if value}


def _find_unidentified_drives(facts: TargetFacts) -> dict[str, set[str]]:
    """Return place -> names of its drives that have neither a serial nor a WWID."""
    return {
        place: {d.name for d in volume.drives if not (d.serial or d.wwid)}
        for volume in facts.volumes
        for place in volume.places
    }


def _may_be_same(
    place: str,
    was: str,
    is_now: str,
    unknown_then: Mapping[str, set[str]],
    unknown_now: Mapping[str, set[str]],
) -> bool:
    """Return True if the drives of a place may be the same as before.

    A drive that nothing identifies may be any drive.
    """
    then, now = set(was.split(", ")), set(is_now.split(", "))
    return len(then - now) <= len(unknown_now[place]) and len(now - then) <= len(
        unknown_then[place]
    )


def judge_not_restored(case: Case) -> Item:
    """Judge whether the data are those that the load was written to, and no copy.

    Only missing canaries show that a whole filesystem was put back to a state before
    the load.  The canaries are also gone if a drive lost all that was ever written to
    it.  A copy that is written over the files changes the ctime of files that no server
    writes, but so does a change of their owner.  A row of this run shows that the files
    are no copy from before it.  Either change makes the ctime later; an earlier ctime
    shows a drive that lost writes.
    """
    name, before, after = ItemId.NOT_RESTORED, case.before, case.host
    if case.manifest.lab_cut is LabCut.DRIVE:
        return Item(name, _PRESENT, "the lab's drive keeps its own data", False)
    if before is None or after is None or after.facts is None:
        reason = "data directory not inspected (add --target-host)"
        return Item(name, _UNSEEN, reason, False)
    then, now = before.facts.made, after.facts.made
    shared = sorted(then.keys() & now.keys())
    for file in shared:
        if then[file] != now[file]:
            where = "the data directory" if file == "." else file
            reason = f"{where} was replaced by a copy"
            return Item(name, _CONTRADICTED, f"{reason} ({now[file]})", False)
    if not shared:
        return Item(name, _UNSEEN, "no file of the data could be identified", False)
    was, is_now = before.facts.changed, after.facts.changed
    touched = [file for file in sorted(was.keys() & is_now) if was[file] < is_now[file]]
    if touched and case.none_there:
        changed_at = datetime.fromtimestamp(is_now[touched[0]] // 10**9, UTC)
        reason = (
            f"{touched[0]}, which no server writes, was changed since the preflight"
            f" (at {changed_at:%Y-%m-%d %H:%M:%S} UTC): an older copy was written over"
            " the data, or its owner was set anew, as by chown at the start or"
            " Kubernetes fsGroup: stop that (fsGroupChangePolicy: OnRootMismatch) and"
            " cut again"
        )
        return Item(name, Status.ABSENT, reason, False)
    if after.remains is None or after.remains.missing:
        reason = "this run's canaries are gone, as if its filesystem had been restored"
        return Item(name, _UNSEEN, reason, False)
    reason = (
        "the data directory and its files are the same; a volume that was rolled back"
        " to a snapshot shows the same"
    )
    return Item(name, _PRESENT, reason, False)


def judge_unsafe_shutdowns(case: Case) -> Item | None:
    """Judge the drives' own counts of shutdowns without warning, None if none counts.

    Every drive below a place is compared.  Drives are identified by their serials, as
    their names may change with each boot.  If the drives alone were cut, a PASS
    requires this item unless the drives' cache was seen to be lost: a drive that its
    kernel shut down first has flushed its cache.
    """
    before, after = case.before, case.host
    if before is None or after is None or after.facts is None:
        return None
    counted, silent = count_rises_since(before.facts, after.facts, "unsafe_shutdowns")
    if not counted:
        return None
    rises = [f"{name} {number}" for name, number in counted.items()]
    one_did_not_count = min(counted.values()) <= 0
    reason = f"counted since: {', '.join(rises)}"
    if silent:
        reason += f"; {', '.join(silent)} cannot be read"
    status = Status.ABSENT if one_did_not_count else _PRESENT
    required = case.drive_only and case.shown_depth is not Depth.DRIVE
    return Item(ItemId.UNSAFE_SHUTDOWNS, status, reason, required)


def count_rises_since(
    before: TargetFacts, after: TargetFacts, counter: str
) -> tuple[dict[str, int], list[str]]:
    """Return drive -> rise of its counter, and the drives whose counter is unreadable.

    Drives have the names from before the cut.  counter: a field of model.host.Drive.
    """
    then, now = _list_drives_by_identity(before), _list_drives_by_identity(after)
    counted: dict[str, int] = {}
    silent: list[str] = []
    for key, drive in then.items():
        was = getattr(drive, counter)
        later = getattr(now[key], counter) if key in now else None
        if was is None or later is None:
            silent.append(drive.name)
        else:
            counted[drive.name] = later - was
    return counted, silent


def _list_drives_by_identity(facts: TargetFacts) -> dict[str, Drive]:
    """Return every drive below a place, by its serial, its WWID or its name."""
    return {
        drive.serial or drive.wwid or drive.name: drive
        for volume in facts.volumes
        for drive in volume.drives
    }


def judge_host_went_down(case: Case) -> Item | None:
    """Judge whether the host itself lost its power, and not the server alone.

    None in a lab that kills the server alone, and where the drives alone were cut
    (judge/driveonly.py).
    """
    if case.manifest.lab_cut is LabCut.PROCESS or case.drive_only:
        return None
    status, reason = judge_fall_of_host(
        case, decide_how_server_ended(case), case.shallowest
    )
    return Item(ItemId.HOST_DOWN, status, reason, required=True)


def judge_fall_of_host(
    case: Case, end: Ended, depth: DepthFinding | None
) -> tuple[Status, str]:
    """Judge whether the host went down, by the server's *end* and the cut's *depth*."""
    measured = depth.depth if depth else None
    reason = depth.reasons[0] if depth and measured else ""
    if measured is Depth.PROCESS:
        return _CONTRADICTED, reason
    if case.manifest.lab_cut is not None:  # the kernel of a lab keeps running
        if measured is None and case.cut is None:
            return _UNSEEN, "no cut of the lab's drive is on record"
        return _PRESENT, reason or "the lab's drive lost its power"
    booted, silent = (
        compare_boots(case.before, case.host),
        _have_sessions_fallen_silent(case),
    )
    started = measure_last_heard_to_kernel_start(case)
    if against := _find_evidence_against_power_loss(booted, end, started):
        return _CONTRADICTED, against
    if started and started.least_s < -RAN_ON_S and measured is None:
        return _UNSEEN, (
            "it has another boot_id, as a container has that is restarted, and when its"
            f" kernel started is not known: {started.doubt}; {READ_HERE}"
        )
    # After a reset the host comes back at once.
    reset = case.cut_class is CutClass.RESET
    if booted == "new" and not silent and measured is None and not reset:
        how_sessions_ended = (
            "nothing recorded how its connections ended"
            if silent is None
            else "its connections were closed, as a reboot closes them"
        )
        return _UNSEEN, (
            f"it has another boot_id, but {how_sessions_ended}, and the depth of the"
            " cut was not measured; cut again"
        )
    if booted == "new":
        return _PRESENT, "it has another boot_id"
    if measured is not None:
        return _PRESENT, reason
    return _judge_from_client(end, silent=silent)


def _have_sessions_fallen_silent(case: Case) -> bool | None:
    """Return True if the sessions fell silent, None if nothing recorded their end.

    Sessions fall silent when their peer loses its power, and also when the network
    between them fails.
    """
    if case.load is None or case.tested_name != case.manifest.writer_name:
        return None
    return {Gone.SILENT: True, Gone.BROKEN: False}.get(case.load.gone)


def measure_last_heard_to_kernel_start(case: Case) -> Elapsed | None:
    """Measure the time from the host's last sign of life to its kernel's start.

    The power was off for no longer than that.  None if the kernel is not known to have
    started anew.
    """
    load, after = case.load, case.host
    if load is None or after is None or after.facts is None:
        return None
    uptime_s = after.facts.uptime_s
    last_us = max(load.last_ack_us or 0, case.at_the_cut.heard_us or 0)
    rebooted = compare_boots(case.before, after) == "new"
    if not rebooted or uptime_s is None or not last_us:
        return None
    return measure_elapsed(load, last_us, after.clocks).less(uptime_s)


def _find_evidence_against_power_loss(
    booted: str, end: Ended, started: Elapsed | None
) -> str:
    """Return the host's evidence against a loss of its power, "" if there is none.

    started: see measure_last_heard_to_kernel_start().

    A container may be given another boot_id at each start; its kernel's uptime
    (/proc/uptime) is that of the host.
    """
    if booted == "same":
        return "its boot_id has not changed: the host kept running"
    if started is not None and started.most_s < -RAN_ON_S:
        return (
            "it has another boot_id, but its kernel started"
            f" {-started.most_s:.0f} s before it was last heard: a container was"
            " restarted, and its host kept running"
        )
    if end.recorded:
        return f"it shut down in an orderly way: {end.recorded}"
    return ""


def _judge_from_client(end: Ended, *, silent: bool | None) -> tuple[Status, str]:
    """Judge the host by its connections, the switch and the server's recovery."""
    if silent is None:
        return _UNSEEN, "nothing recorded how its connections ended"
    if not silent:
        return Status.ABSENT, (
            "its connections were closed at once, which a host without power cannot do"
        )
    if end.seen_off:
        return _PRESENT, "the switch saw the power off"
    if end.crashed or end.seems_crashed:
        return Status.ASSUMED, (
            "the server crashed in silence: its host lost its power, or the network"
            " failed and the server was killed; --target-host shows which"
        )
    return _UNSEEN, (
        "its connections fell silent, as they also do if the network fails; add"
        " --target-host"
    )


def compare_boots(before: HostBefore | None, after: HostAfter | None) -> str:
    """Return "new" if the host was booted since, "same" if not, "" if unknown."""
    if before is None or after is None or after.facts is None:
        return ""
    then, now = before.facts.boot_id, after.facts.boot_id
    if not then or not now:
        return ""
    return "same" if then == now else "new"
