"""PostgreSQL's csvlog, and what clients write that looks like a record of it."""

from __future__ import annotations

import pytest

from dbcheck.judge.item import Status
from dbcheck.judge.server_end import judge_crash_in_log
from dbcheck.model.host import LogTail
from dbcheck.server_log.lines import read_lines
from dbcheck.server_log.startlog import find_shutdown, find_sign_of_crash
from tests.kit.server_logs import MARIA, MYSQL, PG

AT = "2026-11-22 01:16:32.595 UTC"
SHUT = "database system is shut down"
CUT = "database system was not properly shut down; automatic recovery in progress"
LIKE_CSV = ',LOG,00000,"x'
OF_PG = f"{PG}LOG:  {SHUT}\n"


def record(severity: str, message: str, rest: str = ",,,") -> str:
    """Return what csvlog has of a message of a session."""
    quoted = message.replace('"', '""')
    of = '"u","d",9,"[local]",6.1,1,"SELECT",2026-11-22 01:16:30 UTC,3/7,0'
    return f'{AT},{of},{severity},00000,"{quoted}"{rest}\n'


@pytest.mark.parametrize(
    ("before", "shut"),
    [
        pytest.param(
            f'{PG}ERROR:  relation "{LIKE_CSV}" does not exist\n', OF_PG, id="an error"
        ),
        pytest.param(
            f'{AT},u,d,9 ERROR:  relation "{LIKE_CSV}" does not exist\n',
            f"{AT},,,9 LOG:  {SHUT}\n",
            id="a prefix with commas",
        ),
        pytest.param(
            f'{AT},,LOG,00000,"x {PG}ERROR:  division by zero\n',
            f" {PG}LOG:  {SHUT}\n",
            id="a prefix that begins with a client's name",
        ),
        pytest.param(
            f"{MARIA}[Warning] Access denied for user '{LIKE_CSV}'@'localhost'\n",
            f"{MARIA}[Note] mariadbd: Shutdown complete\n",
            id="MariaDB",
        ),
        pytest.param(
            f"{MYSQL}[Note] [MY-010926] [Server] Access denied for user '{LIKE_CSV}'\n",
            f"{MYSQL}[System] [MY-010910] [Server] mysqld: Shutdown complete\n",
            id="MySQL",
        ),
    ],
)
def test_text_that_looks_like_a_record_hides_no_later_line(
    before: str, shut: str
) -> None:
    assert find_shutdown(shut)
    assert find_shutdown(before + shut)
    log = LogTail(before + shut, truncated=False, rewound=False)
    assert judge_crash_in_log(log)[0] is Status.CONTRADICTED


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(("ERROR", "division by zero"), id="an error"),
        pytest.param(("ERROR", '"fs_pkey" is not a sequence'), id="a quoted name"),
        pytest.param(("FEHLER", "Division durch Null"), id="another language"),
        pytest.param(("PROTOKOLLIERT", "Division"), id="a longer word"),
    ],
)
@pytest.mark.parametrize("said", [SHUT, CUT])
def test_a_clients_statement_in_a_record_is_no_line_of_the_server(
    error: tuple[str, str], said: str
) -> None:
    lines = f"LOG:  {said}\n{record('LOG', said)}LOG:  {said}"
    statement = f"select 1/0 /*\n{lines}\n*/".replace('"', '""')
    text = record(*error, f',,,,,,"{statement}",,,"psql"')
    assert not find_shutdown(text) and not find_sign_of_crash(text)
    assert find_shutdown(text + record("LOG", SHUT))
    assert find_sign_of_crash(text + record("LOG", CUT))


@pytest.mark.parametrize("severity", ["ERROR", "FEHLER"])
@pytest.mark.parametrize("said", [SHUT, CUT])
def test_a_name_that_looks_like_the_rest_of_a_record_is_none(
    severity: str, said: str
) -> None:
    text = f'{PG}{severity}:  relation ",LOG,00000,"{said}"" does not exist\n'
    assert not find_shutdown(text) and not find_sign_of_crash(text)
    assert not find_shutdown(f"{AT},{text}") and not find_sign_of_crash(f"{AT},{text}")


@pytest.mark.parametrize("rest", [",,,", ',,,,,,,,,"psql"'])
def test_a_clients_text_that_ends_like_the_columns_before_a_message_is_none(
    rest: str,
) -> None:
    columns = f"{AT},u,d,9,local,6.1,1,SELECT,{AT},3/7,0,PANIC,XX001,"
    text = record("ERROR", f'invalid input for type integer: "x"\n{columns}', rest)
    assert [line.severity for line in read_lines(text)] == ["ERROR"]
    *_, line = read_lines(text + record("LOG", SHUT))
    assert (line.severity, line.message) == ("LOG", SHUT)
    assert find_shutdown(f"{text}{PG}LOG:  {SHUT}\n")


def test_a_message_of_a_record_has_its_quotes_once() -> None:
    (line,) = read_lines(record("ERROR", '"a", a "b"', ',"the ""detail""",,'))
    assert line.message == '"a", a "b"\nthe "detail"'
