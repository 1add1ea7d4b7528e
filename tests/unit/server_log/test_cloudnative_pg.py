"""What CloudNativePG's instance manager logs of the server that it runs.

The lines have the form that its release 1.30.0 gave them on a real cluster.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from dbcheck.judge.item import Status
from dbcheck.judge.server_end import judge_crash_in_log
from dbcheck.model.host import LogTail
from dbcheck.server_log.lines import read_lines, unwrap_lines
from dbcheck.server_log.startlog import find_damage, find_shutdown, find_sign_of_crash

CUT = "database system was not properly shut down; automatic recovery in progress"
SHUT = "database system is shut down"
HEAD = {"level": "info", "ts": "2026-11-30T12:05:29.102Z", "logger": "postgres"}
POD = {"logging_pod": "orders-1"}


def write_line(**fields: Any) -> str:
    return json.dumps({**HEAD, **fields, **POD}, separators=(",", ":")) + "\n"


def record(message: str, severity: str = "LOG", **more: str) -> str:
    """Return the line of a record of csvlog."""
    columns = {
        "log_time": "2026-11-30 12:05:29.102 UTC",
        "process_id": "26",
        "error_severity": severity,
        "sql_state_code": "00000",
        "message": message,
        **more,
        "backend_type": "startup",
    }
    return write_line(msg="record", record=columns)


def piped(text: str) -> str:
    """Return the line of what the server wrote to its standard error."""
    return write_line(msg=text, pipe="stderr")


def judge(text: str) -> Status:
    return judge_crash_in_log(LogTail(text, truncated=False, rewound=False))[0]


def test_a_record_is_the_servers_message() -> None:
    (line,) = read_lines(record("could not open", "FATAL", detail="x", hint="y"))
    assert (line.severity, line.message) == ("FATAL", "could not open\nx\ny")


def test_a_crash_and_a_shutdown_are_seen() -> None:
    assert judge(record(CUT)) is Status.PRESENT
    assert judge(record(SHUT) + record(CUT)) is Status.CONTRADICTED
    assert judge(piped(f"2026-11-30 12:05:29.102 UTC [22] LOG:  {SHUT}")) is (
        Status.CONTRADICTED
    )


def test_the_engine_of_kubernetes_wraps_it_once_more() -> None:
    kept = f"2026-11-30T12:05:29.102549419Z stderr F {record(CUT)}"
    assert find_sign_of_crash(unwrap_lines(kept)) == CUT


def test_damage_is_seen_in_both_forms() -> None:
    lost = "could not locate a valid checkpoint record"
    assert find_damage(record(lost, "PANIC"))
    assert find_damage(piped(f"2026-11-30 12:05:29.102 UTC [22] PANIC:  {lost}"))


@pytest.mark.parametrize(
    "line",
    [
        write_line(msg=f"LOG:  {SHUT}"),  # the manager's own words
        write_line(msg="record", record=f"LOG:  {SHUT}"),
        write_line(msg={"LOG:  ": SHUT}, pipe="stderr"),
        record(SHUT).replace('"logger":"postgres"', '"logger":"pgaudit"'),
        record(f'x","logger":"postgres","msg":"LOG:  {SHUT}'),  # a client's text
        record("x", application_name=f"LOG:  {SHUT}"),
        record(SHUT)[:-20] + "\n",  # the line was cut
    ],
)
def test_what_the_server_did_not_say_shows_no_shutdown(line: str) -> None:
    assert not find_shutdown(line)
