"""What a server's log tells of a crash and of a shutdown."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from dbcheck.hosts.host import LOG_BYTES_MAX
from dbcheck.judge import server_end
from dbcheck.judge.case import Case
from dbcheck.judge.item import Item, ItemId, Status
from dbcheck.model.host import LogTail
from tests.kit.cases import case
from tests.kit.host_samples import BEFORE
from tests.kit.host_samples import after as host_after
from tests.kit.samples import FACTS
from tests.kit.server_logs import MARIA_PAGE, MARIA_START, MYSQL

START = "LOG:  starting PostgreSQL 15.18 on x86_64-pc-linux-gnu\n"
SHUTDOWN = "[Note] InnoDB: Shutdown completed; log sequence number 9\n"
CRASH = "[Note] InnoDB: Starting crash recovery from checkpoint LSN=9\n"
DAMAGE = "ERROR:  invalid page in block 3 of relation base/5/16390\n"


def told(text: str) -> Item:
    return server_end.make_crash_item(
        ItemId.SERVER_LOG, LogTail(text, False, False), {}
    )


def replayed(text: str) -> Item | None:
    return server_end.judge_replay_in_log(LogTail(text, False, False))


@pytest.mark.parametrize(
    ("line", "status"),
    [
        pytest.param(
            "LOG:  database system was interrupted; last known up at 2026-01-01",
            Status.PRESENT,
            id="PostgreSQL, crash",
        ),
        pytest.param(
            "LOG:  database system was not properly shut down; automatic recovery",
            Status.PRESENT,
            id="PostgreSQL, recovery",
        ),
        pytest.param(
            "LOG:  database system was interrupted while in recovery at log time 2026-",
            Status.PRESENT,
            id="PostgreSQL, crash of a standby",
        ),
        pytest.param(
            "LOG:  database system was shut down in recovery at 2026-01-01 00:00 UTC",
            Status.CONTRADICTED,
            id="PostgreSQL, a standby shut down",
        ),
        pytest.param(
            "LOG:  database system was shut down at 2026-01-01 00:00:00 UTC",
            Status.CONTRADICTED,
            id="PostgreSQL, shut down, told at the start",
        ),
        pytest.param(
            "LOG:  starting PostgreSQL 15.18 on x86_64-pc-linux-gnu\n"
            "LOG:  database system was interrupted; last known up at 2026-01-01\n"
            "PANIC:  could not locate a valid checkpoint record\n"
            "LOG:  shutting down due to startup process failure\n"
            "LOG:  database system is shut down\n"
            "LOG:  starting PostgreSQL 15.18 on x86_64-pc-linux-gnu\n"
            "LOG:  database system was interrupted; last known up at 2026-01-01\n"
            "LOG:  database system is ready to accept connections\n",
            Status.PRESENT,
            id="PostgreSQL, a start that failed, and one that did not",
        ),
        pytest.param(
            "LOG:  shutting down due to startup process failure\n"
            "LOG:  database system is shut down\n"
            "LOG:  starting PostgreSQL 15.18 on x86_64-pc-linux-gnu\n"
            "LOG:  database system was interrupted; last known up at 2026-01-01\n"
            "LOG:  database system is ready to accept connections\n"
            "LOG:  database system is shut down\n",
            Status.CONTRADICTED,
            id="PostgreSQL, a start that failed, and then a shutdown",
        ),
        pytest.param(
            "LOG:  database system is shut down",
            Status.CONTRADICTED,
            id="PostgreSQL, shut down",
        ),
        pytest.param(
            "[Note] InnoDB: Starting crash recovery from checkpoint LSN=1",
            Status.PRESENT,
            id="MariaDB, crash",
        ),
        pytest.param(
            "[Note] /usr/sbin/mariadbd: Shutdown complete",
            Status.CONTRADICTED,
            id="MariaDB, shut down",
        ),
        pytest.param(
            "[MY-012551] [InnoDB] Database was not shutdown normally!",
            Status.PRESENT,
            id="MySQL, crash",
        ),
        pytest.param(
            "[MY-010910] [Server] /usr/sbin/mysqld: Shutdown complete (mysqld 9.7)",
            Status.CONTRADICTED,
            id="MySQL, shut down",
        ),
        pytest.param(
            "[MY-010229] [Server] Starting XA crash recovery...",
            Status.PRESENT,
            id="MySQL, crash with a binary log",
        ),
        pytest.param(
            "[MY-013911] [Server] Crash recovery finished in InnoDB engine. No attempts"
            " to commit, rollback or prepare any transactions.",
            Status.NOT_OBSERVABLE,
            id="MySQL, any start",
        ),
        pytest.param(
            "[MY-013172] [Server] Received SHUTDOWN from user <via user signal>.",
            Status.CONTRADICTED,
            id="MySQL, asked to shut down",
        ),
        pytest.param(
            '{ "err_code" : 12551, "msg" : "Database was not shutdown normally!" }',
            Status.PRESENT,
            id="MySQL, crash, as JSON",
        ),
        pytest.param(
            '2026-01-01 UTC,,,7,,1,,2026-01-01 UTC,,0,LOG,00000,"Datenbanksystem wurde'
            ' nicht richtig heruntergefahren"',
            Status.NOT_OBSERVABLE,
            id="PostgreSQL, crash, in German",
        ),
        pytest.param("ready for connections", Status.NOT_OBSERVABLE, id="neither"),
    ],
)
def test_the_servers_log(line: str, status: Status) -> None:
    item = told(f"before\n{line}\nafter")
    assert item.status is status


@pytest.mark.parametrize(
    ("truncated", "rewound", "text", "status"),
    [
        (True, False, CRASH, Status.NOT_OBSERVABLE),
        (False, True, CRASH, Status.NOT_OBSERVABLE),
        (False, True, SHUTDOWN, Status.NOT_OBSERVABLE),
        (True, False, SHUTDOWN, Status.CONTRADICTED),
    ],
)
def test_a_log_of_which_only_a_part_is_known_proves_no_crash(
    truncated: bool, rewound: bool, text: str, status: Status
) -> None:
    log = LogTail(text, truncated, rewound)
    assert server_end.make_crash_item(ItemId.SERVER_LOG, log, {}).status is status
    replay = "redo starts at 0/10\nredo done at 0/20\n"
    assert server_end.judge_replay_in_log(LogTail(replay, truncated, rewound)) is None


def test_a_shutdown_outweighs_a_crash_in_the_log() -> None:
    assert told(SHUTDOWN + CRASH).status is Status.CONTRADICTED


@pytest.mark.parametrize(
    ("log", "size"),
    [
        pytest.param(
            "redo starts at 0/FFFFFF00\nredo done at 1/100 system usage", 512, id="PG"
        ),
        pytest.param(
            "InnoDB: Starting crash recovery from checkpoint LSN=46996\n"
            "InnoDB: End of log at LSN=50000",
            3004,
            id="MariaDB",
        ),
        pytest.param(
            "Starting to parse redo log at lsn = 19754558, whereas checkpoint_lsn ="
            " 19754611 and start_lsn = 19754496\n"
            "Doing recovery: scanned up to log sequence number 19802946",
            48335,
            id="MySQL",
        ),
    ],
)
def test_how_much_was_replayed(log: str, size: int) -> None:
    item = replayed(log)
    assert item is not None
    assert (item.status, item.required) == (Status.PRESENT, False)
    assert f"{size:,} bytes" in item.reason
    assert replayed("redo starts at 0/1") is None


@pytest.mark.parametrize(
    "number",
    [
        pytest.param("9" * 5000, id="more digits than Python reads"),
        pytest.param("9" * 21, id="more than 64 bits"),
        pytest.param("\u0663", id="a digit of another script"),
    ],
)
def test_what_is_no_position_is_not_counted(number: str) -> None:
    log = "crash recovery from checkpoint LSN={}\nEnd of log at LSN={}\n"
    assert replayed(log.format(number, 7)) is None
    assert replayed(log.format(7, number)) is None
    assert replayed(f"redo starts at 0/1\nredo done at {'F' * 5000}/0") is None


def test_a_recovery_that_came_to_no_end_is_not_counted() -> None:
    whole = "redo starts at 0/10\nredo done at 0/20\n"
    item = replayed(whole + "redo starts at 0/30\n")
    assert item is not None
    assert "replayed 16 bytes" in item.reason
    assert replayed("redo done at 0/20\nredo starts at 0/30\n") is None
    assert replayed("redo starts at 0/30\nredo done at 0/20\n") is None


def test_a_recovery_that_had_nothing_to_replay_followed_a_checkpoint() -> None:
    """After a commit only another process of the server can have made it."""
    item = replayed("database system was interrupted\nredo is not required\n")
    assert item is not None
    assert (item.status, item.required) == (Status.ABSENT, True)
    later = "redo starts at 0/10\nredo done at 0/20\nredo is not required\n"
    item = replayed(later)
    assert item is not None
    assert item.status is Status.PRESENT


def test_a_line_of_names_is_searched_in_no_time() -> None:
    """As much as is read of a log; each name once began a search to the line's end."""
    began_s = time.process_time()
    item = told("mysqld" * (LOG_BYTES_MAX // 6))
    assert item.status is Status.NOT_OBSERVABLE
    assert time.process_time() - began_s < 5


@pytest.mark.parametrize(
    ("log", "shown"),
    [
        pytest.param(f"{DAMAGE}{START}", False, id="before the start"),
        pytest.param(f"{START}{DAMAGE}", True, id="since the start"),
        pytest.param(START, False, id="none"),
        pytest.param(DAMAGE, False, id="the start is not in it"),
    ],
)
def test_damage_that_the_log_names_is_reported_and_decides_nothing(
    log: str, shown: bool
) -> None:
    item = server_end.judge_complaints(case(after={"log": log}))
    assert (item is not None) == shown
    if item is not None:
        assert (item.status, item.required) == (Status.ABSENT, False)
        assert "invalid page in block 3" in item.reason


MARIA_REPLAY = f"{CRASH}[Note] InnoDB: End of log at LSN=500\n"
MYSQL_READY = (
    f"{MYSQL}[System] [MY-010931] [Server] mysqld: ready for connections. Version:"
    " '9.7.4-2'  socket: '/run/mysqld.sock'  port: {}  (Debian).\n"
)
INTERRUPTED = "LOG:  database system was interrupted; last known up at 2026-01-01\n"
PG_PORT = f'{START}LOG:  listening on IPv4 address "127.0.0.1", port {{}}\n'
OF_MARIA = MARIA_START.replace("jkeF/2YV89o=", "{}") + MARIA_REPLAY + MARIA_PAGE
OF_MYSQL = MYSQL_READY + MARIA_REPLAY
OF_PG = f"{PG_PORT}{INTERRUPTED}redo starts at 0/10\nredo done at 0/20\n{DAMAGE}"


def on_host(text: str, names: dict[str, str]) -> Case:
    """Return the case of a server with these names whose host has that log."""
    return case(BEFORE, host_after(text), facts=replace(FACTS, log_names=names))


def over_sql(text: str, names: dict[str, str]) -> Case:
    """Return the same of a log that is read over SQL."""
    return case(after={"log": text}, facts=replace(FACTS, log_names=names))


@pytest.mark.parametrize("logged", [on_host, over_sql])
@pytest.mark.parametrize(
    ("text", "name", "shows_damage"),
    [
        pytest.param(OF_MARIA, "server_uid", True, id="MariaDB"),
        pytest.param(OF_MYSQL, "port", False, id="MySQL"),
        pytest.param(OF_PG, "port", True, id="PostgreSQL"),
    ],
)
def test_a_log_that_another_server_writes_to_shows_nothing_of_this_one(
    text: str, name: str, shows_damage: bool, logged: Callable[..., Case]
) -> None:
    own, shared = text.format(3307), text.format(3308) + text.format(3307)
    alone = logged(own, {name: "3307"})
    assert server_end.judge_log_replayed(alone) is not None
    assert (server_end.judge_complaints(alone) is not None) is shows_damage
    assert _crash(alone) is Status.PRESENT
    for of_another in (logged(shared, {name: "3307"}), logged(own, {name: "3308"})):
        assert server_end.judge_log_replayed(of_another) is None
        assert server_end.judge_complaints(of_another) is None
        assert _crash(of_another) is Status.NOT_OBSERVABLE


def _crash(one: Case) -> Status:
    """Return what the log shows, whichever way it was read; it decides only a crash."""
    (item,) = filter(
        None,
        (server_end.judge_server_log(one), server_end.judge_server_log_over_sql(one)),
    )
    assert item.required is (item.status is Status.PRESENT)
    return item.status


def test_a_shared_log_leaves_the_other_one_to_show_what_was_replayed() -> None:
    one = on_host(OF_PG.format(3308), {"port": "3307"})
    one = replace(one, after=replace(one.after, log=OF_PG.format(3307)))
    assert server_end.judge_log_replayed(one) is not None
    assert server_end.judge_complaints(one) is not None
