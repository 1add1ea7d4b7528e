"""Where real servers say that they log, and that it is there."""

from __future__ import annotations

import contextlib

from dbcheck.core.startlog import StartOutcome, starts_in
from dbcheck.core.target import COLLECTOR, STDERR
from dbcheck.errors import LabError
from dbcheck.hosts.host import open_host
from dbcheck.lab.servers.base import DatabaseServer
from tests.kit.servers import NewServer, engine_of


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
        starts = starts_in(host.read_log(told, marks).text)
        assert starts.outcome is StartOutcome.DESTROYED, starts
        control.write_bytes(sound)
        collecting.start()
        log = host.read_log(told, marks)
        assert starts_in(log.text).outcome is StartOutcome.RUNNING
        assert log.text.count("incompatible with server") == 1
        assert not log.truncated
