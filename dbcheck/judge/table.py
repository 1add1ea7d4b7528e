"""Every item of evidence, in the order in which reports show them."""

from __future__ import annotations

from collections.abc import Callable

from dbcheck.judge import (
    again,
    commitflush,
    control,
    driveonly,
    ended,
    host,
    leftover,
    load,
    places,
    server,
    serverlog,
    settings,
    tablecheck,
    timeoff,
    witness,
    writecache,
)
from dbcheck.judge.case import Case
from dbcheck.judge.item import Item

EVIDENCE: tuple[Callable[[Case], Item | None], ...] = (
    load.load_at_the_cut,
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
    server.same_settings,
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
)


def evidence(case: Case) -> tuple[Item, ...]:
    """Return each item that applies to *case*."""
    return tuple(item for each in EVIDENCE if (item := each(case)) is not None)
