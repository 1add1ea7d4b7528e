"""Judges whether the same server came back, with the same settings, and restarted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dbcheck.judge.case import Case
from dbcheck.judge.cutmoment import find_cut_us
from dbcheck.judge.driveonly import judge_drives_gone
from dbcheck.judge.item import Item, ItemId, Status
from dbcheck.judge.server_end import Ended, decide_how_server_ended
from dbcheck.judge.watched import LATE_S, describe_changes_of_tables
from dbcheck.model.cluster import SiteKind, compare_lineage
from dbcheck.model.pods import (
    Pod,
    PodsAfter,
    compare_pods,
    find_pod_of_server,
    list_primaries,
    shows_no_restart,
)
from dbcheck.model.records import AfterRecord, Manifest
from dbcheck.model.server import ServerFacts
from dbcheck.model.watched import FactKind
from dbcheck.rows.table import PLAIN

# Beginnings of settings that a node which takes over may change: it takes writes, and
# other nodes are to follow it.
_SETTINGS_OF_ROLE = (
    "read_only",
    "super_read_only",
    "rpl_semi_sync_",
    "synchronous_standby_names",
)

_HOW_REPLACED = "truncated, rewritten or recreated"


def judge_restarted(case: Case) -> Item | None:
    """Judge whether the server process is another one than before the cut.

    None if no server answered, or if the node that was read kept its power.  A PASS
    needs another process.  The same process contradicts a cut unless it outlived it.
    """
    before, after, end = (
        case.tested.facts,
        case.after.facts,
        decide_how_server_ended(case),
    )
    if after is None or end.restarted is None:
        return None
    status = Status.CONTRADICTED
    unchanged = "the server's start time did not change"
    reason = f"{unchanged}: its power was not cut"
    if case.cut is not None and case.cut.by_hand:
        reason += "; pull the plug of this very host, and cut again"
    if end.restarted:
        status = Status.PRESENT
        apart_us = after.started_us - before.started_us
        reason = f"it started {apart_us / 1e6:.1f} s after the one that took the load"
        if apart_us < 0:
            reason = (
                "another process answers; the server's clock was set back meanwhile"
            )
    elif outlived := _explain_outliving_process(case, end):
        status = Status.ABSENT
        reason = f"{unchanged}: its host was not cut, but {outlived}"
    return Item(ItemId.RESTARTED, status, reason, required=True)


def _explain_outliving_process(case: Case, end: Ended) -> str:
    """Explain how the main process may have outlived a cut, "" if nothing shows that.

    PostgreSQL's postmaster starts its processes anew after a crash and keeps its own
    start time (restart_after_crash).
    """
    if end.outlived_crash:
        return "it recovered from a crash"
    gone = judge_drives_gone(case)
    if gone is not None and gone.status is Status.PRESENT:
        return "its drives lost their power and came back"
    return ""


def judge_return_of_server(case: Case) -> Item | None:
    """Say that a server first failed to come back, and took queries only later.

    None if it came back by itself, or not at all.
    """
    earlier_failure = case.after.failed_before
    if case.after.facts is None or not earlier_failure:
        return None
    reason = (
        f"the server did not come back after the cut ({earlier_failure}), and took"
        " queries only later; a PASS needs one that comes back by itself"
    )
    return Item(ItemId.CAME_BACK, Status.CONTRADICTED, reason, required=True)


def judge_same_server(case: Case) -> Item | None:
    """Judge whether the server that came back is the one that took the load.

    None if no server answered.
    """
    if case.after.facts is None:
        return None
    before, after = case.writer.facts.identity, case.after.facts.identity
    reader = case.manifest.nodes[case.after.reader_name]
    promoted_identity = reader.facts.identity if case.promoted else None
    lineage = compare_lineage(
        case.manifest.site, before, after, promoted=promoted_identity
    )
    status, reason = Status.NOT_OBSERVABLE, lineage.unknown
    if lineage.other:
        status, reason = Status.CONTRADICTED, lineage.other
    elif not reason:
        status, reason = Status.PRESENT, f"same {', '.join(lineage.same)}"
    return Item(ItemId.SAME_SERVER, status, reason, required=True)


def judge_not_refilled(case: Case) -> Item | None:
    """Say that other servers may have given this one back what it had lost.

    None if nothing shows that.  A copy of another server's data may lack rows that this
    server had, and data that came in beside its own rows may have deleted some of them.
    How many is not known: a restart since then sets the count to 0, and PostgreSQL's
    count lags.  (Emptying a table at once gives it another identity: see
    judge_same_tables().)  If the server does not show whether data came in, none is
    assumed to have come.
    """
    after, refill = case.after, case.after.refill
    if refill is None:
        return None
    deleted = 0 if after.failure else after.deleted or 0  # no DELETE damages data
    status = Status.ABSENT
    harm = "rows that it lost may have come back from other servers"
    if refill.unknown:
        status = Status.ASSUMED
    elif refill.replaces:
        status = Status.CONTRADICTED
        harm = "its data may be another server's copy, so no row was judged"
    elif deleted:
        status = Status.CONTRADICTED
        harm += (
            f", and {deleted:,} that it had were deleted since its start, perhaps from"
            " there as well, so no row was judged"
        )
    reason = f"the server {refill.how}: {harm}. {refill.advice}"
    return Item(ItemId.NOT_REFILLED, status, reason, required=True)


def judge_same_settings(case: Case) -> Item | None:
    """Judge whether the durability settings stayed as they were.

    None if no server answered.
    """
    if case.after.facts is None:
        return None
    status, reason = _compare_settings(_list_later_settings(case, case.after.facts))
    return Item(ItemId.SAME_SETTINGS, status, reason, required=True)


def _list_later_settings(
    case: Case, now: ServerFacts
) -> list[tuple[str, Mapping[str, str], Mapping[str, str]]]:
    """Return (when, settings before, settings then) for each time they were read again.

    Each node is compared with itself.
    """
    reader = case.manifest.nodes[case.after.reader_name].facts.settings
    readings = [("after the cut", reader, now.settings)]
    if case.promoted or case.manifest.site.is_group:  # a group elects its writer anew
        readings = [
            (
                "after the cut",
                _select_own_settings(reader),
                _select_own_settings(now.settings),
            )
        ]
    # A control weakens the server itself where it cannot weaken its sessions.
    if case.load is not None and not case.manifest.control:
        before = case.writer.facts.settings
        readings.insert(
            0, (_format_age_of_settings(case), before, case.load.settings or {})
        )
        # Only settings that a look found changed are on record.
        changed = dict(case.load.settings_seen(find_cut_us(case)))
        then = {name: before[name] for name in changed if name in before}
        readings.insert(0, ("while the load ran", then, changed))
    return readings


def _format_age_of_settings(case: Case) -> str:
    """Return when the settings were read, in words, with their age if it is high.

    Later changes are seen by the looks through the load, see judge.watched.
    """
    load, went_us = case.load, find_cut_us(case)
    if load is None or load.settings_us is None or went_us is None:
        return "before the cut"
    age_s = (went_us - load.settings_us) / 1e6
    return f"{age_s:.1f} s before the cut" if age_s > LATE_S else "before the cut"


def _select_own_settings(settings: Mapping[str, str]) -> Mapping[str, str]:
    """Return the settings that a node keeps whichever role it has."""
    return {
        name: value
        for name, value in settings.items()
        if not name.startswith(_SETTINGS_OF_ROLE)
    }


def _compare_settings(
    readings: Sequence[tuple[str, Mapping[str, str], Mapping[str, str]]],
) -> tuple[Status, str]:
    """Compare the settings that were read at both times; name one that differs.

    A setting that was read at only one of two times neither changed nor stayed the
    same.
    """
    compared: list[str] = []
    once: dict[str, None] = {}
    unread = [when for when, before, settings in readings if before and not settings]
    for when, before, settings in readings:
        shared = sorted(before.keys() & settings.keys())
        for setting in shared:
            then, now = before[setting], settings[setting]
            if then != now:
                reason = f"{setting} was {then}, and {now} {when}"
                return Status.CONTRADICTED, reason
        compared += [f"{len(shared)} unchanged {when}"] if shared else []
        once |= dict.fromkeys(sorted(before.keys() ^ settings.keys()))
    if not compared:
        return Status.NOT_OBSERVABLE, "no setting was read again"
    if unread:
        reason = f"they could not be read {' and '.join(unread)}"
        return Status.NOT_OBSERVABLE, reason
    if once:
        reason = f"{', '.join(compared)}; not read each time: {', '.join(once)}"
        return Status.ASSUMED, reason
    return Status.PRESENT, ", ".join(compared)


def judge_same_tables(case: Case) -> Item | None:
    """Compare the tables before the load with what they were while it ran and after it.

    A rewrite may keep every row, so another identity alone proves no fault.  But the
    rows then lie in files that most of the load was not written to, so another identity
    prevents a PASS, and so does an identity that is no longer known.  Another storage
    engine contradicts that the table took the load, and so does an object that somebody
    added, such as a trigger, which can change, hide or double rows.  None if no server
    answered, or if the nodes of the cluster have no common identities.
    """
    if case.after.facts is None:
        return None
    name = ItemId.SAME_TABLE
    if engines := case.after.engines:
        shown = ", ".join(
            f"{table} is a table of {now}" for table, now in engines.items()
        )
        reason = f"{shown} now, another storage engine than the load was written to"
        return Item(name, Status.CONTRADICTED, reason, required=True)
    if added := describe_changes_of_tables(case, FactKind.TABLE) or _find_added_objects(
        case
    ):
        return Item(name, Status.CONTRADICTED, added, required=True)
    copied = case.promoted and case.manifest.site is not SiteKind.STREAMING
    if copied or case.manifest.site.is_group:
        return None  # each node gives its tables numbers of its own
    status, reason = Status.NOT_OBSERVABLE, "the tables were not read to their end"
    if case.after.tables or case.found is not None:
        status, reason = _compare_tables(
            _list_table_identities(case.manifest), _list_table_identities(case.after)
        )
    rewritten = status is Status.ABSENT
    if altered := _find_altered_tables(case, rewritten=rewritten):
        status, reason = Status.CONTRADICTED, altered
    return Item(name, status, reason, required=True)


def _compare_tables(
    before: Mapping[str, str], after: Mapping[str, str]
) -> tuple[Status, str]:
    """Compare the tables' identities; an identity that is not known is ""."""
    known = [name for name in before if before[name]]
    changed = [
        name for name in known if after.get(name) and after[name] != before[name]
    ]
    gone = [name for name in known if not after.get(name)]
    problems = []
    if changed:
        problems.append(
            f"{_format_tables(changed)} {_HOW_REPLACED} since the load began"
        )
    if gone:
        problems.append(
            f"{', '.join(gone)}: the server showed a number of it before the load, and"
            " shows none now, as of a table that was partitioned or made anew in"
            " another storage engine, or to an account that lost a right"
        )
    if problems:
        return Status.ABSENT, "; ".join(problems)
    if unknown := [name for name in before if not before[name]]:
        reason = f"{', '.join(unknown)}: no number of it was shown before the load"
        return Status.ASSUMED, reason
    return Status.PRESENT, f"{_format_tables(known)} not {_HOW_REPLACED}"


