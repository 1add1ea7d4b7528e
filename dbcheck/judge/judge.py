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
from dbcheck.judge.cluster import (
    describe_commits_on_old_primary,
    describe_divergence,
    describe_what_was_survived,
)
from dbcheck.judge.control import judge_control
from dbcheck.judge.diagnosis import count_losses_by_clients
from dbcheck.judge.headline import cut_named
from dbcheck.judge.host import judge_not_restored
from dbcheck.judge.item import Item, ItemId
from dbcheck.judge.server import (
    judge_not_refilled,
    judge_same_pod,
    judge_same_server,
    judge_same_tables,
)
from dbcheck.judge.settings import collect_settings, explain_durable_commits
from dbcheck.judge.verdict import (
    Judgement,
    explain_blameless_node,
    find_item_of_other_data,
    judge_after_second_reading,
    judge_agreement,
    judge_conditions,
    judge_index,
    judge_rows,
    judge_unrecoverable,
)
from dbcheck.model.audited import list_alarms
from dbcheck.model.verdict import ControlOutcome, Verdict

EVIDENCE: tuple[Callable[[Case], Item | None], ...] = (
    load_and_witness.judge_load_at_the_cut,
    load_and_witness.judge_fault,
    insync.judge_in_sync,
    timeoff.judge_nodes_cut,
    cluster.judge_all_members,
    cluster.judge_writer_off,
    cluster.judge_promoted_node,
    cluster.judge_cut_while_promoted,
    cluster.judge_all_applied,
    cluster.judge_nodes_agree,
    server_end.judge_not_shut_down,
    host.judge_host_went_down,
    driveonly.judge_drives_gone,
    driveonly.judge_power_cycles,
    driveonly.judge_server_killed,
    driveonly.judge_mounted_anew,
    driveonly.judge_places_cut,
    server_end.judge_server_log,
    server_end.judge_server_log_over_sql,
    flushes.judge_commits_per_flush,
    load_and_witness.judge_log_since_checkpoint,
    server_end.judge_log_replayed,
    watched.places,
    host.judge_same_storage,
    server.judge_same_pod,
    host.judge_not_restored,
    host.judge_unsafe_shutdowns,
    host.judge_readings_after_cut,
    load_and_witness.judge_witness_host,
    watched.judge_depth_of_switch,
    timeoff.judge_class_of_cut,
    server.judge_restarted,
    server.judge_return_of_server,
    server.judge_same_server,
    server.judge_not_refilled,
    server.judge_same_settings,
    watched.judge_looks_during_load,
    server.judge_same_tables,
    after_reading.judge_prepared_transactions,
    after_reading.judge_conditions_among_rows,
    after_reading.judge_table_check,
    after_reading.judge_dropped_tables,
    after_reading.judge_second_reading,
    server_end.judge_complaints,
    flushes.judge_write_caches,
    timeoff.judge_time_off,
    control.judge_control_item,
    load_and_witness.judge_witness_log,
    load_and_witness.judge_witness_at_the_cut,
    settings.judge_durable_settings,
    cluster.judge_promised_settings,
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


def list_evidence(case: Case) -> tuple[Item, ...]:
    """Return each item that applies to *case*.

    Where the node that was read kept its power, its rows depend on nothing that the
    host of the old writer shows: that one is off.
    """
    items = tuple(item for each in EVIDENCE if (item := each(case)) is not None)
    if not case.reader_kept_power:
        return items
    return tuple(
        replace(item, required=False) if item.id in _OF_THE_HOST else item
        for item in items
    )


def judge(case: Case) -> Judgement:
    """Return the verdict on *case*, with what it rests on."""
    items = list_evidence(case)
    if case.damage:
        advice = "Check the witness's disk, or use another witness; then run it again"
        judgement = Judgement(
            Verdict.INCONCLUSIVE, (f"{case.damage}. {advice}",), items
        )
    else:
        judgement = _judge_ordinary_cycle(case, items)
    if case.manifest.control:
        strong = explain_durable_commits(case.manifest, case.load)
        clients = count_losses_by_clients(case.found, case.after.decisions)
        judgement = judge_control(judgement, case.found, strong, clients)
    judgement = judge_index(judgement, case.found, case.after.index)
    judgement = judge_conditions(judgement, case.found, case.after.conditions)
    judgement = judge_after_second_reading(judgement, case.found, case.after.again)
    judgement = judge_agreement(judgement, case.found, describe_divergence(case))
    if judgement.verdict is Verdict.FAIL:
        reasons = (*judgement.reasons, *describe_commits_on_old_primary(case))
        judgement = replace(judgement, reasons=reasons)
    if judgement.control and judgement.verdict is Verdict.FAIL:
        return replace(judgement, control=ControlOutcome.FAILED)
    return judgement


def has_other_data(case: Case) -> bool:
    """Return True if other data answered than those that took the load."""
    items = [judge_same_server(case), judge_not_refilled(case)]
    items += [judge_same_pod(case), judge_not_restored(case), judge_same_tables(case)]
    return (
        find_item_of_other_data([item for item in items if item is not None])
        is not None
    )


def _judge_ordinary_cycle(case: Case, items: Sequence[Item]) -> Judgement:
    """Judge a run whose witness log is intact, as an ordinary cycle."""
    after = case.after
    explained = collect_settings(case).explains_everything
    if after.unanswered:
        return Judgement(Verdict.INCONCLUSIVE, (after.unanswered,), tuple(items))
    if after.failure and (doubt := explain_blameless_node(items, after.failure)):
        return Judgement(Verdict.INCONCLUSIVE, (doubt,), tuple(items))
    # How deep the old writer's cut went is of no consequence to other rows.
    cut = None if case.reader_kept_power else case.cut_class
    depth = None if case.reader_kept_power else case.shown_depth
    if after.failure and find_item_of_other_data(items) is None:
        return judge_unrecoverable(
            after.failure,
            items,
            missing=after.missing,
            explained=explained,
            never_cut=after.facts is None and case.uncut,
            page_cache_kept=case.page_cache_kept,
            cut=cut_named(
                cut,
                depth,
                items,
                describe_what_was_survived(case),
                never_cut=case.uncut,
            ),
            acks=sum(log.acks for log in case.logs),
            answers=after.facts is not None,
        )
    return judge_rows(
        case.found,
        items,
        cut,
        depth,
        explained=explained,
        alarms=list_alarms(case.writer.audit or ()),
        survived=describe_what_was_survived(case),
        clients=count_losses_by_clients(case.found, case.after.decisions),
        never_cut=case.uncut,
    )
