"""Reads the survivors of a run and judges it: at its end, or by a later command."""

from __future__ import annotations

import contextlib
import math
import shlex
from collections.abc import Sequence
from dataclasses import replace

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, LogDamaged, UsageError
from dbcheck.cycle.fault import end_fault_left
from dbcheck.cycle.fetching import fetch_logs, require_no_load
from dbcheck.cycle.judging import judge_run
from dbcheck.cycle.outage import OutageWatch
from dbcheck.cycle.outcome import Outcome
from dbcheck.cycle.preflight.pending_runs import note_judged
from dbcheck.cycle.recovery.after_cut import STANDS, read_survivors
from dbcheck.cycle.recovery.other_nodes import describe_nodes_left_off
from dbcheck.cycle.recovery.second_reading import require_restarter
from dbcheck.cycle.recovery.waiting import REFUSED_S
from dbcheck.cycle.restored import restored_copy
from dbcheck.cycle.rig import Rig
from dbcheck.model.cluster import Weakens
from dbcheck.model.records import Manifest
from dbcheck.model.witness import LogFacts
from dbcheck.ports.listener import Phase
from dbcheck.ports.site import Site
from dbcheck.runs.folder import RunFolder
from dbcheck.runs.records import read_manifest

LEFT_OFF = (
    "this run {cut} the power ({kind}), and has no record that it restored the power. "
    "If the host is still off, {do}"
)


def reconcile_run(rig: Rig, run: RunFolder, manifest: Manifest) -> Outcome:
    """Read the survivors, fetch the witness's log, and judge.

    Raise UsageError if the survivors were read before, as later rows prove nothing, or
    if another client's run of this id is on the witness.  If the server had not come
    back, no survivor was read: they are read now, and the failure stays on record.
    """
    rig = lead_as_in_run(rig, manifest)
    with run.locked():
        require_same_site(rig.site, manifest)
        end_fault_left(rig, run)
        require_restarter(rig)
        _require_same_run(rig, run)
        if run.was_read() and run.read_certain_failure() is None:
            raise UsageError(
                f"the survivors of run {manifest.run_id} were read already",
                id=ErrorId.SURVIVORS_READ_ALREADY,
                hint="Judge what was read then: "
                f"dbcheck reconcile {shlex.quote(str(run.path))} --offline.",
            )
        fetched = fetch_logs(rig, run, manifest)
        left_off = ""
        if manifest.is_cut:
            left_off = _describe_power_left_off(rig, run, manifest)
        if manifest.copy is not None:
            with restored_copy(rig, run) as restored:
                outcome = read_and_judge(restored, run, manifest, fetched, REFUSED_S)
            if left_off:  # only now may it start, and ship what it has
                rig.listener.phase(Phase.POWER, left_off)
            return outcome
        if left_off:
            rig.listener.phase(Phase.POWER, left_off)
        try:
            outcome = read_and_judge(rig, run, manifest, fetched, REFUSED_S)
        except EngineError as error:
            error.hint = f"{left_off}\n  {error.hint}" if left_off else error.hint
            raise
        undo_weakening(rig)
        return outcome


def _describe_power_left_off(rig: Rig, run: RunFolder, manifest: Manifest) -> str:
    """Return the advice for power that a client cut and did not restore.

    "" if the client restored the power or never cut it, or if only a human can restore
    it.  dbcheck does not restore it here: somebody may be at work on the host by now.
    The command in another client's run is not shown: somebody might run it.
    """
    node, promise = manifest.writer, manifest.promise
    is_away = promise is not None and not promise.writer_returns
    if not is_away and (not node.restore_command or run.restore() is not None):
        return ""
    load = run.load()
    cut = load is not None and any(seen.cut for seen in load.nodes.values())
    asked = run.cut_asked() is not None
    asked = asked or _read_log_facts(rig, run).cut_announced
    if not cut and not asked:
        return ""
    if is_away:
        return describe_nodes_left_off([manifest.writer_name], manifest.site)
    return LEFT_OFF.format(
        cut="cut" if cut else "may have cut",
        kind=node.power.value,
        do=f"run: {node.restore_command}"
        if run.is_own()
        else "restore the power with its switch",
    )


def _read_log_facts(rig: Rig, run: RunFolder) -> LogFacts:
    """Return the facts of the run's first log, empty ones if it is damaged."""
    with contextlib.suppress(LogDamaged):  # the judgement will report the damage
        return rig.reader.facts(run.acks_path(), run.manifest().run_id, 0, None)
    return LogFacts(0, 0, 0, None, ())


