"""Where real servers say that they log, and that it is there."""

from __future__ import annotations

import contextlib

from dbcheck.core.target import STDERR
from dbcheck.hosts.host import open_host
from dbcheck.lab.servers.base import DatabaseServer
from tests.kit.servers import engine_of


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
