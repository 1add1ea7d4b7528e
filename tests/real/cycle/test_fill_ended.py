"""What a client leaves that ends while it fills the tables."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from dbcheck.cli import FAILED
from tests.kit.labs import process_lab
from tests.kit.rigs import Bench, bench
from tests.kit.users import User, said_until
from tests.kit.waiting import wait_until

ROWS = 1_500_000  # takes many times as long as the first tenth, after which it ends
OTHERS = {
    "postgresql": "select count(*) from pg_stat_activity"
    " where backend_type = 'client backend' and pid <> pg_backend_pid()",
    "mariadb": "select count(*) from information_schema.processlist"
    " where command <> 'Daemon' and id <> connection_id()",
}


def count(here: Bench, statement: str) -> int:
    ((number,),) = here.execute(statement)
    return int(number)


@pytest.mark.wide_with("mariadb", "2")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("engine", OTHERS)
def test_what_it_had_committed_is_whole_and_is_compared_after_the_next_cut(
    engine: str, number: signal.Signals, tmp_path: Path
) -> None:
    with bench(process_lab(engine), tmp_path) as here:
        user = User(here.lab, tmp_path)
        before = count(here, OTHERS[engine])
        client = user.start("run", *user.rig, "--rows-before", str(ROWS))
        try:
            said_until(client, "ledger: ")
            client.send_signal(number)
            _, said = client.communicate(timeout=60)
        finally:
            client.kill()
            client.communicate()
        if number == signal.SIGINT:
            assert client.returncode == FAILED
            assert "interrupted" in said
            assert "Traceback" not in said
        wait_until(lambda: count(here, OTHERS[engine]) == before, "its session ended")
        left = count(here, f"select count(*) from {here.table}")
        assert 0 < left < ROWS
        shown = user.json("run", *user.rig, "--rows-before", str(left), code=0)
        assert (shown["verdict"], shown["earlier"]) == ("PASS", left)