def _find_added_objects(case: Case) -> str:
    """Return the objects at the tables that dbcheck did not create, in words, or ""."""
    return "; ".join(
        f"the table {name} has {objects} since the load began"
        for name, table in case.after.tables.items()
        if (objects := table.definition.besides) not in ("", PLAIN)
    )


def _find_altered_tables(case: Case, *, rewritten: bool) -> str:
    """Return the tables that somebody altered, by the server's catalogs, "" if none.

    rewritten: a table was rewritten, which gives it another version in any case.
    """
    seen_during_load = (
        "" if rewritten else describe_changes_of_tables(case, FactKind.TABLE_VERSION)
    )
    alterations = [seen_during_load] if seen_during_load else []
    for name, table in case.manifest.tables.items():
        then, now = table.definition, case.after.tables.get(name, table).definition
        pairs = [(then.columns, now.columns)]
        pairs += [] if rewritten else [(then.version, now.version)]
        if any(a and b and a != b for a, b in pairs):
            alterations.append(
                f"somebody altered the table {name} since the load began"
            )
    return "; ".join(alterations)


def _format_tables(tables: Sequence[str]) -> str:
    verb = "was" if len(tables) == 1 else "were"
    return f"{', '.join(tables)} {verb}"


def _list_table_identities(record: Manifest | AfterRecord) -> dict[str, str]:
    return {name: table.identity for name, table in record.tables.items()}


