"""Runs that overlap, end early, are judged twice, or whose stored files are damaged."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError, PowerError, RunFormatError, UsageError
from dbcheck.cycle.cycle import run_cycle
from dbcheck.cycle.judging import judge_run
from dbcheck.cycle.outcome import Outcome
from dbcheck.cycle.preflight.before_load import Started, run_preflight
from dbcheck.cycle.preflight.earlier_cycles import NOTHING_KNOWN
from dbcheck.cycle.reconciling import reconcile_run
from dbcheck.engines.mysql import canary as mysql_canary
from dbcheck.lab.lab import list_missing
from dbcheck.lab.spec import LabSpec
from dbcheck.lab.switch import LabSwitch
from tests.kit.lab_access import connect, server_pid
from tests.kit.nodes import having, with_node
from tests.kit.refusals import refused
from tests.kit.rigs import (
    SEED,
    Bench,
    bench,
    listed_ids,
    quick,
    schedule_of,
    store_manifest,
)
from tests.kit.servers import SERVERS
from tests.kit.waiting import wait_until
from tests.planted.fault import FAIL, INCONCLUSIVE, PASS, Fault, engines, faults
from tests.planted.one_cut import OneCut

pytestmark = pytest.mark.planted


# ------------------------------------------------------------- one cut, judged again


def not_restarted(cut: OneCut) -> None:
    """Its connections were killed, yet it never lost power."""
    tell(cut.second, started_us=cut.bench.rig.site.writer.engine.facts().started_us)


def of_another_identity(cut: OneCut) -> None:
    cut.bench.execute(f"delete from {cut.bench.table}")
    identity = cut.second.manifest.writer.facts.identity
    tell(cut.second, identity={**identity, next(iter(identity)): "another"})


TOLD = (
    Fault("the server not restarted", not_restarted, INCONCLUSIVE, says="was not cut"),
    Fault(
        "another server's rows",
        of_another_identity,
        INCONCLUSIVE,
        says="a different server",
    ),
)


@pytest.mark.wide_with("mariadb")
@faults(TOLD)
@engines("one_cut")
def test_facts(cut: OneCut, fault: Fault) -> None:
    fault.plant(cut)
    # The manifest that is kept goes back with the folder.
    stored = replace(cut.second, manifest=cut.second.run.manifest())
    fault.require(cut.bench.judge(stored), cut.bench.engine)


@pytest.mark.wide_with("mariadb")
@engines("one_cut")
def test_a_table_that_is_gone_may_be_an_older_copy(cut: OneCut) -> None:
    """Nobody looked at the host; test_server.py has those where somebody did."""
    with hidden_table(cut):
        outcome = cut.bench.judge(cut.second)
    Fault(
        "gone", lambda: None, INCONCLUSIVE, says="an older copy was restored"
    ).require(outcome, cut.bench.engine)


@contextlib.contextmanager
def hidden_table(cut: OneCut) -> Iterator[None]:
    """Have the ledger bear another name for a while.

    On PostgreSQL its schema, since ALTER TABLE would be seen in the table afterwards.
    """
    schema, _, name = cut.bench.table.rpartition(".")
    kind, own = ("schema", schema) if schema else ("table", name)
    cut.bench.execute(f"alter {kind} {own} rename to hidden")
    try:
        yield
    finally:
        cut.bench.execute(f"alter {kind} hidden rename to {own}")


class Broken(LabSwitch):
    """A switch whose rig broke after the cut."""

    def failure(self) -> str | None:
        raise PowerError("the drive is dead", id=ErrorId.POWER_COMMAND_FAILED)


@engines("one_cut")
def test_a_table_that_the_rig_has_taken_gets_no_verdict(cut: OneCut) -> None:
    """The server came back, and then its drive died: it cannot read any more."""
    rig = with_node(cut.bench.rig, power=Broken(cut.bench.lab.name))
    with (
        hidden_table(cut),
        refused(ErrorId.POWER_COMMAND_FAILED, PowerError, naming="the drive is dead"),
    ):
        reconcile_run(rig, cut.second.run, cut.second.manifest)
    assert cut.bench.judge(cut.second).verdict is PASS


@engines("one_cut")
def test_survivors_are_read_once(cut: OneCut) -> None:
    """What is read later is no evidence, and what was read must not be lost."""
    assert cut.bench.judge(cut.second).verdict is PASS
    cut.bench.execute(f"delete from {cut.bench.table}")
    with refused(ErrorId.SURVIVORS_READ_ALREADY, UsageError):
        cut.bench.judge(cut.second)
    assert judge_again(cut).verdict is PASS


@pytest.mark.wide_with("mariadb")
@engines("one_cut")
def test_a_stored_run_is_judged_again_without_any_server(cut: OneCut) -> None:
    cut.delete(1, 5)
    first = cut.bench.judge(cut.second)
    again = judge_again(cut)
    assert again.verdict is first.verdict is FAIL
    assert again.found is not None
    assert first.found is not None
    assert list(again.found.losses) == list(first.found.losses)


@pytest.mark.wide_with("mariadb")
@engines("one_cut")
def test_a_damaged_copy_of_the_log_gives_no_verdict(cut: OneCut) -> None:
    cut.bench.judge(cut.second)
    log = cut.second.run.acks_path()
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 1
    log.write_bytes(content)
    outcome = judge_again(cut)
    assert outcome.verdict is INCONCLUSIVE
    assert "damaged" in outcome.judgement.reasons[0]


@pytest.mark.wide_with("mariadb")
@engines("one_cut")
def test_torn_survivors_are_refused(cut: OneCut) -> None:
    cut.bench.judge(cut.second)
    survivors = cut.second.run.path / "survivors-ledger.bin"
    survivors.write_bytes(survivors.read_bytes()[:-1])
    with refused(
        ErrorId.STORED_ROWS_DAMAGED, RunFormatError, naming="survivors-ledger.bin"
    ):
        judge_again(cut)


# ----------------------------------------------------------------- cycles of their own


@pytest.fixture(scope="module")
def lab(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bench]:
    """A lab without a drive; the parameter is the engine."""
    spec = LabSpec(request.param, cut="process")
    if lacking := list_missing(spec):
        pytest.skip("; ".join(lacking))
    with bench(spec, tmp_path_factory.mktemp("stored")) as started:
        yield started


@pytest.fixture
def hosted(lab: Bench) -> Bench:
    """The lab with none of the rows of an earlier test."""
    lab.rig.site.writer.engine.drop()
    return lab


@pytest.fixture
def here(hosted: Bench) -> Bench:
    """The same, with its host left alone."""
    return replace(hosted, rig=with_node(hosted.rig, host=None, log_path=""))


@pytest.fixture
def _busy_canary(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait long for the crash canary's table, which another run has locked."""
    monkeypatch.setattr(mysql_canary, "_PLANT_S", 1)


