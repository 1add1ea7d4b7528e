"""Judges a cycle: every item of its evidence first, then the fate of its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from dbcheck.judge import (
    after_reading,
    cluster,
    control,
    driveonly,
    flushes,
    host,
    insync,
    load_and_witness,
    server,
    server_end,
    settings,
    timeoff,
    watched,
)
from dbcheck.judge.case import Case
from dbcheck.judge.cluster import diverged, left_behind, survived
from dbcheck.judge.control import judge_control
from dbcheck.judge.diagnosis import by_clients
from dbcheck.judge.headline import cut_named
from dbcheck.judge.host import not_restored
from dbcheck.judge.item import Item, ItemId
from dbcheck.judge.server import not_refilled, same_server, same_tables
from dbcheck.judge.settings import made_durable, settings_of
from dbcheck.judge.verdict import (
    Judgement,
    judge_again,
    judge_agreement,
    judge_conditions,
    judge_index,
    judge_rows,
    judge_unrecoverable,
    not_to_blame,
    stranger,
)
from dbcheck.model.audited import alarming
from dbcheck.model.verdict import ControlOutcome, Verdict

EVIDENCE: tuple[Callable[[Case], Item | None], ...] = (
    load_and_witness.load_at_the_cut,
    insync.in_sync,
    cluster.nodes_cut,
    cluster.all_members,
    cluster.writer_off,
    cluster.promoted_node,
    cluster.all_applied,
    cluster.nodes_agree,
    server_end.not_shut_down,
    host.host_went_down,
    driveonly.drives_gone,
    driveonly.power_cycles,
    driveonly.server_killed,
    driveonly.mounted_anew,
    driveonly.places_cut,
    server_end.server_log,
    server_end.server_log_sql,
    flushes.commits_per_flush,
    load_and_witness.since_checkpoint,
    server_end.log_replayed,
    watched.places,
    host.same_storage,
    host.not_restored,
    host.unsafe_shutdowns,
    host.asked_again,
    load_and_witness.witness_apart,
    watched.switch_depth,
    timeoff.class_of_cut,
    server.restarted,
    server.came_back,
    server.same_server,
    server.not_refilled,
    server.same_settings,
    watched.through_the_load,
    server.same_tables,
    after_reading.prepared,
    after_reading.conditions,
    after_reading.table_check,
    after_reading.dropped_tables,
    after_reading.second_reading,
    server_end.complaints,
    flushes.write_cache,
    timeoff.time_without_power,
    control.control,
    load_and_witness.witness_log,
    load_and_witness.witness_at_the_cut,
    settings.durable_settings,
    cluster.promised_settings,
)

# What a host that lost its power shows of itself.
_OF_THE_HOST = frozenset(
    {
        ItemId.HOST_DOWN,
        ItemId.SERVER_LOG,
        ItemId.REPLAYED,
        ItemId.SAME_STORAGE,
        ItemId.UNSAFE_SHUTDOWNS,
        ItemId.HOST_ASKED_AGAIN,
        ItemId.CUT_CLASS,
        ItemId.TIME_OFF,
    }
)


def evidence(case: Case) -> tuple[Item, ...]:
    """Return each item that applies to *case*.

    Where the node that was read kept its power, its rows depend on nothing that the
    host of the old writer shows: that one is off.
    """
    items = tuple(item for each in EVIDENCE if (item := each(case)) is not None)
    if not case.spared:
        return items
    return tuple(
        replace(item, required=False) if item.id in _OF_THE_HOST else item
        for item in items
    )


def judge(case: Case) -> Judgement:
    """Return the verdict on *case*, with what it rests on."""
    items = evidence(case)
    if case.damage:
        reason = case.damage
        if "damaged" not in reason:
            reason = f"the witness log is damaged: {reason}"
        advice = "Check the witness's disk, or use another witness; then run it again"
        judgement = Judgement(Verdict.INCONCLUSIVE, (f"{reason}. {advice}",), items)
    else:
        judgement = _as_a_cycle(case, items)
    if case.manifest.control:
        strong = made_durable(case.manifest, case.load)
        judgement = judge_control(judgement, case.found, strong)
    judgement = judge_index(judgement, case.found, case.after.index)
    judgement = judge_conditions(judgement, case.found, case.after.conditions)
    judgement = judge_again(judgement, case.found, case.after.again)
    judgement = judge_agreement(judgement, case.found, diverged(case))
    if judgement.verdict is Verdict.FAIL:
        reasons = (*judgement.reasons, *left_behind(case))
        judgement = replace(judgement, reasons=reasons)
    if judgement.control and judgement.verdict is Verdict.FAIL:
        return replace(judgement, control=ControlOutcome.FAILED)
    return judgement


def other_data(case: Case) -> bool:
    """Say whether other data answered than those that took the load."""
    items = [same_server(case), not_refilled(case)]
    items += [not_restored(case), same_tables(case)]
    return stranger([item for item in items if item is not None]) is not None


def _as_a_cycle(case: Case, items: Sequence[Item]) -> Judgement:
    """Judge a run whose witness log is intact, as an ordinary cycle."""
    after = case.after
    explained = settings_of(case).explains_everything
    if after.unanswered:
        return Judgement(Verdict.INCONCLUSIVE, (after.unanswered,), tuple(items))
    if after.failure and (doubt := not_to_blame(items, after.failure)):
        return Judgement(Verdict.INCONCLUSIVE, (doubt,), tuple(items))
    # How deep the old writer's cut went is of no consequence to other rows.
    cut = None if case.spared else case.cut_class
    depth = None if case.spared else case.shown_depth
    if after.failure and stranger(items) is None:
        return judge_unrecoverable(
            after.failure,
            items,
            missing=after.missing,
            explained=explained,
            never_cut=after.facts is None and _is_uncut(case),
            spared=case.page_cache_kept,
            cut=cut_named(cut, depth, items, survived(case), never_cut=_is_uncut(case)),
            acks=sum(log.acks for log in case.logs),
            answers=after.facts is not None,
        )
    return judge_rows(
        case.found,
        items,
        cut,
        depth,
        explained=explained,
        alarms=alarming(case.writer.audit or ()),
        survived=survived(case),
        clients=by_clients(case.found, case.after.decisions),
        never_cut=_is_uncut(case),
    )


def _is_uncut(case: Case) -> bool:
    """Say whether the server's power was surely not cut.

    A record that was lost with the client may have shown a cut, and a switch that was
    asked may have cut without a report.
    """
    load = case.load
    return load is not None and case.cut is None and not load.cut_failed
