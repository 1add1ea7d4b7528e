"""Damage that needs a window: a load without the task ends, and nothing is lost.

Each fault is planted twice, beside the task and without it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dbcheck.config.workload_file import load
from dbcheck.cycle.outcome import Outcome
from dbcheck.judge.result import to_values
from dbcheck.rows.acks import HOUSEKEEPING_SESSION
from dbcheck.rows.loss import LossKind
from dbcheck.rows.tasks import TaskKind
from dbcheck.rows.workload import Workload
from tests.kit.server_logs import PAGE_BYTES
from tests.kit.waiting import wait_until
from tests.planted.fault import FAIL, PASS, engines
from tests.planted.site import Site, spoil

pytestmark = pytest.mark.planted

TASKS = 8  # done by the time the server is killed
OPERATIONS = 60  # of each session, if there are no tasks
HEADER_BYTES = 24  # of a page of PostgreSQL
VISIBLE = b"\x55"  # two bits for each of four pages: all rows are visible to everyone

beside = pytest.mark.parametrize("are_there", [True, False], ids=["tasks", "none"])


def inserts(*kinds: TaskKind) -> Workload:
    """Return a load of inserts, slow enough that they fit into one segment of WAL."""
    loads = replace(load("insert"), sessions=2, rate=200.0, payload_bytes=(500,))
    return replace(loads, housekeeping=kinds, cut_after_s=(0.5, 0.5))


def changes(*kinds: TaskKind) -> Workload:
    """Return a load that updates, deletes and rolls back, too."""
    return replace(inserts(*kinds), plan=load("mixed").plan, operations=MIX)


MIX = load("mixed").operations


def done(site: Site, *, tasks: bool) -> int:
    """Return how many tasks of this run are done, or how many operations."""
    newest = f"(select epoch from {site.table} order by id desc limit 1)"
    ((count,),) = site.execute(
        f"select count(*) from {site.table} where epoch = {newest}"
        f" and session {'=' if tasks else '<>'} {HOUSEKEEPING_SESSION}"
    )
    return int(count)


def wait_for(site: Site, *, tasks: bool) -> None:
    """Return once so many tasks of this run are done, or operations if it has none."""
    enough = TASKS if tasks else OPERATIONS
    wait_until(lambda: done(site, tasks=tasks) >= enough, "enough is done")


def wait_for_more(site: Site, more: int, *, tasks: bool) -> None:
    enough = done(site, tasks=tasks) + more
    wait_until(lambda: done(site, tasks=tasks) >= enough, "more is done")


def recovered(site: Site) -> None:
    site.changed = True
    site.server.start()
    wait_until(lambda: site.rig.site.writer.engine.ready() is None, "server is back")


def lost(outcome: Outcome) -> set[LossKind]:
    assert outcome.found is not None, outcome.judgement
    return {loss.kind for loss in outcome.found.losses}


def file_of(site: Site, table: str) -> Path:
    ((path,),) = site.execute(f"select pg_relation_filepath('dbcheck.{table}')")
    return site.server.data / str(path)


# ------------------------------------------------------------ checkpoint and rotate


@beside
@engines("own_site", "postgresql")
def test_a_page_that_a_checkpoint_wrote_and_the_drive_lost(
    site: Site, *, are_there: bool
) -> None:
    """Without a checkpoint the log still has all that the page had."""
    found: list[Path] = []

    def cut() -> None:
        wait_for(site, tasks=are_there)
        # That query marked rows of the page, so it was written to the log anew.
        wait_for_more(site, 3, tasks=are_there)
        found.append(file_of(site, "ledger"))
        site.server.kill()

    def restore() -> None:
        (file,) = found
        content = bytearray(file.read_bytes())
        content[:PAGE_BYTES] = bytes(PAGE_BYTES)
        file.write_bytes(content)
        recovered(site)

    kinds = (TaskKind.CHECKPOINT,) if are_there else ()
    outcome = site.cycle(cut, restore, workload=inserts(*kinds))
    if are_there:
        assert outcome.verdict is FAIL, outcome.judgement
        # What the canary's session wrote before the load is missing whole.
        assert lost(outcome) == {LossKind.MISSING_HOLE, LossKind.MISSING_TAIL}
    else:
        assert outcome.verdict is PASS, outcome.judgement


@beside
@engines("own_site", "postgresql")
def test_a_file_of_the_log_whose_name_did_not_last(
    site: Site, *, are_there: bool
) -> None:
    """As before PostgreSQL 9.5.2, whose renames of segments were not durable."""
    site.execute("select pg_switch_wal()")
    site.execute("checkpoint")
    ((first,),) = site.execute("select pg_walfile_name(pg_current_wal_lsn())")

    def cut() -> None:
        wait_for(site, tasks=are_there)
        site.server.kill()

    def restore() -> None:
        for file in (site.server.data / "pg_wal").iterdir():
            if file.is_file() and file.name > first:
                file.unlink()
        recovered(site)

    kinds = (TaskKind.ROTATE,) if are_there else ()
    slow = replace(inserts(*kinds), rate=60.0)
    outcome = site.cycle(cut, restore, workload=slow)
    if are_there:
        assert outcome.verdict is FAIL, outcome.judgement
        assert lost(outcome) == {LossKind.MISSING_TAIL}
    else:
        assert outcome.verdict is PASS, outcome.judgement


# ---------------------------------------------------------------- vacuum and rewrite


@contextlib.contextmanager
def snapshot(site: Site) -> Iterator[None]:
    """Keep VACUUM from removing what is deleted from now on."""
    with contextlib.closing(site.connect()) as connection:
        cursor = connection.cursor()
        cursor.execute("begin isolation level repeatable read")
        cursor.execute("select 1 from pg_class")
        ((horizon,),) = site.execute(
            "select backend_xmin is not null from pg_stat_activity"
            " where state = 'idle in transaction'"
        )
        assert horizon
        yield


@beside
@engines("own_site", "postgresql")
def test_pages_that_vacuum_marked_and_the_mark_stayed(
    site: Site, *, are_there: bool
) -> None:
    """An index then answers for the table: with rows that were deleted since."""

    def cut() -> None:
        wait_for(site, tasks=are_there)
        with snapshot(site):
            wait_for_more(site, 200, tasks=False)
            site.server.kill()

    def restore() -> None:
        recovered(site)
        for table in ("ledger", "register", "item"):
            spoil(site, table, mark)

    def mark(file: Path) -> None:
        visible = file.with_name(f"{file.name}_vm")
        assert visible.exists() == are_there
        if are_there:
            content = visible.read_bytes()
            marks = VISIBLE * (len(content) - HEADER_BYTES)
            visible.write_bytes(content[:HEADER_BYTES] + marks)

    kinds = (TaskKind.CREATE, TaskKind.VACUUM) if are_there else ()
    outcome = site.cycle(cut, restore, workload=changes(*kinds))
    if are_there:
        assert outcome.verdict is FAIL, outcome.judgement
        assert lost(outcome) == set()
        assert to_values(outcome.result)["losses"].keys() == {"index-mismatch"}
    else:
        assert outcome.verdict is PASS, outcome.judgement


@engines("own_site", "postgresql")
def test_a_table_that_was_rewritten_into_a_file_that_the_drive_lost(
    site: Site,
) -> None:
    """Without a rewrite there is no such file."""

    def cut() -> None:
        wait_for(site, tasks=True)
        site.server.kill()

    def restore() -> None:
        recovered(site)
        spoil(site, "side1", empty)

    kinds = (TaskKind.CREATE, TaskKind.REWRITE)
    outcome = site.cycle(cut, restore, workload=inserts(*kinds))
    assert outcome.verdict is FAIL, outcome.judgement
    assert lost(outcome) == {LossKind.TORN}


def empty(file: Path) -> None:
    file.write_bytes(bytes(file.stat().st_size))
