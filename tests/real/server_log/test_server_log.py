"""Where real servers say that they log, and that it is there."""

from __future__ import annotations

import contextlib

import psycopg2
import pytest

from dbcheck.base.errors import LabError
from dbcheck.hosts.host import open_host
from dbcheck.judge.item import Status
from dbcheck.judge.server_end import judge_crash_in_log
from dbcheck.lab.servers.base import DatabaseServer
from dbcheck.model.host import COLLECTOR, STDERR, LogTail
from dbcheck.server_log.startlog import StartOutcome, find_other_server, find_starts
from tests.kit.lab_access import connect
from tests.kit.servers import NewServer, engine_of
from tests.kit.waiting import wait_until


def test_a_server_says_where_it_logs(server: DatabaseServer) -> None:
    """The lab redirects standard error into a file, as pg_ctl -l and others do."""
    told = engine_of(server).facts().server_log
    if server.name == "mysql":
        assert told == str(server.log_file)
    else:
        assert told.rstrip("/") == f"{STDERR}{server.data}"
    with contextlib.closing(open_host("local:")) as host:
        marks = host.mark_log(told)
        assert marks[str(server.log_file)][1] > 0
        assert host.read_log(told, marks).text == ""


def test_a_server_is_known_by_the_lines_of_its_starts(server: DatabaseServer) -> None:
    """Several servers may be set to write to one log."""
    names = engine_of(server).facts().log_names
    logged = server.log_file.read_text()
    assert names
    assert not find_other_server(logged, names)
    assert find_other_server(logged, dict.fromkeys(names, "another"))


def test_what_postgresql_logs_before_its_collector_is_read(
    new_server: NewServer,
) -> None:
    """A damaged control file ends a start before the collector has the log."""
    collecting = new_server("postgresql")
    collecting.settings["logging_collector"] = "on"
    collecting.start()
    told = engine_of(collecting).facts().server_log
    assert told.startswith(COLLECTOR)
    control = collecting.data / "global" / "pg_control"
    sound = control.read_bytes()
    with contextlib.closing(open_host("local:")) as host:
        marks = host.mark_log(told)
        collecting.kill()
        control.write_bytes(bytes(len(sound)))
        with contextlib.suppress(LabError):
            collecting.start(20)
        starts = find_starts(host.read_log(told, marks).text)
        assert starts.outcome is StartOutcome.DESTROYED, starts
        control.write_bytes(sound)
        collecting.start()
        log = host.read_log(told, marks)
        assert find_starts(log.text).outcome is StartOutcome.RUNNING
        assert log.text.count("incompatible with server") == 1
        assert not log.truncated


@pytest.mark.parametrize("destination", ["stderr", "csvlog"])
def test_what_a_client_has_logged_is_no_word_of_the_server(
    new_server: NewServer, destination: str
) -> None:
    """It chooses its name, which a prefix may hold, and its statements."""
    server = new_server("postgresql")
    server.settings |= {
        "logging_collector": "on",
        "log_destination": destination,
        "log_line_prefix": "%m [%p] %a ",
    }
    server.start()
    words = "LOG:  database system is shut down"
    told = engine_of(server).facts().server_log
    with contextlib.closing(open_host("local:")) as host:
        marks = host.mark_log(told)
        with contextlib.closing(connect(server.url, server.password)) as connection:
            cursor = connection.cursor()
            cursor.execute("set application_name = %s", (words,))
            # A message that begins with a quote has three in csvlog.
            by_zero = ("select 1/0", "division by zero")
            other = ("drop sequence pg_class", '"pg_class" is not a sequence')
            for statement, error in (by_zero, other, by_zero):
                with pytest.raises(psycopg2.Error, match=error):
                    cursor.execute(f"{statement} /*\n{words}\n*/")

        def read() -> LogTail:
            return host.read_log(told, marks)

        wait_until(lambda: read().text.count("division by zero") >= 2, "its errors")
        assert '"pg_class" is not a sequence' in read().text.replace('""', '"')
        assert words in read().text
        assert judge_crash_in_log(read())[0] is Status.NOT_OBSERVABLE
        server.stop()
        assert judge_crash_in_log(read())[0] is Status.CONTRADICTED
