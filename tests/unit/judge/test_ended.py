"""Cut, crashed or shut down: what shows which, and what shows nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from dbcheck.judge.case import Case
from dbcheck.judge.item import ItemId, Status
from dbcheck.judge.judge import judge
from dbcheck.judge.server_end import Ended, judge_end, judge_not_shut_down
from dbcheck.model.cluster import ONLY_NODE
from dbcheck.model.cut import Cut, CutDrive, DriveCut, Gone, PowerScope
from dbcheck.model.records import LoadRecord, RestoreRecord
from dbcheck.model.verdict import Tally, Verdict
from dbcheck.model.watched import WatchTally, make_facts_of_settings
from dbcheck.rows.loss import Loss, Losses, LossKind
from dbcheck.rows.reconcile import Reconciliation
from dbcheck.rows.table import LEDGER
from tests.kit.cases import case, loaded
from tests.kit.host_samples import BEFORE
from tests.kit.host_samples import after as host_after
from tests.kit.nodes import having
from tests.kit.samples import ALL_GONE, CLEAN, FACTS
from tests.kit.server_logs import MARIA, PG

CLOSED = loaded()
SILENT = replace(CLOSED, gone=Gone.SILENT)
FAREWELL = replace(SILENT, farewells=("shutting down",))
PRESENT, UNSEEN = Status.PRESENT, Status.NOT_OBSERVABLE
ASSUMED = Status.ASSUMED
AGAINST = Status.CONTRADICTED


@pytest.mark.parametrize(
    ("load", "ended", "status"),
    [
        pytest.param(SILENT, Ended(), UNSEEN, id="silence alone"),
        pytest.param(CLOSED, Ended(), UNSEEN, id="closed"),
        pytest.param(None, Ended(), UNSEEN, id="client lost"),
        pytest.param(CLOSED, Ended(canary=False), PRESENT, id="crash recovery"),
        pytest.param(None, Ended(canary=False), PRESENT, id="client lost, crash"),
        pytest.param(SILENT, Ended(logged=True), PRESENT, id="the log tells"),
        pytest.param(CLOSED, Ended(exact=True), PRESENT, id="a lab's cut"),
        pytest.param(SILENT, Ended(seen_off=True), ASSUMED, id="power seen off"),
        pytest.param(CLOSED, Ended(seen_off=True), UNSEEN, id="soft-off, closed"),
        pytest.param(SILENT, Ended(cache_lost=True), ASSUMED, id="page cache lost"),
        pytest.param(CLOSED, Ended(cache_lost=True), UNSEEN, id="stopped, then cut"),
        pytest.param(
            SILENT, Ended(canary=False, unflushed=True), PRESENT, id="MyISAM, silence"
        ),
        pytest.param(
            CLOSED,
            Ended(canary=False, unflushed=True),
            UNSEEN,
            id="MyISAM, perhaps stopped and then cut",
        ),
        pytest.param(
            SILENT, Ended(canary=True, exact=True), AGAINST, id="canary kept, silent"
        ),
        pytest.param(
            SILENT,
            Ended(canary=True, by_session=True, seen_off=True),
            AGAINST,
            id="committed in the dark",
        ),
        pytest.param(
            CLOSED,
            Ended(canary=True, by_session=True, logged=True, innodb=True),
            AGAINST,
            id="the log shows a crash, the canary none",
        ),
        pytest.param(
            SILENT,
            Ended(canary=True, by_session=True, logged=True, innodb=True, exact=True),
            PRESENT,
            id="the same, and a lab cut the power",
        ),
        pytest.param(
            SILENT, Ended(logged=True, innodb=True), ASSUMED, id="InnoDB's log alone"
        ),
        pytest.param(
            SILENT,
            Ended(logged=True, innodb=True, fast_seen="before the load"),
            UNSEEN,
            id="InnoDB's log, and a setting that explains it",
        ),
        pytest.param(
            SILENT,
            Ended(canary=False, logged=True, innodb=True, fast_seen="before the load"),
            PRESENT,
            id="the same, and the canary is gone",
        ),
        pytest.param(
            FAREWELL,
            Ended(logged=True, innodb=True, drive_only=True),
            AGAINST,
            id="InnoDB's log, and a farewell",
        ),
        pytest.param(FAREWELL, Ended(canary=False, exact=True), AGAINST, id="farewell"),
        pytest.param(
            SILENT,
            Ended(canary=False, recorded="wtmp records the shutdown"),
            AGAINST,
            id="the host recorded its shutdown",
        ),
        pytest.param(
            SILENT, Ended(restarted=False, canary=True), AGAINST, id="never stopped"
        ),
        pytest.param(
            CLOSED, Ended(restarted=False), AGAINST, id="nothing shows a crash"
        ),
        pytest.param(
            FAREWELL, Ended(restarted=False, canary=False), PRESENT, id="crash outlived"
        ),
    ],
)
def test_how_a_server_ended(
    load: LoadRecord | None, ended: Ended, status: Status
) -> None:
    assert judge_end(load, ended)[0] is status


def test_how_it_ended_is_required() -> None:
    item = judge_not_shut_down(case(load=SILENT))
    assert (item.id, item.required) == (ItemId.NOT_SHUT_DOWN, True)


def test_a_server_that_never_stopped_is_not_called_shut_down() -> None:
    status, said = judge_end(CLOSED, Ended(restarted=False, canary=True))
    assert "shut down" not in said


def test_a_crash_beside_a_host_with_power_is_not_called_a_shutdown() -> None:
    words = "WARNING: terminating connection because of crash of another server process"
    status, said = judge_end(replace(CLOSED, farewells=(words,)), Ended())
    assert status is AGAINST
    assert "shutdown" not in said


def test_it_is_said_what_would_have_told() -> None:
    status, said = judge_end(SILENT, Ended(no_canary="the account lacks LOCK TABLES"))
    assert "the account lacks LOCK TABLES" in said


CRASH = (
    f"{PG}LOG:  all server processes terminated; reinitializing\n"
    f"{PG}LOG:  database system was interrupted; last known up at 2026-11-22\n"
    f"{PG}LOG:  database system was not properly shut down; automatic recovery\n"
)


def unchanged(
    log: str = "", drives: Mapping[str, CutDrive] | None = None, **after: Any
) -> Case:
    """Return the case of a server with the start time of before, that lacks a row."""
    lost = Losses.of([Loss(LossKind.MISSING_TAIL, 1, 9, 9, 5, LEDGER.name)])
    found = replace(CLEAN, kept=99, losses=lost)
    scope = PowerScope.HOST if drives is None else PowerScope.DRIVE
    host = host_after(log, boot_id="b1")
    read = {"facts": FACTS, **after}
    one = case(BEFORE, host, load=CLOSED, after=read, scope=scope)
    seen = DriveCut(drives or {}, (), None, (), left=(7,))
    restore = RestoreRecord({ONLY_NODE: 15.0}, {ONLY_NODE: seen})
    return replace(one, found=found, restore=restore)


GONE = {"s1": CutDrive(("sda",), gone=True, names_after=("sda",))}
STAYED = {"s1": CutDrive(("sda",), gone=False, names_after=("sda",))}


@pytest.mark.parametrize(
    ("one", "verdict"),
    [
        pytest.param(unchanged(), Verdict.INCONCLUSIVE, id="nothing"),
        pytest.param(unchanged(canary=True), Verdict.INCONCLUSIVE, id="its canary"),
        pytest.param(unchanged(canary=False), Verdict.FAIL, id="no canary"),
        pytest.param(unchanged(CRASH), Verdict.FAIL, id="a crash in its log"),
        pytest.param(unchanged(drives=GONE), Verdict.FAIL, id="drives gone"),
        pytest.param(unchanged(drives=STAYED), Verdict.INCONCLUSIVE, id="drives there"),
    ],
)
def test_a_server_may_outlive_a_cut_with_the_same_start_time(
    one: Case, verdict: Verdict
) -> None:
    """PostgreSQL recovers from a crash under the same postmaster."""
    assert judge(one).verdict is verdict
    damaged = replace(one, after=having(one.after, failure="invalid page in block 3"))
    assert judge(damaged).verdict is verdict
    intact = judge(replace(one, found=CLEAN))
    assert intact.verdict is Verdict.INCONCLUSIVE, "no PASS without a new start time"
    (item,) = (item for item in intact.items if item.id is ItemId.RESTARTED)
    assert item.required and item.status not in (PRESENT, ASSUMED)


@pytest.mark.parametrize("found", [None, CLEAN], ids=["rows lost", "none lost"])
@pytest.mark.parametrize("failure", ["", "page corruption"], ids=["read", "damaged"])
@pytest.mark.parametrize("logged", [False, True], ids=["no log", "a crash in its log"])
def test_a_server_of_one_process_outlives_no_crash(
    found: Reconciliation | None, failure: str, logged: bool
) -> None:
    """With the start time of before, MySQL's and MariaDB's were not cut."""
    one = unchanged(RECOVERED * logged, canary=False, failure=failure)
    one = replace(one, manifest=replace(one.manifest, family="mysql"))
    judged = judge(replace(one, found=found or one.found))
    assert judged.verdict is Verdict.INCONCLUSIVE
    assert Tally.of([(judged.verdict, "")]).cuts == 0
    statuses = {item.id: item.status for item in judged.items}
    assert statuses[ItemId.RESTARTED] is statuses[ItemId.NOT_SHUT_DOWN] is AGAINST


FAST = "innodb_fast_shutdown"
RECOVERED = f"{MARIA}[Note] InnoDB: Starting crash recovery from checkpoint LSN=9\n"


def of_innodb(
    at_first: str = "1",
    at_looks: str = "1",
    at_the_cut: str = "1",
    at_last: str = "1",
    **after: Any,
) -> Case:
    """Return a case of a MariaDB with that setting, whose log shows recovery."""
    watched = WatchTally(make_facts_of_settings({FAST: at_first}))
    watched.add(1_000_000, make_facts_of_settings({FAST: at_looks}), 1_000_001)
    facts = replace(FACTS, product="MariaDB", settings={FAST: at_first})
    load = loaded(
        gone=Gone.SILENT,
        cut=Cut(9_000_000, None),
        watched=watched.watched(),
        settings={FAST: at_the_cut},
    )
    now = replace(facts, started_us=2 * FACTS.started_us, settings={FAST: at_last})
    read = {"facts": now, **after}
    one = case(
        BEFORE,
        host_after(RECOVERED),
        load=load,
        after=read,
        facts=facts,
        family="mysql",
    )
    return replace(one, found=CLEAN)


@pytest.mark.parametrize(
    ("one", "status"),
    [
        pytest.param(of_innodb(), ASSUMED, id="the log alone"),
        pytest.param(of_innodb(canary=False), PRESENT, id="its canary gone"),
        pytest.param(of_innodb(canary=True), AGAINST, id="its canary there"),
        pytest.param(of_innodb(at_first="2"), UNSEEN, id="set before the load"),
        pytest.param(of_innodb(at_looks="2"), UNSEEN, id="set while it ran"),
        pytest.param(of_innodb(at_the_cut="2"), UNSEEN, id="set before the cut"),
        pytest.param(of_innodb(at_last="2"), UNSEEN, id="set after the cut"),
        pytest.param(of_innodb(at_last="2", canary=False), PRESENT, id="set; a crash"),
    ],
)
def test_a_shutdown_that_leaves_the_log_of_a_crash(one: Case, status: Status) -> None:
    """InnoDB recovers as from a crash after innodb_fast_shutdown = 2."""
    assert judge_not_shut_down(one).status is status


@pytest.mark.parametrize(
    ("found", "log", "started_us", "status"),
    [
        pytest.param(CLEAN, "", 1, PRESENT, id="with rows of the run"),
        pytest.param(ALL_GONE, "", 1, UNSEEN, id="with none of them"),
        pytest.param(None, "", 1, UNSEEN, id="with no table"),
        pytest.param(ALL_GONE, CRASH, 1, PRESENT, id="with none, and a log"),
        pytest.param(ALL_GONE, "", 0, PRESENT, id="of a server that never stopped"),
    ],
)
def test_a_canary_is_gone_from_a_copy_of_before_the_run_as_well(
    found: Reconciliation | None, log: str, started_us: int, status: Status
) -> None:
    """started_us: how much later it started than before the cut."""
    now = replace(FACTS, started_us=FACTS.started_us + started_us)
    read = {"facts": now, "canary": False}
    load = replace(loaded(cut=Cut(9_000_000, None)), gone=Gone.SILENT)
    one = case(BEFORE, host_after(log), load=load, after=read)
    assert judge_not_shut_down(replace(one, found=found)).status is status
