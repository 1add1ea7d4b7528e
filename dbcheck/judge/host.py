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
# A kernel whose start lies so long before its host was last heard did not go down.  If
# it lies nearer, the two clocks may only disagree.
RAN_ON_S = 60.0
READ_HERE = "cut again, and reconcile on this client before it is restarted"


def judge_readings_after_cut(case: Case) -> Item | None:
    """Judge whether all that the host reported before the load was read again after it.

    What was gathered before and is not there afterwards might have contradicted a PASS.
    None if nothing was gathered.
    """
    before, after = case.before, case.host
    if before is None:
        return None
    name = ItemId.HOST_ASKED_AGAIN
    in_lab = case.manifest.lab_cut is not None  # whose kernel never shuts down
    if after is None:
        reason = (
            f"host {before.facts.hostname} was checked before the load but not after"
        )
        reason += f" it, so its boot_id and canaries prove nothing; {_say_why(case)}"
        return Item(name, _UNSEEN, reason, True)
    lacking = [
        what
        for what, there in (
            ("boot_id and storage", after.facts is not None),
            ("canaries", _are_all_canaries_read(before, after)),
            ("server's log", after.log is not None or not before.log_path),
            ("the host's records of a shutdown", in_lab or after.shut_down is not None),
        )
        if not there
    ]
    if not lacking:
        return Item(name, _PRESENT, "all that it reported before was read again", True)
    missing = [one.missing for one in _list_remains(after) if one is not None]
    why = after.failure or next(filter(None, missing), "")
    reason = f"not read after the cut: {', '.join(lacking)}"
    return Item(name, _UNSEEN, f"{reason}: {why}" if why else reason, True)


def _say_why(case: Case) -> str:
    """Return why the tested node's host was not asked, or how it can be."""
    off = case.before is not None and case.reader_kept_power
    return f"{case.tested_name} stays off" if off else "add --target-host"


def _are_all_canaries_read(before: HostBefore, after: HostAfter) -> bool:
    """Return True if all canaries that were started could be read."""
    found = [one for one in _list_remains(after) if one is not None and not one.missing]
    return len(found) == len(before.canary_folders)


def _list_remains(after: HostAfter) -> tuple[Remains | None, ...]:
    return (after.remains, *after.remains_elsewhere)


def judge_same_storage(case: Case) -> Item | None:
    """Judge whether the host, and what each place lies on, are those from before."""
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
    for what, place in shared:
        was, is_now = then[what, place], now[what, place]
        if what == "drives" and _may_be_same(place, was, is_now, *unknown):
            continue
        if was != is_now:
            reason = f"{what}{_format_of_place(place)} was {was} and is {is_now}"
            return Item(name, _CONTRADICTED, reason, True)
    seen = [place for volume in before.facts.volumes for place in volume.places]
    if lost := [place for place in seen if place in after.facts.unseen]:
        reason = f"{lost[0]} cannot be inspected again: {after.facts.unseen[lost[0]]}"
        return Item(name, _UNSEEN, reason, True)
    same = [what for what, place in shared if not place]
    for volume in before.facts.volumes:
        first = next(iter(volume.places))
        of = _format_of_place(first) if before.facts.volumes[1:] else ""
        same += [f"{w}{of}" for w, place in shared if place == first and w != "path"]
    if not same:
        return Item(name, _UNSEEN, "the host reports nothing of it", False)
    reason = f"same {', '.join(same)}"
    nameless = sorted(
        {name for each in unknown for some in each.values() for name in some}
    )
    if nameless and case.manifest.lab_cut is None:
        reason += (
            f"; {', '.join(nameless)} shows neither a serial nor a WWID, so whether it"
            " is the same drive is not known"
        )
    return Item(name, _PRESENT, reason, True)


def _format_of_place(place: str) -> str:
    return f" of {place}" if place else ""


def _list_storage_identities(facts: TargetFacts) -> dict[tuple[str, str], str]:
    """List the identities of hosts and drives: (what, place) -> its value.

    The place is "" for what is the host's.
    """
    known = {("machine id", ""): facts.machine_id}
    for volume in facts.volumes:
        # With multipath a drive is listed once for each of its paths that is up.
        drives = sorted({d.serial or d.wwid for d in volume.drives} - {""})
        for place, path in volume.places.items():
            known["path", place] = path
            known["filesystem", place] = volume.filesystem_uuid
            known["drives", place] = ", ".join(drives)
    return {key: value for key, value in known.items() if value}


def _find_unidentified_drives(facts: TargetFacts) -> dict[str, set[str]]:
    """Return the names of the drives below each place that nothing identifies."""
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
    """Return True if the drives of a place may be the same: an unknown one may."""
    then, now = set(was.split(", ")), set(is_now.split(", "))
    return len(then - now) <= len(unknown_now[place]) and len(now - then) <= len(
        unknown_then[place]
    )