def judge_same_pod(case: Case) -> Item | None:
    """Judge whether each server that was cut is in its pod's place again.

    That is the same node, and the same volumes.  None if none was in a pod.  If the
    node that was read kept its power, its pod alone counts, and it must be the very
    pod from before; where a whole group was cut, the pods of all of its nodes count.
    """
    reader_name = case.after.reader_name
    names = [reader_name]
    if not case.reader_kept_power:
        names += [name for name in case.cut_names if name != reader_name]
    found = [
        _judge_pod(case, name, pod)
        for name in names
        if (pod := case.manifest.nodes[name].pod) is not None
    ]
    if not found:
        return None
    order = (Status.CONTRADICTED, Status.NOT_OBSERVABLE, Status.PRESENT)
    status = min((status for status, _ in found), key=order.index)
    reason = "; ".join(reason for each, reason in found if each is status)
    return Item(ItemId.SAME_POD, status, reason, required=True)


def _judge_pod(case: Case, name: str, then: Pod) -> tuple[Status, str]:
    """Judge the pod of one node, which was in the pod *then* before the load."""
    node = case.after.nodes.get(name)
    seen = node.pods if node else None
    if seen is None:
        why = "Kubernetes was not asked after the cut: reconcile asks it with --name"
        return Status.NOT_OBSERVABLE, why
    if seen.failure:
        why = f"Kubernetes could not be asked after the cut: {seen.failure}"
        return Status.NOT_OBSERVABLE, why
    is_read = name == case.after.reader_name and not case.manifest.site.is_group
    primaries = _list_primaries_now(case, seen) if is_read else []
    if len(primaries) > 1:
        named = " and ".join(pod.named for pod in primaries)
        return Status.CONTRADICTED, f"more than one pod is a primary now: {named}"
    facts = node.host.facts if node and node.host else None
    cgroup = facts.container.cgroup if facts and facts.container else ""
    # A node that took over, or whose server does not answer, is known by its pod.
    by_role = is_read and not case.promoted and case.after.facts is not None
    now, doubt = find_pod_of_server(seen.pods, cgroup, is_primary=by_role, known=then)
    if now is None:
        return Status.NOT_OBSERVABLE, f"after the cut, {doubt}"
    if primaries and now != primaries[0]:
        read = f"the server that was read is in {now.named}"
        return Status.CONTRADICTED, f"{read}, and {primaries[0].named} is the primary"
    was_cut = by_role and not case.reader_kept_power
    if was_cut and not cgroup and shows_no_restart(then, now):
        why = "is shown with its container from before the cut: no restart was reported"
        return Status.NOT_OBSERVABLE, f"{now.named} {why}"
    return _judge_place_of_pod(case, name, then, now)


