"""What the target's host adds to the evidence."""

from __future__ import annotations

from dbcheck.core.depth import Completed, Depth, DepthFinding, Ground, find_depth
from dbcheck.core.evidence import RESTORED, Item, Standing
from dbcheck.core.target import HostAfter, HostBefore, TargetFacts

_PRESENT, _CONTRADICTED = Standing.PRESENT, Standing.CONTRADICTED
_UNSEEN = Standing.NOT_OBSERVABLE


def depth_of(
    before: HostBefore | None, completed: Completed | None, after: HostAfter | None
) -> DepthFinding | None:
    """Return how deep the cut went, None if there were no canaries to tell."""
    if before is None or completed is None or after is None or after.remains is None:
        return None
    facts = before.facts
    cache = facts.layers[0].write_cache if facts.layers else ""
    ground = Ground(facts.filesystem, facts.mount_options, cache)
    return find_depth(completed, after.remains, ground)


def same_storage(before: HostBefore | None, after: HostAfter | None) -> Item | None:
    """Judge whether the host and its drives are those from before."""
    if before is None or after is None or after.facts is None:
        return None
    name = "same storage"
    then, now = _storage(before.facts), _storage(after.facts)
    shared = sorted(then.keys() & now.keys())
    for what in shared:
        if then[what] != now[what]:
            said = f"{what} was {then[what]} and is {now[what]}"
            return Item(name, _CONTRADICTED, said, True)
    if not shared:
        return Item(name, _UNSEEN, "the host tells nothing of it", False)
    return Item(name, _PRESENT, f"same {', '.join(shared)}", True)


def not_restored(
    before: HostBefore | None, after: HostAfter | None, *, lab: str
) -> Item:
    """Judge whether the data are those that the load was written to, and no copy.

    lab: the lab's rung, "" on real hardware; its drive is never given other data.
    Whether a whole filesystem was put back shows in the canaries alone, which went
    back with it; and it shows as well if a drive lost all that it was ever given.
    """
    name = RESTORED
    if lab == "drive":
        return Item(name, _PRESENT, "the lab's drive keeps its own data", False)
    if before is None or after is None or after.facts is None:
        said = "nobody looked at the data directory itself (--target-host)"
        return Item(name, _UNSEEN, said, False)
    then, now = before.facts.made, after.facts.made
    shared = sorted(then.keys() & now.keys())
    for what in shared:
        if then[what] != now[what]:
            where = "the data directory" if what == "." else what
            said = f"{where} is another one: a copy was put in its place"
            return Item(name, _CONTRADICTED, f"{said} ({now[what]})", False)
    if not shared:
        return Item(name, _UNSEEN, "no file of the data could be told", False)
    if after.remains is None or after.remains.missing:
        said = "the canaries of this run are gone with everything else"
        return Item(name, _UNSEEN, said, False)
    return Item(name, _PRESENT, "the data directory and its files are the same", False)


def _storage(facts: TargetFacts) -> dict[str, str]:
    drives = ", ".join(sorted(d.serial or d.wwid for d in facts.drives))
    known = {
        "machine id": facts.machine_id,
        "filesystem": facts.filesystem_uuid,
        "drives": drives.strip(", "),
    }
    return {what: value for what, value in known.items() if value}


def unsafe_shutdowns(before: HostBefore | None, after: HostAfter | None) -> Item | None:
    """Judge the drives' own count of shutdowns without warning, None if none counts."""
    if before is None or after is None or after.facts is None:
        return None
    then = {drive.name: drive.unsafe_shutdowns for drive in before.facts.drives}
    for drive in after.facts.drives:
        old, new = then.get(drive.name), drive.unsafe_shutdowns
        if old is not None and new is not None:
            more = new - old
            return Item(
                "unsafe shutdowns",
                _PRESENT if more > 0 else Standing.ABSENT,
                f"drive {drive.name} counted {more} more",
                False,
            )
    return None


def host_went_down(
    before: HostBefore | None,
    after: HostAfter | None,
    depth: DepthFinding | None,
    *,
    lab: str,
    silent: bool,
) -> Item:
    """Judge whether the host itself lost its power, and not the server alone.

    lab:    the lab's rung, "" on real hardware; its kernel always lives on.
    silent: the sessions fell silent, as they do when their peer has no power.
    """
    name = "host went down"
    measured = depth.depth if depth else None
    said = depth.reasons[0] if depth else ""
    if lab == "process":
        return Item(name, _PRESENT, "the process rung only kills the server", True)
    if measured is Depth.PROCESS:
        return Item(name, _CONTRADICTED, said, True)
    if lab:
        return Item(name, _PRESENT, said or "the lab's drive lost its power", True)
    boots = _boots(before, after)
    if boots == "same":
        said = "its boot_id is the same: the server ended, the host went on"
        return Item(name, _CONTRADICTED, said, True)
    if boots == "new":
        return Item(name, _PRESENT, "it has another boot_id", True)
    if measured is not None:
        return Item(name, _PRESENT, said, True)
    if silent:
        return Item(name, _PRESENT, "its connections fell silent", True)
    return Item(
        name,
        Standing.ABSENT,
        "its connections were closed at once; a host without power cannot do that",
        True,
    )


def _boots(before: HostBefore | None, after: HostAfter | None) -> str:
    if before is None or after is None or after.facts is None:
        return ""
    then, now = before.facts.boot_id, after.facts.boot_id
    if not then or not now:
        return ""
    return "same" if then == now else "new"