def lead_as_in_run(rig: Rig, manifest: Manifest) -> Rig:
    """Return *rig*, led by the node that took the load of a run, if it has that node.

    In a campaign another node may take the load of each cycle, and another promise may
    be tested: the site has that promise, if it is one of the target's.
    """
    site, name, promise = rig.site, manifest.writer_name, manifest.promise
    if promise and promise in rig.promises and promise is not site.promise:
        site = site.promising(promise)
    if name != site.writer_name and name in site.nodes:
        site = site.led_by(name)
    return rig if site is rig.site else replace(rig, site=site)


def require_same_site(site: Site, manifest: Manifest) -> None:
    """Raise UsageError for a run whose nodes are not the nodes of *site*."""
    ours = (site.kind, site.promise, site.writer_name, set(site.nodes))
    theirs = (
        manifest.site,
        manifest.promise,
        manifest.writer_name,
        set(manifest.nodes),
    )
    if ours != theirs:
        raise UsageError(
            f"run {manifest.run_id} was made on another site"
            f" ({manifest.site.value}; nodes: {', '.join(sorted(manifest.nodes))})",
            id=ErrorId.SITE_DIFFERS_FROM_RUN,
            hint="Name the target as it was named for the run.",
        )


def _require_same_run(rig: Rig, run: RunFolder) -> None:
    """Raise UsageError if the witness has another client's run of this id.

    The witness refused this run then.  The log there is the other run's, without any
    ack of this run.
    """
    ours = run.manifest()
    run_id = ours.run_id
    where = f"the manifest of run {run_id} on {rig.witness.url}"
    theirs = read_manifest(rig.witness.manifest(run_id), where)
    if (theirs.epoch, theirs.seed) != (ours.epoch, ours.seed):  # drawn at random
        raise UsageError(
            f"run {run_id} on {rig.witness.url} belongs to another client",
            id=ErrorId.RUN_OF_OTHER_CLIENT,
            hint="This run was never started on that witness; there is nothing to "
            "judge.",
        )


def undo_weakening(rig: Rig) -> None:
    """Undo the settings that a control changed on the server; never raises.

    It may be called only once the survivors were read, or if none will be.  A control
    whose commits no other node has changes none, and its writer may be off.
    """
    if Weakens.for_promise(rig.site.promise) is Weakens.REPLICATION:
        return
    try:
        text = rig.site.writer.engine.restore_durability()
    except EngineError as error:
        text = (
            "not every setting that the control changed is back; what is not, stays"
            f" until the server restarts: {error}"
        )
    if text:
        rig.listener.phase(Phase.CONTROL, text)


def read_and_judge(
    rig: Rig,
    run: RunFolder,
    manifest: Manifest,
    fetched: Sequence[int],
    refused_s: float = math.inf,
    outage: OutageWatch | None = None,
) -> Outcome:
    """Read the survivors, judge.

    fetched: the lengths of the witness's logs when they were fetched.
    refused_s: see read_survivors(); a login that worked before the cut is waited for.
    outage: see read_survivors().
    All that is judged, now or --offline, is stored once the survivors are.  The logs
    were fetched before, so no ack came after the survivors.  The client's record of the
    load, written when all its sessions had ended, stays true if a log grows.
    """
    if run.load() is None:
        _recall_load(rig, run)
    earlier_failure = run.read_certain_failure()
    read_survivors(rig, run, manifest, earlier_failure, refused_s, outage)
    if outage is not None:
        outage.finish(None)
    try:
        require_no_load(rig, manifest, fetched)
    except UsageError:
        run.forget_survivors(earlier_failure)
        raise
    rig.listener.phase(Phase.JUDGE, str(run.path))
    outcome = judge_run(run, rig.reader, rig.listener.progress)
    if earlier_failure is None or not outcome.judgement.other_data:
        if run.was_read():
            note_judged(rig, manifest.run_id)
        return outcome
    rig.listener.phase(Phase.JUDGE, f"{outcome.judgement.reasons[0]}; {STANDS}")
    run.forget_survivors(earlier_failure)
    return judge_run(run, rig.reader, rig.listener.progress)


def _recall_load(rig: Rig, run: RunFolder) -> None:
    """Take the client's record of the load from the witness, if it is there."""
    if (sealed_load := _read_log_facts(rig, run).sealed_load) is not None:
        run.recall_load(*sealed_load, f"the load record in {run.acks_path()}")
