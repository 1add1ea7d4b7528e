"""Every item of evidence, in the order in which reports show them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dbcheck.judge import (
    again,
    cluster,
    commitflush,
    control,
    driveonly,
    ended,
    host,
    insync,
    leftover,
    load,
    places,
    server,
    serverlog,
    settings,
    tablecheck,
    timeoff,
    watched,
    witness,
    writecache,
)
from dbcheck.judge.case import Case
from dbcheck.judge.item import Item, ItemId

EVIDENCE: tuple[Callable[[Case], Item | None], ...] = (
    load.load_at_the_cut,
    insync.in_sync,
    cluster.nodes_cut,
    cluster.all_members,
    cluster.writer_off,
    cluster.promoted_node,
    cluster.all_applied,
    cluster.nodes_agree,
    ended.not_shut_down,
    host.host_went_down,
    driveonly.drives_gone,
    driveonly.power_cycles,
    driveonly.server_killed,
    driveonly.mounted_anew,
    driveonly.places_cut,
    serverlog.server_log,
    serverlog.server_log_sql,
    commitflush.commits_per_flush,
    load.since_checkpoint,
    serverlog.log_replayed,
    places.places,
    host.same_storage,
    host.not_restored,
    host.unsafe_shutdowns,
    host.asked_again,
    witness.witness_apart,
    places.switch_depth,
    timeoff.class_of_cut,
    server.restarted,
    server.came_back,
    server.same_server,
    server.not_refilled,
    server.same_settings,
    watched.through_the_load,
    server.same_tables,
    leftover.prepared,
    tablecheck.conditions,
    tablecheck.table_check,
    tablecheck.dropped_tables,
    again.second_reading,
    serverlog.complaints,
    writecache.write_cache,
    timeoff.time_without_power,
    control.control,
    witness.witness_log,
    witness.witness_at_the_cut,
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