@pytest.mark.wide_with("mariadb")
@engines("lab")
@pytest.mark.usefixtures("_busy_canary")
def test_two_runs_at_once_accuse_nobody(here: Bench) -> None:
    first = run_preflight(here.rig, quick(), SEED)
    second, other = loading(here, 600.0)
    here.loading(first)
    other.join()
    here.rig.site.writer.power.restore()
    for started in (first, second):
        outcome = here.judge(started)
        Fault("two", lambda: None, INCONCLUSIVE, says="a second dbcheck").require(
            outcome, here.engine
        )
        assert outcome.found is not None
        assert outcome.found.foreign > 0


@pytest.mark.wide_with("mariadb")
@engines("lab")
@pytest.mark.usefixtures("_busy_canary")
def test_a_commit_under_way_when_the_table_is_counted_accuses_nobody(
    here: Bench,
) -> None:
    """Its id is from before, and lower than others that were counted."""
    other = run_preflight(here.rig, quick(), SEED + 1)
    other.log.close()
    insert = (
        f"insert into {here.table} (epoch, session, seq, part, payload, checksum)"
        " values (%s, %s, %s, %s, %s, %s)"
    )
    late, soon = (schedule_of(other).row(session, 1)[1:] for session in (1, 2))
    with contextlib.closing(
        connect(here.lab.target_url, here.lab.password)
    ) as connection:
        cursor = connection.cursor()
        cursor.execute("begin")
        cursor.execute(insert, late)
        here.execute(insert, *soon)
        started = run_preflight(here.rig, quick(), SEED)
        cursor.execute("commit")
        cursor.close()
    here.loading(started)
    here.rig.site.writer.power.restore()
    outcome = here.judge(started)
    Fault("late", lambda: None, INCONCLUSIVE, says="a second dbcheck").require(
        outcome, here.engine
    )
    assert outcome.found is not None
    assert outcome.found.foreign == 1


@pytest.mark.wide_with("mariadb")
@engines("lab")
def test_a_row_altered_before_a_run_gives_no_loss(here: Bench) -> None:
    """Only the payload changes; the preflight sums checksums, and sees nothing."""
    first = run_cycle(here.rig, quick(), SEED)
    assert first.verdict is PASS
    here.execute(
        f"update {here.table} set payload = %s where session = 1 and seq = 1",
        b"altered",
    )
    second = run_cycle(here.rig, quick(), SEED + 1)
    said = "it may have been altered before this load; dbcheck clean removes the table"
    Fault("old", lambda: None, INCONCLUSIVE, says=said).require(second, here.engine)
    known = NOTHING_KNOWN.with_outcome(second)
    assert run_cycle(here.rig, quick(), SEED + 2, known=known).verdict is PASS


@pytest.mark.wide_with("mariadb")
@engines("lab")
def test_a_second_run_is_refused_where_the_host_is_asked(hosted: Bench) -> None:
    """Its canaries would write into those of the first, which goes on."""
    started = run_preflight(hosted.rig, quick(), SEED)
    with refused(ErrorId.CANARIES_IN_USE, HostError, naming="canaries are writing"):
        run_preflight(hosted.rig, quick(), SEED)
    hosted.loading(started)
    hosted.rig.site.writer.power.restore()
    outcome = hosted.judge(started)
    assert outcome.verdict is PASS, outcome.judgement.reasons