def _list_primaries_now(case: Case, seen: PodsAfter) -> list[Pod]:
    """List the primaries but for the pod of an old writer that another took over from.

    It may be off, and then nobody takes the label of a primary from it.
    """
    old = case.writer.pod.uid if case.promoted and case.writer.pod else ""
    return [pod for pod in list_primaries(seen.pods) if pod.uid != old]


def _judge_place_of_pod(
    case: Case, name: str, then: Pod, now: Pod
) -> tuple[Status, str]:
    """Judge whether the pod *now* is where *then* was, on the same volumes."""
    paths = [place.path for place in case.manifest.nodes[name].places if place.path]
    compared = compare_pods(then, now, paths)
    if compared.changed:
        reason = f"{now.named} {compared.changed}"
        if then.node != now.node and not case.promoted and len(case.cut_names) == 1:
            reason += f": the power of {now.node} was not cut"
        return Status.CONTRADICTED, reason
    if case.reader_kept_power and then.uid != now.uid:
        why = "is another pod than before, although the power of its node was not cut"
        return Status.CONTRADICTED, f"{now.named} {why}"
    if compared.unseen:
        return Status.NOT_OBSERVABLE, f"{now.named}: {compared.unseen}"
    claims = ", ".join(volume.claim for volume in now.volumes if volume.claim)
    on = f"on the same volumes ({claims})" if claims else "with the same volumes"
    reason = f"{now.named} is on node {now.node} again, {on}"
    if then.uid != now.uid:
        reason += f"; it was made anew, as another pod than {then.named} from before"
    return Status.PRESENT, reason
