"""Judges a stored run; touches no server and no witness."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

from dbcheck import stored
from dbcheck.campaign.cutmoment import at_the_cut, cut_us
from dbcheck.campaign.logs import StoredLogs
from dbcheck.campaign.losscsv import loss_lines
from dbcheck.campaign.outcome import Outcome, to_json
from dbcheck.campaign.settings import Settings, made_durable, settings_of
from dbcheck.core import evidence, hostevidence, placeevidence, serverlog
from dbcheck.core.apart import witness_apart
from dbcheck.core.control import control_item, judge_control
from dbcheck.core.cutclass import CutClass
from dbcheck.core.depth import Depth, DepthFinding
from dbcheck.core.ended import BROKEN, SILENT, Ended, not_shut_down
from dbcheck.core.evidence import Item, Judgement, Standing, Verdict
from dbcheck.core.indexloss import judge_index
from dbcheck.core.reached import reached_item
from dbcheck.core.reconcile import Claim, Reconciliation
from dbcheck.core.records import AfterRecord
from dbcheck.core.server import ServerFacts
from dbcheck.core.target import HostAfter, LogTail
from dbcheck.core.timeoff import TimeOff, time_without_power
from dbcheck.core.writecache import write_cache_item
from dbcheck.errors import LogDamaged
from dbcheck.ports.witness import LogFacts, LogReader
from dbcheck.runs import LoadRecord, Manifest, RunFolder


def judge_run(run: RunFolder, reader: LogReader) -> Outcome:
    """Reconcile a run whose log and survivors are stored; write losses and verdict.

    Nothing is written in a folder that others may change, whose run is only looked at.
    """
    manifest, load, after = run.manifest(), run.load(), run.after()
    off_s = restored.off_s if (restored := run.restore()) else None
    depths = placeevidence.volume_depths(
        manifest.host,
        load.canaries if load else None,
        load.canaries_elsewhere if load else (),
        after.host,
        manifest.cut_class,
    )
    host_facts = manifest.host.facts if manifest.host else None
    depth = placeevidence.least_depth(depths, host_facts)
    shallowest = placeevidence.shallowest(depths)
    items = _items(manifest, load, after, off_s, shallowest)
    if flushes := write_cache_item(host_facts, depths):
        items.append(flushes)
    if time_off := _without_power(manifest, load, off_s, after, depth):
        items.append(time_off)
    if manifest.controls:
        items.append(control_item(manifest.controls))
    settings = settings_of(manifest, load, [each.depth for each in depths])
    spared = placeevidence.page_cache_kept(depths)
    spared |= manifest.lab.get("rung") == "process"
    found, damage = _reconciled(run, reader, manifest, load, after, items)
    if not manifest.control:  # which is to lose by a setting
        kept = found is not None and not found.counts and after.index is None
        items.append(settings.item(kept=kept))
    if damage is not None:
        judgement = _on_a_damaged_log(damage, items)
    else:
        deep = depth.depth if depth else None
        judgement = _judgement(
            found, items, manifest, load, after, settings, deep, spared
        )
    judgement = _with_the_rest(judgement, found, manifest, load, after)
    outcome = Outcome(
        run, manifest, load, after, found, judgement, settings, depth, spared
    )
    shift_us = manifest.wall_us - manifest.clock_us
    lines = loss_lines(found, after.index, shift_us, outcome.before_cut_s)
    if stored.may_write(run.path):
        run.write_lines("losses.csv", lines)
        run.write_verdict(to_json(outcome))
    return outcome


def _reconciled(
    run: RunFolder,
    reader: LogReader,
    manifest: Manifest,
    load: LoadRecord | None,
    after: AfterRecord,
    items: list[Item],
) -> tuple[Reconciliation | None, LogDamaged | None]:
    """Return what the rows show, and why the witness's log shows nothing.

    The first is None where no rows are to be compared.  Adds to *items* what the log
    tells.
    """
    try:
        logs = StoredLogs(run, reader, manifest, load)
        facts = logs.facts()
        items += [_log_item(facts, load), _held_item(facts, load)]
        if after.facts is None or after.failure or _strange(items):
            return None, None
        return _reconcile(run, logs, manifest, load), None
    except LogDamaged as error:
        return None, error


def _on_a_damaged_log(error: LogDamaged, items: Sequence[Item]) -> Judgement:
    damaged = Item("witness log", Standing.CONTRADICTED, str(error), True)
    reasons = (f"the witness log is damaged: {error}",)
    return Judgement(Verdict.INCONCLUSIVE, reasons, (*items, damaged))


def _with_the_rest(
    judgement: Judgement,
    found: Reconciliation | None,
    manifest: Manifest,
    load: LoadRecord | None,
    after: AfterRecord,
) -> Judgement:
    """Return *judgement*, that on the rows, as a control and an index change it."""
    if manifest.control:
        judgement = judge_control(judgement, found, made_durable(manifest, load))
    return judge_index(judgement, found, after.index)


def _judgement(
    found: Reconciliation | None,
    items: Sequence[Item],
    manifest: Manifest,
    load: LoadRecord | None,
    after: AfterRecord,
    settings: Settings,
    depth: Depth | None,
    spared: bool,
) -> Judgement:
    """Judge a run whose witness log is intact, as an ordinary cycle."""
    explained = settings.explains_everything
    if after.unanswered:
        return Judgement(Verdict.INCONCLUSIVE, (after.unanswered,), tuple(items))
    if after.failure and not _strange(items):
        return evidence.judge_unrecoverable(
            after.failure,
            items,
            missing=after.missing,
            explained=explained,
            uncut=_is_gone_uncut(load, after),
            spared=spared,
        )
    cut = manifest.cut_class
    return evidence.judge(found, items, cut, depth, explained=explained)


def _strange(items: Sequence[Item]) -> bool:
    """Say whether other data answered than those that took the load."""
    return evidence.stranger(items) is not None


def _is_gone_uncut(load: LoadRecord | None, after: AfterRecord) -> bool:
    """Say whether no server answers although nobody is known to have cut its power.

    A record that was lost with the client may have shown a cut.
    """
    return after.facts is None and load is not None and load.cut is None


def _items(
    manifest: Manifest,
    load: LoadRecord | None,
    after: AfterRecord,
    off_s: float | None,
    depth: DepthFinding | None,
) -> list[Item]:
    when_cut = at_the_cut(load, manifest.window_acks, after.host)
    lab = str(manifest.lab.get("rung", ""))
    logs = _logs(after)
    crashes = [serverlog.crash_item(name, log) for name, log in logs.items()]
    restarted = _restarted(manifest, after)
    ended = _ended(manifest, load, after, off_s, depth, crashes, restarted)
    items = [evidence.at_risk(when_cut), not_shut_down(when_cut, ended)]
    items += [
        item
        for item in (
            hostevidence.host_went_down(
                manifest.host,
                after.host,
                depth,
                ended,
                lab=lab,
                silent={SILENT: True, BROKEN: False}.get(load.gone) if load else None,
                reset=manifest.cut_class is CutClass.RESET,
                dark_s=_dark_s(manifest, load, after.host) if load else None,
            ),
            *crashes,
            _since_checkpoint(load),
            next(filter(None, map(serverlog.replayed, logs.values())), None),
            placeevidence.places_item(manifest.places, manifest.host),
            hostevidence.same_storage(manifest.host, after.host),
            hostevidence.not_restored(manifest.host, after.host, lab=lab),
            hostevidence.unsafe_shutdowns(manifest.host, after.host),
            hostevidence.asked_again(manifest.host, after.host, lab=lab),
            witness_apart(manifest.apart) if manifest.apart else None,
            reached_item(manifest.reached, manifest.host),
            evidence.class_of_cut(
                manifest.cut_class,
                depth.depth if depth else None,
                assumed=manifest.class_assumed,
            ),
        )
        if item is not None
    ]
    if after.facts is not None:
        before, now = manifest.before, after.facts
        items += [
            *restarted,
            evidence.same_server(before.identity, now.identity),
            evidence.same_settings(before.settings, *_later(manifest, load, now)),
            *evidence.same_tables(_identities(manifest), _identities(after)),
        ]
    return items


def _identities(record: Manifest | AfterRecord) -> dict[str, str]:
    return {name: table.identity for name, table in record.tables.items()}


def _restarted(manifest: Manifest, after: AfterRecord) -> list[Item]:
    """Return the items about the start, the comparison first; none if none answered."""
    if after.facts is None:
        return []
    before, now = manifest.before, after.facts
    return [
        evidence.restarted(
            before.started_us,
            before.started_error_us,
            now.started_us,
            now.started_error_us,
        ),
        *evidence.came_back(after.failed_before),
    ]


def _ended(
    manifest: Manifest,
    load: LoadRecord | None,
    after: AfterRecord,
    off_s: float | None,
    depth: DepthFinding | None,
    crashes: Sequence[Item],
    restarted: Sequence[Item],
) -> Ended:
    """Return what is known of the server's end.

    off_s:     how long the power was off, None if the switch did not measure it.
    crashes:   one item for each of the server's logs: does it show a crash?
    restarted: what _restarted() returned.
    """
    cut = load.cut if load else None
    held = load.canary_held if load else True
    return Ended(
        restarted=restarted[0].standing is not Standing.CONTRADICTED
        if restarted
        else None,
        canary=after.canary if held or after.canary is False else None,
        by_session=manifest.family == "mysql",  # see engines.mysql_canary
        unflushed=manifest.before.product == "MySQL",
        no_canary=manifest.no_canary
        or ("" if held else "the canary's session ended before the cut"),
        logged=any(item.standing is Standing.PRESENT for item in crashes),
        exact=cut is not None and cut.exact_us is not None,
        seen_off=off_s is not None and cut is not None and cut.off_seen,
        recorded=(after.host.shut_down or "") if after.host else "",
        cache_lost=depth is not None and depth.depth in (Depth.OS, Depth.DRIVE),
    )


def _logs(after: AfterRecord) -> dict[str, LogTail]:
    """Return what the server logged since the preflight, by where it was read."""
    logs = {}
    if after.host is not None and after.host.log is not None:
        logs["server's log"] = after.host.log
    if after.log is not None:
        logs["error log over SQL"] = LogTail(after.log, False, False)
    return logs


def _without_power(
    manifest: Manifest,
    load: LoadRecord | None,
    off_s: float | None,
    after: AfterRecord,
    depth: DepthFinding | None,
) -> Item | None:
    if load is None or load.cut is None:
        return None
    report, meant = load.cut.report, None
    if "off_s" in report:
        meant = report["off_s"]
        # What is not a number cannot be reached.
        meant = float(meant) if isinstance(meant, int | float) else math.inf
    time = TimeOff(
        meant_s=meant,
        off_s=off_s,
        seen=load.cut.off_seen,
        by_hand=load.cut.by_hand,
        at_most_s=_dark_s(manifest, load, after.host),
        late_s=max(0, (load.last_ack_us or 0) - (load.switched_us or math.inf)) / 1e6,
        answered_s=_answered_s(load, after),
    )
    found = depth.depth if depth else None
    return time_without_power(manifest.cut_class, time, found)


def _answered_s(load: LoadRecord, after: AfterRecord) -> float | None:
    """Return how long after the last ack the server answered again, in seconds.

    None if that is not known.  The power was off for no longer than that.
    """
    if load.last_ack_us is None or after.answered_us is None:
        return None
    return max(0, after.answered_us - load.last_ack_us) / 1e6


def _dark_s(
    manifest: Manifest, load: LoadRecord, after: HostAfter | None
) -> float | None:
    """Return how long after it was last heard the host's kernel started, in seconds.

    None if that is not known.  The power was off for no longer than that.
    """
    if after is None or after.facts is None or after.wall_us is None:
        return None
    uptime_s = after.facts.uptime_s
    last_us = max(load.last_ack_us or 0, load.heard_us or 0)
    rebooted = hostevidence.boots(manifest.host, after) == "new"
    if not rebooted or uptime_s is None or not last_us:
        return None
    heard_us = last_us + manifest.wall_us - manifest.clock_us
    return (after.wall_us - heard_us) / 1e6 - uptime_s


def _since_checkpoint(load: LoadRecord | None) -> Item | None:
    if load is None or load.log is None:
        return None
    begun, before = ((at.written, at.checkpoint) for at in load.log)
    return evidence.since_checkpoint(begun, before, sum(load.acked.values()))


def _later(
    manifest: Manifest, load: LoadRecord | None, now: ServerFacts
) -> list[tuple[str, Mapping[str, str]]]:
    """Return the settings as they were read again, and when."""
    later = [("after the cut", now.settings)]
    # A control relaxes the server itself where it cannot relax its sessions.
    if load is not None and not manifest.control:
        later.insert(0, ("before the cut", load.settings or {}))
    return later


def _held_item(facts: Sequence[LogFacts], load: LoadRecord | None) -> Item:
    newest = [one.newest_us for one in facts if one.newest_us is not None]
    return evidence.held_at_the_cut(max(newest, default=None), cut_us(load))


def _log_item(facts: Sequence[LogFacts], load: LoadRecord | None) -> Item:
    acks, frames = sum(one.acks for one in facts), sum(one.frames for one in facts)
    said = f"{acks:,} acks in {frames:,} frames"
    said += f" of {len(facts)} logs, chains intact" if facts[1:] else ", chain intact"
    if torn := sum(one.torn_bytes for one in facts):
        said += f", a torn tail of {torn} bytes left out"
    if load:
        said += (
            f"; the window was at most {sum(one.acks for one in load.windows):,} acks"
            f" and {max((one.age_s for one in load.windows), default=0):.3f} s"
        )
    return Item("witness log", Standing.PRESENT, said, True)


def _reconcile(
    run: RunFolder, logs: StoredLogs, manifest: Manifest, load: LoadRecord | None
) -> Reconciliation:
    plan = manifest.plan()
    return plan.judge(
        logs.acks,
        {table.name: partial(run.survivors, table.name) for table in plan.tables},
        before=manifest.tables,
        claim=Claim(load.sent, load.acked) if load else None,
        window_acks=manifest.window_acks,
    )