@pytest.mark.wide_with("mariadb")
@engines("lab")
def test_a_load_that_still_runs_is_not_reconciled(here: Bench) -> None:
    started, other = loading(here, 6.0)
    wait_until(lambda: rows(here) > 100, "rows")
    with refused(ErrorId.RUN_STILL_UNDER_LOAD, UsageError):
        here.judge(started)
    other.join()
    here.rig.site.writer.power.restore()
    assert here.judge(started).verdict is PASS


@engines("lab")
def test_a_server_that_went_by_itself_was_not_cut(here: Bench) -> None:
    """It is killed before its power is to be cut, as by an out-of-memory kill."""
    started, other = loading(here, 600.0)
    wait_until(lambda: rows(here) > 100, "rows")
    here.rig.site.writer.power.cut()
    other.join()
    here.rig.site.writer.power.restore()
    outcome = here.judge(started)
    assert outcome.verdict is INCONCLUSIVE
    assert "the server stopped before its power was cut" in outcome.judgement.reasons[0]


@engines("lab")
@pytest.mark.parametrize("shut_down", [False, True])
def test_a_server_that_somebody_ended_gets_no_verdict(
    here: Bench, shut_down: bool
) -> None:
    """It ends in mid-load without a cut, and nobody starts it again."""
    number = SERVERS[here.engine].stop_signal if shut_down else signal.SIGKILL
    with ended_in_mid_load(here, number) as started:
        with refused(ErrorId.LAB_BROKEN, PowerError, naming="without a cut"):
            here.judge(started)
        assert not started.run.was_read()


@contextlib.contextmanager
def ended_in_mid_load(here: Bench, number: signal.Signals) -> Iterator[Started]:
    """Send the server a signal under a load that is far from its cut."""
    started, other = loading(here, 600.0)
    wait_until(lambda: rows(here) > 100, "rows")
    os.kill(server_pid(here.lab), number)
    other.join()
    try:
        yield started
    finally:
        here.rig.site.writer.power.cut()
        here.rig.site.writer.power.restore()


@pytest.mark.wide_with("mariadb")
@engines("lab")
def test_the_classic_workload(here: Bench) -> None:
    """The table has an id and nothing else."""
    classic = quick("classic", sessions=2)
    assert here.judge(here.cut_cycle(classic)).verdict is PASS
    started = here.cut_cycle(classic)
    table = here.table.replace("ledger", "fs")
    ((last,),) = here.execute(f"select max(id) from {table}")
    here.execute(f"delete from {table} where id = %s", last - 20)
    outcome = here.judge(started)
    assert outcome.verdict is FAIL
    assert listed_ids(started.run) == {last - 20}


@engines("lab", "postgresql")
def test_an_id_that_is_handed_out_twice_in_one_load(here: Bench) -> None:
    """A row is lost under the load, and the next one gets its id.

    InnoDB does that after ALTER TABLE alone, and an altered table gets no verdict.
    """
    started, other = loading(here, 3.0)
    wait_until(lambda: rows(here) > 100, "rows")
    session, seq = take_last(here)
    other.join()
    here.rig.site.writer.power.restore()
    outcome = here.judge(started)
    Fault("again", lambda: None, FAIL, {"missing-hole": 1}).require(
        outcome, here.engine
    )
    assert outcome.found is not None
    assert [loss[1:3] for loss in outcome.found.losses] == [(session, seq)]


def take_last(here: Bench) -> tuple[int, int]:
    """Delete the newest row and have its id handed out again; return its key."""
    table, own = here.table, connect(here.lab.target_url, here.lab.password)
    cursor = own.cursor()
    cursor.execute("begin")
    cursor.execute(f"lock table {table} in access exclusive mode")
    cursor.execute(f"select id, session, seq from {table} order by id desc limit 1")
    ((row_id, session, seq),) = cursor.fetchall()
    cursor.execute(f"delete from {table} where id = %s", (row_id,))
    cursor.execute(f"alter table {table} alter column id restart with {row_id}")
    cursor.execute("commit")
    own.close()
    again = f"select session, seq from {table} where id = %s"
    wait_until(lambda: bool(here.execute(again, row_id)), "the id is handed out again")
    return int(session), int(seq)


def judge_again(cut: OneCut) -> Outcome:
    """Judge what is stored."""
    return judge_run(cut.second.run, cut.bench.rig.reader)


def loading(here: Bench, cut_after_s: float) -> tuple[Started, threading.Thread]:
    """Start a load in a thread of its own."""
    late = replace(quick(), cut_after_s=(cut_after_s, cut_after_s))
    started = run_preflight(here.rig, late, SEED)
    thread = threading.Thread(target=here.loading, args=(started,))
    thread.start()
    return started, thread


def rows(here: Bench) -> int:
    ((count,),) = here.execute(f"select count(*) from {here.table}")
    return int(count)


def tell(started: Started, **facts: Any) -> None:
    """Have the stored manifest say something else of the server before the cut."""
    manifest = started.manifest
    told = having(manifest, facts=replace(manifest.writer.facts, **facts))
    store_manifest(started.run, told)
