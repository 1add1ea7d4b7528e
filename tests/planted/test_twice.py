"""A second reading after a restart: what the first one alone would have passed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import PowerError, UsageError
from dbcheck.config.workload_file import load
from dbcheck.cycle.judging import judge_run
from dbcheck.cycle.outcome import Outcome
from dbcheck.hosts.host import open_host
from dbcheck.judge.item import ItemId, Status
from dbcheck.ports.site import PodSource
from dbcheck.power.kinds.command import RestartProgram
from dbcheck.rows.differences import SecondReading
from dbcheck.rows.loss import LossKind
from dbcheck.rows.workload import Workload
from dbcheck.runs.folder import RunFolder
from tests.kit.nodes import with_node
from tests.kit.pods import OTHER_UID, POD, Pods, with_volume
from tests.kit.refusals import refused
from tests.kit.rigs import ENGINES
from tests.planted.fault import FAIL, INCONCLUSIVE, PASS, engines
from tests.planted.site import Site

pytestmark = pytest.mark.planted

PAGE_BYTES = 8192  # of PostgreSQL
# The last one may hold a single row, or only what was in flight at the cut.
LOST_PAGES = 3


@dataclass(frozen=True)
class Hand:
    """Restarts the server as a test does it (ports.site.Restarter)."""

    act: Callable[[], object]

    def restart(self) -> None:
        self.act()


def read_twice(
    site: Site,
    restart: Callable[[], object],
    workload: Workload | None = None,
    pods: PodSource | None = None,
) -> Outcome:
    rig = replace(with_node(site.rig, restarter=Hand(restart)), read_twice=True)
    with contextlib.closing(open_host("local:")) as host:
        return replace(site, rig=rig).cycle(
            host=host, log=True, workload=workload, pods=pods
        )


def restarted(site: Site, statement: str = "") -> Callable[[], None]:
    """Return what restarts the server cleanly, and runs a statement on it."""

    def restart() -> None:
        site.server.stop()
        site.server.start()
        if statement:
            site.execute(statement.format(table=site.table, newest=newest(site)))

    return restart


def newest(site: Site) -> int:
    ((row_id,),) = site.execute(f"select max(id) from {site.table}")
    return int(row_id)


def tables_of(site: Site) -> int:
    """Return how many tables dbcheck has on the server."""
    schema = site.table.split(".")[0] if "." in site.table else "dbcheck"
    ((count,),) = site.execute(
        "select count(*) from information_schema.tables where table_schema = %s", schema
    )
    return int(count)


def again_of(outcome: Outcome) -> SecondReading:
    assert outcome.after.again is not None
    return outcome.after.again


def status_of(outcome: Outcome) -> Status:
    (item,) = (i for i in outcome.judgement.items if i.id is ItemId.SECOND_READING)
    return item.status


@pytest.mark.wide_with("mysql")
@engines("own_site", *ENGINES)
def test_rows_that_are_as_they_were_pass(site: Site) -> None:
    outcome = read_twice(site, restarted(site))
    assert outcome.verdict is PASS, outcome.judgement
    again = again_of(outcome)
    assert again == SecondReading(again.rows, orderly=True)
    assert again.rows == site.execute(f"select count(*) from {site.table}")[0][0]
    assert status_of(outcome) is Status.PRESENT


@pytest.mark.wide_with(
    "mysql", "gone-mariadb", "changed-mariadb", "other content-mariadb"
)
@engines("own_site", *ENGINES)
@pytest.mark.parametrize(
    ("statement", "was_there"),
    [
        pytest.param("delete from {table} where id = {newest}", [True], id="gone"),
        pytest.param(
            "update {table} set seq = seq + 1000 where id = {newest}",
            [True, False],
            id="changed",
        ),
        pytest.param(
            "update {table} set payload = '' where id = {newest}",
            [True, False],
            id="other content",
        ),
        pytest.param(
            "insert into {table} (epoch, session, seq, part, payload, checksum)"
            " select epoch, session, seq + 1000, part, payload, checksum from {table}"
            " where id = {newest}",
            [False],
            id="new",
        ),
    ],
)
def test_a_row_that_is_otherwise_is_found(
    site: Site, statement: str, was_there: list[bool]
) -> None:
    outcome = read_twice(site, restarted(site, statement))
    assert outcome.verdict is FAIL, outcome.judgement
    assert outcome.found is not None
    assert not outcome.found.counts, "the first reading alone would have passed"
    assert [row.was_there for row in again_of(outcome).first] == was_there
    assert {row.table for row in again_of(outcome).first} == {"ledger"}
    assert outcome.result.losses == {LossKind.UNSTABLE.value: len(was_there)}
    assert "not the same after a clean restart" in outcome.judgement.reasons[0]
    assert status_of(outcome) is Status.CONTRADICTED


@pytest.mark.wide_with("mariadb", "mysql")
@engines("own_site", *ENGINES)
def test_what_was_decided_after_the_first_reading_is_no_change(site: Site) -> None:
    """The transactions that a cut leaves prepared are decided between the readings."""
    outcome = read_twice(site, restarted(site), replace(load("two-phase"), sessions=4))
    assert outcome.verdict is PASS, outcome.judgement
    assert outcome.after.left_over
    assert again_of(outcome).changed == 0


@engines("own_site", "postgresql")
def test_pages_that_recovery_never_wrote_are_found(site: Site) -> None:
    """Take the last pages of the table away while the server is down."""

    def restart() -> None:
        ((name,),) = site.execute("select pg_relation_filepath('dbcheck.ledger')")
        site.changed = True
        site.server.stop()
        file = Path(site.server.data, name)
        with file.open("r+b") as pages:
            pages.truncate(file.stat().st_size - LOST_PAGES * PAGE_BYTES)
        site.server.start()

    outcome = read_twice(site, restart)
    assert outcome.verdict is FAIL, outcome.judgement
    assert outcome.found is not None
    assert not outcome.found.counts
    again = again_of(outcome)
    assert again.changed > 1
    assert all(row.was_there for row in again.first)
    assert "primary key" in again.index


@pytest.mark.wide_with("mariadb", "mysql")
@engines("own_site", *ENGINES)
def test_a_table_that_is_gone_after_the_restart_fails(site: Site) -> None:
    outcome = read_twice(site, restarted(site, "drop table {table}"))
    assert outcome.verdict is FAIL, outcome.judgement
    _, reason = outcome.judgement.reasons
    assert reason.startswith("unrecoverable: after a clean restart: ")


@pytest.mark.wide_with("mariadb", "mysql")
@engines("own_site", *ENGINES)
def test_a_restart_that_was_none_is_no_second_reading(site: Site) -> None:
    outcome = read_twice(site, lambda: None)
    assert outcome.verdict is INCONCLUSIVE
    assert "was not restarted" in again_of(outcome).not_done
    assert status_of(outcome) is Status.ABSENT


@pytest.mark.wide_with("mysql")
@engines("own_site", *ENGINES)
def test_a_server_that_was_killed_was_not_restarted_cleanly(site: Site) -> None:
    def restart() -> None:
        site.server.kill()
        site.server.start()

    outcome = read_twice(site, restart)
    assert outcome.verdict is INCONCLUSIVE
    assert "no orderly shutdown" in again_of(outcome).not_done


@engines("own_site", "postgresql")
def test_a_restart_that_brings_another_volume_is_no_second_reading(site: Site) -> None:
    """The rows that it lacks were not lost: the pod was given an older copy."""
    # This machine has an id of its own; each start of a container makes another one.
    seen = [replace(POD, machine_id="", container_id="")]

    def restart() -> None:
        site.server.stop()
        site.replace_data(site.clean)
        site.server.start()
        seen[0] = with_volume(replace(seen[0], uid=OTHER_UID), uid="9", handle="vol-9")

    outcome = read_twice(site, restart, pods=Pods(lambda: seen))
    assert outcome.verdict is INCONCLUSIVE, outcome.judgement
    assert "bound to another volume: pvc-0a (uid 9" in outcome.judgement.reasons[0]


@engines("own_site", "postgresql")
def test_a_restart_that_fails_is_reported(site: Site) -> None:
    program = RestartProgram(("sh", "-c", "echo no unit; exit 5"), 10)
    outcome = read_twice(site, program.restart)
    assert outcome.verdict is INCONCLUSIVE
    said = again_of(outcome).not_done
    assert "ended with 5; its output: no unit" in said


@engines("own_site", "postgresql")
def test_a_client_that_ends_meanwhile_leaves_no_pass(site: Site) -> None:
    def end() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read_twice(site, end)
    newest_run = max(site.rig.runs.iterdir())  # a name begins with its time
    outcome = judge_run(RunFolder.open(newest_run), site.rig.reader)
    assert outcome.verdict is INCONCLUSIVE
    assert again_of(outcome).not_done == "the client ended before it was made"


@engines("own_site", "postgresql")
def test_a_second_reading_needs_somebody_who_restarts(site: Site) -> None:
    rig = replace(site.rig, read_twice=True)
    with refused(ErrorId.RESTART_COMMAND_MISSING, UsageError):
        replace(site, rig=rig).cycle()
    assert tables_of(site) == 0, "nothing was touched"


def test_a_program_that_takes_too_long_is_ended() -> None:
    with refused(ErrorId.POWER_COMMAND_TOO_SLOW, PowerError):
        RestartProgram(("sleep", "60"), 0.2).restart()
