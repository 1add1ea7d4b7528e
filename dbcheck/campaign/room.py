"""Makes room for the next cycle once the earlier ones have filled half of it.

Each cycle leaves its rows, which every later one reads again.
"""

from __future__ import annotations

from collections.abc import Callable

from dbcheck.campaign import observable
from dbcheck.campaign.known import Known
from dbcheck.campaign.rig import Rig
from dbcheck.model.records import NodeBefore
from dbcheck.ports import abilities
from dbcheck.ports.listener import Phase
from dbcheck.rows.plans.registry import tables_of
from dbcheck.rows.workload import Workload


def with_room(
    rig: Rig,
    workload: Workload,
    known: Known,
    node: NodeBefore,
    emptied: Callable[[Known], None] | None,
) -> Known:
    """Drop the tables if half of the room is used; return what is known then.

    They stay if they have a row that no cycle has read, which may still have to be
    judged, or one that was found changed: that is evidence, and a doubt of each cycle.
    node:    as it is before the cycle; without its host's facts the tables stay.
    emptied: called before anything is dropped, with what is known once it is: a client
             that ends in between must not make the next one look for those rows.  None
             if the tables must stay.
    Raise TargetChanged if rows that were left are not there now.
    """
    engine, tables = rig.site.writer.engine, tables_of(workload)
    can_drop = abilities.keeps_house(engine)
    if emptied is None or not can_drop or not _is_short(known, node):
        return known
    now = engine.prepare(tables, server=node.facts)
    known.of_tables(now)
    if not all(known.is_sound(name, facts) for name, facts in now.items()):
        return known
    rows = sum(sum(facts.rows_by_epoch.values()) for facts in now.values())
    text = f"{rows:,} rows of earlier cycles, all judged, are dropped to make room"
    rig.listener.phase(Phase.PREFLIGHT, text)
    known = known.without_rows()
    emptied(known)
    observable.discard(engine, tables, node.facts)
    return known


def _is_short(known: Known, node: NodeBefore) -> bool:
    """Say whether less than half is free of what was free before the first cycle."""
    first = known.free_bytes
    free = node.host.facts.data.free_bytes if node.host is not None else None
    if first is None or free is None:
        return False
    return bool(known.tables) and 2 * free < first