def judge_not_restored(case: Case) -> Item:
    """Judge whether the data are those that the load was written to, and no copy.

    Only the canaries show that a whole filesystem was put back to before the load: they
    are then gone.  They are also gone if a drive lost all that was ever written to it.
    A copy that is written over the files shows in what no server writes, but so does a
    change of their owner: a row of this run shows that they are no copy from before it.
    Either makes the ctime later; an earlier one is that of a drive that lost writes.
    """
    name, before, after = ItemId.NOT_RESTORED, case.before, case.host
    if case.manifest.lab_cut is LabCut.DRIVE:
        return Item(name, _PRESENT, "the lab's drive keeps its own data", False)
    if before is None or after is None or after.facts is None:
        why = after.failure if before and after else _say_why(case)
        return Item(name, _UNSEEN, f"data directory not inspected ({why})", False)
    then, now = before.facts.made, after.facts.made
    shared = sorted(then.keys() & now.keys())
    for what in shared:
        if then[what] != now[what]:
            where = "the data directory" if what == "." else what
            reason = f"{where} was replaced by a copy"
            return Item(name, _CONTRADICTED, f"{reason} ({now[what]})", False)
    if not shared:
        return Item(name, _UNSEEN, "no file of the data could be identified", False)
    was, is_now = before.facts.changed, after.facts.changed
    touched = [what for what in sorted(was.keys() & is_now) if was[what] < is_now[what]]
    if touched and case.none_there:
        at = datetime.fromtimestamp(is_now[touched[0]] // 10**9, UTC)
        reason = (
            f"{touched[0]}, which no server writes, was changed since the preflight"
            f" (at {at:%Y-%m-%d %H:%M:%S} UTC): an older copy was written over the"
            " data, or its owner was set anew, as by chown at the start or Kubernetes"
            " fsGroup: stop that (fsGroupChangePolicy: OnRootMismatch) and cut again"
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

    Every drive below a place is compared; a drive is known by its serial, for its name
    may change with each boot.  Where the drives alone were cut, a PASS needs more: a
    drive that its kernel shut down first flushed its cache, unless that was seen lost.
    """
    before, after = case.before, case.host
    if before is None or after is None or after.facts is None:
        return None
    counted, silent = count_rises_since(before.facts, after.facts, "unsafe_shutdowns")
    if not counted:
        return None
    more = [f"{name} {number}" for name, number in counted.items()]
    absent = min(counted.values()) <= 0
    reason = f"counted since: {', '.join(more)}"
    if silent:
        reason += f"; {', '.join(silent)} cannot be read"
    status = Status.ABSENT if absent else _PRESENT
    required = case.drive_only and case.shown_depth is not Depth.DRIVE
    return Item(ItemId.UNSAFE_SHUTDOWNS, status, reason, required)


def count_rises_since(
    before: TargetFacts, after: TargetFacts, counter: str
) -> tuple[dict[str, int], list[str]]:
    """Return by how much a counter of each drive rose, and drives that show none.

    By the names that they had before.  counter: a field of model.host.Drive.
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
    """Return every drive below a place, by what is its own."""
    return {
        drive.serial or drive.wwid or drive.name: drive
        for volume in facts.volumes
        for drive in volume.drives
    }


def judge_host_went_down(case: Case) -> Item | None:
    """Judge whether the host itself lost its power, and not the server alone.

    None in a lab that kills the server alone and claims no more, and where
    the drives alone were cut (judge/driveonly.py).
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
    """Judge whether a host whose server ended so, at such a depth, went down."""
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
        how = (
            "nothing recorded how its connections ended"
            if silent is None
            else "its connections were closed, as a reboot closes them"
        )
        return _UNSEEN, (
            f"it has another boot_id, but {how}, and the depth of the cut was not "
            "measured; cut again"
        )
    if booted == "new":
        return _PRESENT, "it has another boot_id"
    if measured is not None:
        return _PRESENT, reason
    return _judge_from_client(end, silent=silent)


def _have_sessions_fallen_silent(case: Case) -> bool | None:
    """Return True if the sessions fell silent, None if nothing recorded their end.

    They do so when their peer has no power, and also when the network between fails.
    """
    if case.load is None or case.tested_name != case.manifest.writer_name:
        return None
    return {Gone.SILENT: True, Gone.BROKEN: False}.get(case.load.gone)


def measure_last_heard_to_kernel_start(case: Case) -> Elapsed | None:
    """Measure the time from the host's last sign of life to its kernel's start.

    None if it did not start anew, as far as is known.  The power was off for no longer.
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
    """Judge by what the connections, the switch and the server's recovery showed."""
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
