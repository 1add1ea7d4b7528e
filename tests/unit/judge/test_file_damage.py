"""What real servers logged of damaged files, and of what was not their data's fault.

tools/damage made the damage and the causes, one at a time, and recorded the logs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from dbcheck.judge.absence import Absence, judge_absence
from dbcheck.judge.item import Status
from dbcheck.judge.server_end import judge_crash_in_log
from dbcheck.model.host import LogTail
from tests.kit.cases import case, loaded
from tests.kit.host_samples import BEFORE, VOLUME, after
from tools.damage import sweep
from tools.damage.__main__ import DOCUMENT, RESULTS, page, recorded, results
from tools.damage.sweep import NO_DAMAGE, Line

judged = cache(sweep.judged)
LINES = recorded()
DOWN = [line for line in LINES if line.verdict in ("FAIL", "INCONCLUSIVE")]
# The log of a server that these keep from starting does not show that its data are
# damaged: people write such a file, a setting may look the same, or it says nothing.
NOT_SHOWN = {
    "PostgreSQL": {
        *("postgresql.conf", "pg_hba.conf", "catalog pg_authid"),
        *("catalog pg_database", "PG_VERSION", "PG_VERSION of a database"),
        "catalog pg_class",
    },
    "MariaDB": {
        *("system tablespace", "Aria log", "Aria system table, data"),
        "system table definition",
    },
    "MySQL": {
        *("system tablespace", "undo tablespace", "table", "RSA key", "binary log"),
        *("CA certificate", "server certificate", "server key"),
    },
    "MariaDB with MyRocks, no binary log": {
        *("tc.log", "MyRocks CURRENT", "MyRocks MANIFEST", "MyRocks OPTIONS"),
    },
}


def name(line: Line) -> str:
    return f"{line.product}, {line.kind}, {line.damage}"


def of(product: str, kind: str, damage: str) -> Line:
    return next(
        line
        for line in LINES
        if (line.product, line.kind, line.damage) == (product, kind, damage)
    )


def absence(text: str) -> Absence:
    host = replace(after(), log=LogTail(text, False, False))
    return judge_absence(case(BEFORE, host, load=loaded(), off_s=15.0))


@pytest.mark.parametrize(
    "line", [line for line in DOWN if line.damage != NO_DAMAGE], ids=name
)
def test_damage_that_keeps_a_server_down_is_blamed_if_its_log_shows_it(
    line: Line,
) -> None:
    if line.verdict == "FAIL" or line.kind not in NOT_SHOWN[line.product]:
        assert judged(line).verdict == "FAIL"
    else:
        assert judged(line) == line


def test_the_pages_show_what_dbcheck_concludes_today() -> None:
    lines = [judged(line) for line in LINES]
    text = DOCUMENT.read_text("utf-8")
    assert results(lines) == RESULTS.read_text("utf-8")
    assert page(text, lines) == text
    for line in lines:
        assert f"| {line.kind} |" in text or line.damage == NO_DAMAGE
        assert line.kind in text


def as_syslog(said: str) -> str:
    return f"Nov 27 07:58:41 db1 mariadbd[123]: {said}"


def as_journal(said: str) -> str:
    return f"2026-11-27T07:58:41.123456+0100 db1.lan postgres[123]: {said}"


def as_json(said: str) -> str:
    return json.dumps({"__CURSOR": "s=1", "MESSAGE": said, "_PID": "123"})


@pytest.mark.parametrize("kept", [as_syslog, as_journal, as_json])
def test_a_log_shows_the_same_where_syslog_or_the_journal_keeps_it(
    kept: Callable[[str], str],
) -> None:
    for line in DOWN:
        said = line.log.split("\n")
        there = replace(line, log="\n".join(kept(each) for each in said), verdict="")
        assert judged(there).verdict == judged(line).verdict, name(line)


@pytest.mark.parametrize(
    "line", [line for line in LINES if line.damage == NO_DAMAGE], ids=name
)
def test_what_is_not_the_datas_fault_is_never_blamed_on_them(line: Line) -> None:
    assert judged(line).verdict in ("INCONCLUSIVE", "harmless")


@pytest.mark.parametrize("line", DOWN, ids=name)
def test_a_start_that_fails_is_no_shutdown(line: Line) -> None:
    """Whatever made it fail, and however often it is tried."""
    status, _ = judge_crash_in_log(LogTail(line.log * 2, False, False))
    assert status is not Status.CONTRADICTED
    assert "shut down" not in judged(line).why.split("; ")[0]


@pytest.mark.parametrize("product", ["PostgreSQL", "MariaDB", "MySQL"])
def test_a_start_that_fails_at_its_port_hides_no_crash(product: str) -> None:
    failed, whole = of(product, "port in use", NO_DAMAGE).log, healthy(product)
    status, _ = judge_crash_in_log(LogTail(failed + whole, False, False))
    assert status is Status.PRESENT


def healthy(product: str) -> str:
    """Return what a server logs that recovers and takes queries."""
    return next(
        line.log
        for line in LINES
        if (line.product, line.verdict) == (product, "harmless")
        and judge_crash_in_log(LogTail(line.log, False, False))[0] is Status.PRESENT
    )


@pytest.mark.parametrize(
    ("product", "kind", "damage"),
    [
        ("PostgreSQL", "WAL", "gone"),
        ("MariaDB", "redo log", "gone"),
        ("MySQL", "data dictionary", "gone"),
    ],
)
def test_a_file_that_is_not_there_may_be_on_another_volume(
    product: str, kind: str, damage: str
) -> None:
    line = of(product, kind, damage)
    assert absence(line.log).failure
    places = {"data": "/d", "redo log": "/mnt/fast"}
    facts = replace(BEFORE.facts, volumes=(replace(VOLUME, places=places),))
    before = replace(BEFORE, facts=facts)
    host = replace(after(), log=LogTail(line.log, False, False))
    found = judge_absence(case(before, host, load=loaded(), off_s=15.0))
    assert not found.failure
    assert "is not there" in found.doubt


def in_json(log: str) -> str:
    """Return a log of MySQL as its component log_sink_json writes it."""
    text = re.compile(r"(\S+) \d+ \[(\w+)\] \[MY-(\d+)\] \[(\w+)\] (.*)")
    written = []
    for time, label, code, subsystem, message in text.findall(log):
        shown = "Error" if label == "ERROR" else label
        entry = {"prio": 1, "err_code": int(code), "subsystem": subsystem}
        entry |= {"msg": message, "time": time, "label": shown}
        written.append(json.dumps(entry) + "\n")
    return "".join(written)


MYSQL_DOWN = [line for line in DOWN if line.product == "MySQL"]


@pytest.mark.parametrize("line", MYSQL_DOWN, ids=name)
def test_mysqls_log_in_json_says_the_same(line: Line) -> None:
    if "got signal" in line.log:  # written without the component
        return
    assert judged(replace(line, log=in_json(line.log))).verdict == line.verdict
    both = replace(line, log=in_json(line.log) + line.log)
    assert judged(both).verdict == line.verdict


GERMAN = (
    "2026-11-27 07:15:13.517 UTC [1] LOG:  PostgreSQL 15.18 on x86_64-pc-linux-gnu,"
    " compiled by gcc (Debian 12.2.0-14) 12.2.0, 64-bit startet\n"
    "2026-11-27 07:15:13.519 UTC [2] LOG:  Datenbanksystem wurde unterbrochen; letzte"
    " bekannte Aktion am 2026-11-27 07:15:01 UTC\n"
    "2026-11-27 07:15:13.522 UTC [2] PANIK:  konnte keinen gültigen"
    " Checkpoint-Datensatz finden\n"
    "2026-11-27 07:15:13.523 UTC [1] LOG:  fahre herunter wegen Startprozessfehler\n"
    "2026-11-27 07:15:13.524 UTC [1] LOG:  Datenbanksystem ist heruntergefahren\n"
)


def test_a_log_in_another_language_is_not_known() -> None:
    found = absence(GERMAN)
    assert not found.failure
    assert "not in English" in found.doubt


@pytest.mark.parametrize(
    ("product", "kind", "error"),
    [
        pytest.param(
            "PostgreSQL",
            "WAL",
            "2026-11-27 07:15:13.519 UTC [2] FATAL:  could not frobnicate\n",
            id="PostgreSQL",
        ),
        pytest.param(
            "MariaDB",
            "redo log",
            "2026-11-27  7:15:13 0 [ERROR] Could not frobnicate\n",
            id="MariaDB",
        ),
        pytest.param(
            "MySQL",
            "redo log, in use",
            "2026-11-27T07:15:13.5Z 0 [ERROR] [MY-019999] [Server] Frobnicated\n",
            id="MySQL",
        ),
    ],
)
def test_what_no_table_knows_is_quoted_and_accuses_nobody(
    product: str, kind: str, error: str
) -> None:
    """Nor does what follows it: a key that is missing makes whole pages look torn."""
    lines = of(product, kind, "zeros").log.splitlines(keepends=True)
    assert absence("".join(lines)).failure
    (at,) = [number for number, line in enumerate(lines) if STARTS.search(line)]
    found = absence("".join([*lines[: at + 1], error, *lines[at + 1 :]]))
    assert not found.failure
    assert "frobnicate" in found.doubt.lower()


STARTS = re.compile("starting PostgreSQL|Starting MariaDB|starting as process")


PG = "2026-11-27 07:15:13.519 UTC [2] "
CLIENTS = (
    f'{PG}FATAL:  unrecognized configuration parameter "x"\n',
    f'{PG}FATAL:  "base/9" is not a valid data directory\n'
    f'{PG}DETAIL:  File "base/9/PG_VERSION" does not contain valid data.\n',
)
STOPPED = (
    f"{PG}LOG:  received fast shutdown request\n"
    f"{PG}LOG:  database system is shut down\n"
)


@pytest.mark.parametrize("client", CLIENTS)
def test_what_a_client_was_answered_is_no_start(client: str) -> None:
    """An application's database may have been damaged long before."""
    status, _ = judge_crash_in_log(LogTail(client + STOPPED, False, False))
    assert status is Status.CONTRADICTED
    for log in (client, healthy("PostgreSQL") + client):
        assert not absence(log).failure


def test_a_login_that_damage_refuses_is_a_failure() -> None:
    line = of("PostgreSQL", "PG_VERSION of a database", "empty")
    assert judged(line).verdict == "FAIL"
    assert judged(replace(line, answer="")).verdict == "INCONCLUSIVE"
