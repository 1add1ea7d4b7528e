"""Whose fault is a server that is not back: its data's, or perhaps something else's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from dbcheck.judge.absence import Absence, judge_absence
from dbcheck.judge.case import Case
from dbcheck.judge.item import Status
from dbcheck.judge.judge import judge
from dbcheck.judge.server_end import judge_server_log
from dbcheck.model.cut import Cut, Gone
from dbcheck.model.host import LogTail
from dbcheck.model.records import LoadRecord
from dbcheck.model.verdict import Verdict
from tests.kit.cases import case, loaded
from tests.kit.host_samples import BEFORE, after
from tests.kit.nodes import having, host_after
from tests.kit.samples import FACTS
from tests.kit.server_logs import (
    MARIA,
    MARIA_END,
    MARIA_REDO,
    MARIA_START,
    MYSQL,
    MYSQL_START,
    PG_SCANNED,
    PG_SLOT,
    PG_WAL,
)


def _absence(log: LogTail) -> Absence:
    host = replace(after(), log=log)
    return judge_absence(case(BEFORE, host, load=loaded(), off_s=15.0))


@pytest.mark.parametrize("text", [PG_WAL, MARIA_REDO])
def test_a_log_that_is_known_to_its_end_accuses(text: str) -> None:
    found = _absence(LogTail(text, False, False))
    assert found.failure.startswith("it does not start: "), found


@pytest.mark.parametrize("text", [PG_WAL, MARIA_REDO])
def test_a_log_that_goes_on_does_not(text: str) -> None:
    """The start that it ends with need not have been the last."""
    found = _absence(LogTail(text, True, False))
    assert found.failure == ""
    assert "more was logged" in found.doubt


@pytest.mark.parametrize("text", [PG_SLOT, PG_SCANNED])
def test_errors_that_do_not_name_the_data_do_not_accuse(text: str) -> None:
    found = _absence(LogTail(text, False, False))
    assert found.failure == ""
    assert found.doubt


ASKED = loaded(cut=None, cut_failed="it did not answer", gone=Gone.UNSEEN)


def destroyed(boot_id: str, **changed: Any) -> Case:
    """Return the case of a host with that boot_id, whose data keep the server down."""
    return case(BEFORE, after(PG_WAL, boot_id=boot_id), **{"load": ASKED, **changed})


@pytest.mark.parametrize("load", [ASKED, None], ids=["no report", "no record"])
def test_a_switch_that_reported_no_cut_may_have_cut(load: LoadRecord | None) -> None:
    """Whether the host was booted anew decides, as where the whole record is lost."""
    one = destroyed("b2", load=load)
    found = judge_absence(one)
    assert found.failure
    failed = replace(one, after=having(one.after, failure=found.failure))
    assert judge(failed).verdict is Verdict.FAIL


@pytest.mark.parametrize(
    ("cut", "is_doubt"),
    [
        pytest.param(Cut(10_000_000, None), False, id="its switch reported the cut"),
        pytest.param(Cut(None, None), True, id="perhaps nobody pulled the plug"),
    ],
)
def test_a_load_that_an_interrupt_ended_after_its_cut(cut: Cut, is_doubt: bool) -> None:
    load = loaded(cut=cut, gone=Gone.UNSEEN)
    found = judge_absence(destroyed("b2", load=load))
    assert (bool(found.doubt), not found.failure) == (is_doubt, is_doubt)


def test_data_that_a_copy_was_perhaps_written_over_are_not_accused() -> None:
    one = destroyed("b2")
    assert one.before is not None
    facts = replace(one.before.facts, changed={"PG_VERSION": 10})
    one = replace(
        one, manifest=having(one.manifest, host=replace(one.before, facts=facts))
    )
    assert judge_absence(one).failure
    for ctime_ns, is_doubt in ((12, True), (9, False)):
        changed = {"PG_VERSION": ctime_ns}
        now = replace(facts, boot_id="b2", changed=changed)
        host = replace(host_after(one.after), facts=now)
        found = judge_absence(replace(one, after=having(one.after, host=host)))
        assert (bool(found.doubt), not found.failure) == (is_doubt, is_doubt)


def test_a_switch_that_was_asked_alone_proves_no_cut() -> None:
    for one in (destroyed("b1"), destroyed("b1", off_s=15.0)):
        assert judge_absence(one).doubt
    assert judge_absence(case(load=ASKED, off_s=15.0)).doubt


def test_a_switch_that_was_never_asked_did_not_cut() -> None:
    unasked = loaded(cut=None)
    one = destroyed("b2", load=unasked)
    assert judge_absence(one).doubt
    failed = replace(one, after=having(one.after, failure="exit status 1"))
    assert judge(failed).verdict is Verdict.INCONCLUSIVE


DAMAGE = "invalid page in block 3"


@pytest.mark.parametrize(
    ("started_us", "verdict"),
    [
        pytest.param(FACTS.started_us, Verdict.INCONCLUSIVE, id="the same server"),
        pytest.param(FACTS.started_us + 9_000_000, Verdict.FAIL, id="a new one"),
    ],
)
def test_a_table_that_cannot_be_read_is_no_loss_without_a_cut(
    started_us: int, verdict: Verdict
) -> None:
    back = replace(FACTS, started_us=started_us)
    unread = {"facts": back, "failure": DAMAGE}
    judged = judge(case(load=loaded(gone=Gone.NEVER), after=unread))
    assert judged.verdict is verdict
    assert DAMAGE in " ".join(judged.reasons)


OF_MARIA, OF_PG = {"server_uid": "jkeF/2YV89o="}, {"port": "21782"}
MARIA_RECOVERS = (
    f"{MARIA}[Note] InnoDB: Starting crash recovery from checkpoint LSN=9\n"
)
MYSQL_READY = (
    f"{MYSQL}[System] [MY-010931] [Server] /usr/sbin/mysqld: ready for connections."
    " Version: '9.7.4-2'  socket: '/run/mysqld.sock'  port: 3307  (Debian).\n"
)


def logged(text: str, names: Mapping[str, str]) -> Case:
    """Return the case of a server with these names, which is down with that log."""
    facts = replace(FACTS, log_names=names)
    host = replace(after(), log=LogTail(text, False, False))
    return case(BEFORE, host, load=loaded(), off_s=15.0, facts=facts)


@pytest.mark.parametrize(
    ("text", "names", "accuses"),
    [
        pytest.param(MARIA_REDO, OF_MARIA, True, id="MariaDB"),
        pytest.param(MARIA_REDO, {}, True, id="MariaDB, its name unknown"),
        pytest.param(MARIA_REDO, {"server_uid": "x"}, False, id="another MariaDB"),
        pytest.param(
            MARIA_REDO.replace("jkeF", "abcd") + MARIA_REDO, {}, False, id="two MariaDB"
        ),
        pytest.param(PG_WAL, OF_PG, True, id="PostgreSQL"),
        pytest.param(PG_WAL, {"port": "5432"}, False, id="another PostgreSQL"),
        pytest.param(
            PG_WAL.replace("port 2", "port 3") + PG_WAL, {}, False, id="two PostgreSQL"
        ),
    ],
)
def test_a_start_of_another_server_in_the_log_accuses_nobody(
    text: str, names: Mapping[str, str], accuses: bool
) -> None:
    """Several servers may be set to write to one log."""
    found = judge_absence(logged(text, names))
    assert bool(found.failure) is accuses
    assert accuses or "another server" in found.doubt


OTHERS = MARIA_REDO.replace("jkeF", "abcd")
BOUND = (
    f"{MARIA}[ERROR] Can't start server: Bind on TCP/IP port. Got error: 98: Address"
    f" already in use\n{MARIA}[ERROR] Aborting\n"
)
LOCKED = f"{MARIA}[ERROR] InnoDB: Unable to lock ./ibdata1 error: 11\n{MARIA_END}"
MYSQL_REDO = (
    f"{MYSQL_START}{MYSQL}[ERROR] [MY-013089] [InnoDB] Invalid redo log header"
    f" checksum\n{MYSQL}[ERROR] [MY-010119] [Server] Aborting\n"
)
MYSQL_BOUND = (
    f"{MYSQL_START}{MYSQL}[ERROR] [MY-010262] [Server] Can't start server: Bind on"
    f" TCP/IP port: Address already in use\n{MYSQL}[ERROR] [MY-010119] [Server]"
    " Aborting\n"
)


@pytest.mark.parametrize(
    ("text", "names", "accuses"),
    [
        pytest.param(BOUND + MARIA_REDO, OF_MARIA, True, id="its own, after a port"),
        pytest.param(BOUND, OF_MARIA, False, id="a port alone"),
        pytest.param(BOUND + OTHERS, OF_MARIA, False, id="another's, after a port"),
        pytest.param(OTHERS + BOUND, OF_MARIA, False, id="another's, before a port"),
        pytest.param(OTHERS + LOCKED, OF_MARIA, False, id="another's, and a lock"),
        pytest.param(
            MARIA_START + MARIA_RECOVERS + OTHERS + OTHERS,
            OF_MARIA,
            False,
            id="another's twice, beside a recovery",
        ),
        pytest.param(MYSQL_REDO, {"port": "3307"}, True, id="MySQL, its own"),
        pytest.param(
            MYSQL_REDO + MYSQL_BOUND, {"port": "3307"}, False, id="MySQL, a port last"
        ),
        pytest.param(
            MYSQL_READY + MYSQL_REDO + MYSQL_REDO,
            {"port": "3306"},
            False,
            id="MySQL, another that took queries before",
        ),
    ],
)
def test_a_failed_start_of_another_server_is_not_held_against_this_one(
    text: str, names: Mapping[str, str], accuses: bool
) -> None:
    """Also of one that fails before it logs which one it is."""
    assert bool(judge_absence(logged(text, names)).failure) is accuses


@pytest.mark.parametrize(
    ("text", "names", "status"),
    [
        (MARIA_REDO + MARIA_RECOVERS, OF_MARIA, Status.PRESENT),
        (MARIA_REDO + MARIA_RECOVERS, {"server_uid": "x"}, Status.NOT_OBSERVABLE),
        (MARIA_RECOVERS + MYSQL_READY, {"port": "3307"}, Status.PRESENT),
        (MARIA_RECOVERS + MYSQL_READY, {"port": "3306"}, Status.NOT_OBSERVABLE),
    ],
)
def test_a_log_with_starts_of_another_server_proves_no_crash(
    text: str, names: Mapping[str, str], status: Status
) -> None:
    item = judge_server_log(logged(text, names))
    assert item is not None
    assert item.status is status
