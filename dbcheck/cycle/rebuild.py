"""Makes a cluster whole again between two cuts: every node back behind one writer.

dbcheck overwrites a node only by the means that the user named for it, and only once
the rows that this node alone may hold were read, or if none are missing.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace

from dbcheck.base import interrupt
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import DbcheckError, EngineError
from dbcheck.cycle.outcome import Outcome
from dbcheck.cycle.preflight.earlier_cycles import NOTHING_KNOWN
from dbcheck.cycle.preflight.members import require_all_in_place, require_in_place
from dbcheck.cycle.recovery.pods_again import (
    close_hosts,
    find_pods_again,
    has_restarted,
)
from dbcheck.cycle.recovery.survivors import Survivors
from dbcheck.cycle.rig import Rig
from dbcheck.model.cluster import Promise, judge_settings_for_promise
from dbcheck.model.cut import PowerState
from dbcheck.model.pods import Pod
from dbcheck.model.verdict import Verdict
from dbcheck.ports.listener import Phase
from dbcheck.ports.site import Node, Site
from dbcheck.rows.differences import Digest
from dbcheck.rows.table import TableSpec
from dbcheck.runs.folder import RunFolder

POLL_S = 0.5
STILL_S = 5.0  # until a node that follows already counts as one that does not
# The same where the writer itself came back: the others follow it by themselves, as
# PostgreSQL's standbys, which try every 5 s (manual, wal_retrieve_retry_interval).
RETURNED_S = 20.0


def find_writer(site: Site, expected: str) -> str:
    """Return the name of the node that takes writes, *expected* if it does.

    Raise EngineError if none does, or several others do.
    """
    if site.promise is None or site.nodes[expected].engine.takes_writes():
        return expected
    found = [name for name, node in site.nodes.items() if node.engine.takes_writes()]
    if len(found) == 1:
        return found[0]
    which = f"{' and '.join(found)} do" if found else "no node does"
    raise EngineError(
        f"{expected} takes no writes, and {which}",
        id=ErrorId.CLUSTER_HAS_NO_WRITER,
        hint="Repair the cluster, so that one node takes writes and the others follow"
        " it; then try again.",
    )


def require_old_writer_read(site: Site, failed: RunFolder) -> None:
    """Raise DbcheckError if rows that only the old writer may hold were not read.

    One that somebody made follow the new writer is not overwritten.
    failed: a run that lost commits.  Without a loss the old writer alone has none.
    """
    name, after = failed.manifest().writer_name, failed.after()
    if not site.brings_back or after.reader_name == name:
        return
    found = after.elsewhere.get(name)
    is_read = found is not None and found.rows is not None
    led = site.led_by(find_writer(site, after.reader_name))
    if not is_read and _describe_stray(led, name):
        raise DbcheckError(
            f"commits are missing, and {name}, which may still hold them, was not read:"
            " it is not overwritten",
            id=ErrorId.OLD_WRITER_NOT_READ,
            hint="Save its data folder first. Then make it a standby yourself, and"
            " continue with --resume.",
        )


def lead_by_writer(site: Site) -> Site:
    """Return *site*, led by the node that takes writes; raise EngineError if none does.

    It is another one than the user named, as after earlier cuts.
    """
    return site.led_by(find_writer(site, site.writer_name))


def may_have_lost(outcome: Outcome) -> bool:
    """Return True if rows are missing after a run that is not a control.

    Also after an INCONCLUSIVE one, where another node may have them.
    """
    found = outcome.found
    missing = found is not None and any(
        (*found.own_counts.values(), *found.earlier_counts.values())
    )
    is_control = outcome.manifest.control
    return not is_control and (missing or outcome.verdict is Verdict.FAIL)


def rebuild_after_pass(rig: Rig, outcome: Outcome) -> None:
    """Have the nodes of a cluster follow the new writer, if somebody is to do that.

    After another verdict they stay as they are, as evidence.  An error is shown: the
    verdict stands without it.
    """
    site = rig.site
    if outcome.verdict is not Verdict.PASS or not site.kept_off or not site.rebuilt:
        return
    try:
        rebuild_cluster(rig, outcome.run)
    except DbcheckError as error:
        rig.listener.phase(Phase.REBUILD, f"failed: {error.with_hint}")


def rebuild_cluster(
    rig: Rig,
    last: RunFolder,
    *,
    keeps_data: bool = False,
    settings: Mapping[str, str] | None = None,
) -> Rig:
    """Return *rig*, led by the node that takes writes, with all other nodes behind it.

    last: the newest run whose rows were read.  keeps_data: where the writer itself came
    back, no node's data are replaced: rows that it lacks may be on a node that was not
    read.  settings: of a writer on which commits waited as they are to wait; None:
    those of the last run.
    Return once each node follows, commits wait for a standby if they did then, and
    every node holds the same rows in dbcheck's tables.  Raise DbcheckError if that is
    not so within the time that a server may take to come back.
    """
    rig = _find_nodes(rig, last)
    name = find_writer(rig.site, last.after().reader_name)
    site, began_s = rig.site.led_by(name), time.monotonic()
    rig = replace(rig, site=site)
    others = [other for other in site.nodes if other != name]
    detail = f"{', '.join(others)}: to follow {name}"
    rig.listener.phase(Phase.REBUILD, detail)
    off = list[str]()
    if rig.find_nodes is None:  # pods were found once each node had power
        off = [other for other in others if may_be_off(site.nodes[other])]
    has_returned = name == last.manifest().writer_name
    # A node that follows the old writer must not take what it alone holds.
    late = {*off, last.manifest().writer_name}
    for other in sorted(others, key=late.__contains__):
        if other in off:
            site.nodes[other].power.restore()
        if has_returned:
            _await_answer(rig, other)
        if not (has_returned and keeps_data):
            _rebuild_node(rig, other, RETURNED_S if has_returned else STILL_S)
    waited = last.manifest().writer.facts.settings if settings is None else settings
    _await(rig, lambda: _describe_not_in_place(site, waited))
    _await(rig, lambda: _describe_difference(rig, last))
    verb, took_s = "follow" if others[1:] else "follows", time.monotonic() - began_s
    rig.listener.phase(
        Phase.REBUILD,
        f"{', '.join(others)} {verb} {name}, with the same rows, after {took_s:.1f} s",
    )
    return rig


def _find_nodes(rig: Rig, last: RunFolder) -> Rig:
    """Return *rig* with its nodes where they are now, if they are in pods.

    Each gets its power back first: a pod that nothing runs cannot be found.
    Raise TargetChanged before anything is rebuilt if it is another cluster now.
    """
    if rig.find_nodes is None:
        return rig
    manifest, after, load = last.manifest(), last.after(), last.load()
    restarted = {name for name, seen in load.nodes.items() if seen.cut} if load else {}
    off = [
        name
        for name, node in rig.site.nodes.items()
        if may_be_off(node, manifest.nodes[name].pod)
    ]
    for name in off:
        rig.site.nodes[name].power.restore()
    leads = after.reader_name
    site = find_pods_again(rig, manifest, leads, {*restarted, *off})
    close_hosts(rig.site)
    engine, known = site.writer.engine, NOTHING_KNOWN.with_run(manifest, after)
    known.require_same(leads, engine.target, engine.facts())
    return replace(rig, site=site)


def may_be_off(node: Node, pod: Pod | None = None) -> bool:
    """Return True if the node's power is off, or if that cannot be read and is likely.

    pod: that of its server before the cut.  Raise PowerError.
    """
    state = node.power.state()
    if state is PowerState.UNKNOWN:
        return not (node.engine.accepts() or has_restarted(node, pod))
    return state is PowerState.OFF


def _await_answer(rig: Rig, name: str) -> None:
    """Wait for a node that starts by itself, for as long as a server may take."""
    engine, ends_s = rig.site.nodes[name].engine, time.monotonic() + rig.limits.return_s
    while time.monotonic() < ends_s:
        with contextlib.suppress(EngineError):
            engine.received()
            return
        interrupt.raise_if_interrupted()
        time.sleep(POLL_S)


def _rebuild_node(rig: Rig, name: str, still_s: float) -> None:
    """Have the node *name* follow the writer, unless it does so within *still_s*."""
    engine, ends_s = rig.site.nodes[name].engine, time.monotonic() + still_s
    while why := _describe_stray(rig.site, name):
        if time.monotonic() >= ends_s or engine.takes_writes():
            rig.listener.phase(Phase.REBUILD, f"{why}; it is made to follow")
            rig.site.rebuild(name)
            return
        interrupt.raise_if_interrupted()
        time.sleep(POLL_S)


def _describe_stray(site: Site, name: str) -> str:
    """Return why the node *name* does not follow the writer, "" if it does."""
    try:
        require_in_place(site, name)
    except EngineError as error:
        return str(error)
    return ""


def _await(rig: Rig, describe: Callable[[], str]) -> None:
    """Return once *describe* returns ""; raise EngineError if it does not in time."""
    ends_s = time.monotonic() + rig.limits.return_s
    while why := describe():
        interrupt.raise_if_interrupted()
        if time.monotonic() >= ends_s:
            raise EngineError(
                f"the cluster is not whole again after {rig.limits.return_s:g} s:"
                f" {why}",
                id=ErrorId.NODE_NOT_REBUILT,
                hint="The log of that node says why. Repair it, then continue with"
                " --resume; dbcheck_wait_s gives it more time.",
            )
        time.sleep(POLL_S)


def _describe_not_in_place(site: Site, waited: Mapping[str, str]) -> str:
    """Return what the cluster lacks of what it was before the last cut, "" if nothing.

    waited: settings of the writer then.
    A new writer with other settings than the old one would test another promise.
    """
    try:
        require_all_in_place(site)
        now = site.writer.engine.facts().settings
        if not site.kind.is_group and _waits(site, waited):
            with closing(site.writer.engine.open_followers()) as followers:
                awaited = any(one.is_awaited for one in followers.read())
            if not (_waits(site, now) and awaited):
                return (
                    f"no commit on {site.writer_name} waits for a standby, and on the"
                    " old writer it did: give it that one's settings"
                )
        received = {n: node.engine.received() for n, node in _list_members(site)}
    except EngineError as error:
        return str(error)
    for name, node in received.items():
        if not node.connected or node.position != node.applied:
            return f"{name} has not applied all that it received"
    return ""


def _waits(site: Site, settings: Mapping[str, str]) -> bool:
    """Return True if commits wait for a standby under *settings* of the writer."""
    kept = judge_settings_for_promise(site.kind, Promise.WRITER_GONE, settings, {})
    return not kept.contradiction


def _list_members(site: Site) -> list[tuple[str, Node]]:
    """Return the nodes that take transactions of others: all of a group."""
    nodes = site.nodes.items()
    return [(n, one) for n, one in nodes if site.kind.is_group or n != site.writer_name]


def _describe_difference(rig: Rig, last: RunFolder) -> str:
    """Return which node has other rows than the writer, "" if all have the same."""
    tables = last.manifest().plan().tables
    digests = {}
    for name, node in rig.site.nodes.items():
        try:
            digests[name] = _digest_rows(rig, last, node, tables)
        except EngineError as error:
            return f"the rows of {name} could not be read: {error}"
    writer = digests[rig.site.writer_name]
    for name, found in digests.items():
        for table in tables:
            if found[table] != writer[table]:
                return (
                    f"{name} has {found[table].rows:,} rows in {table.name}, and"
                    f" {rig.site.writer_name} has {writer[table].rows:,} or others"
                )
    return ""


def _digest_rows(
    rig: Rig, last: RunFolder, node: Node, tables: Sequence[TableSpec]
) -> dict[TableSpec, Digest]:
    facts = replace(node.engine.facts(), may_follow=True)
    survivors = Survivors(rig, last, last.manifest(), facts, node)
    digests = {}
    for table in tables:
        digests[table] = Digest()
        for records in survivors.inspected(table):
            digests[table].add(records)
    if survivors.index:
        raise EngineError(survivors.index.reason, id=ErrorId.NODE_NOT_REBUILT)
    return digests
