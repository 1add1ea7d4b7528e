"""Whether a connection reached the server that it was meant to reach."""

from __future__ import annotations

from dataclasses import replace

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import OtherServer
from dbcheck.engines.peer import Answering, require_same
from tests.kit.refusals import refused
from tests.kit.samples import FACTS

SAME = Answering(FACTS.started_us)


def test_a_standby_is_read_only_where_one_is_meant() -> None:
    standby = replace(SAME, standby=True)
    require_same("db", FACTS, SAME)
    with refused(
        ErrorId.DIFFERENT_SERVERS_ANSWER, OtherServer, naming="it is a standby"
    ):
        require_same("db", FACTS, standby)
    meant = replace(FACTS, may_follow=True)
    require_same("db", meant, standby)
    with refused(ErrorId.DIFFERENT_SERVERS_ANSWER, OtherServer, naming="later"):
        require_same("db", meant, replace(standby, started_us=FACTS.started_us + 10**7))
