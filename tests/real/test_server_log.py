"""Where real servers say that they log, and that it is there."""

from __future__ import annotations

import contextlib

from dbcheck.core.target import JOURNAL
from dbcheck.lab.server import DatabaseServer
from dbcheck.probes.host import open_host
from tests.real.servers import engine_of


def test_a_server_says_where_it_logs(server: DatabaseServer) -> None:
    told = engine_of(server).facts().server_log
    if server.name != "mysql":  # the lab has it write to standard error
        assert told.rstrip("/") == f"{JOURNAL}{server.data}"
        return
    assert told == str(server.log_file)
    with contextlib.closing(open_host("local:")) as host:
        assert host.mark_log(told)[told][1] > 0
