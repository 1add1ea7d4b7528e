"""What a control changes on servers whose settings or releases differ."""

from __future__ import annotations

from typing import Any, cast

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.engines.mysql.durability import restore, weaken
from dbcheck.engines.mysql.link import MysqlLink
from dbcheck.engines.mysql.places import ENGINES
from dbcheck.engines.tables import MARK
from tests.kit.refusals import refused

FLUSH, ROCKSDB_FLUSH = (ENGINES[name].flush_log for name in ("innodb", "rocksdb"))
BUFFERING = "innodb_log_file_buffering"
WRITE_THROUGH = "innodb_log_file_write_through"
METHOD = "innodb_flush_method"
PLAIN = {"server_id": "1", "log_bin": "OFF", "sync_binlog": "1", FLUSH: "1"}
SETTERS = {
    "set_flush_log": FLUSH,
    "set_flush_log_rocksdb": ROCKSDB_FLUSH,
    "set_sync_binlog": "sync_binlog",
    "set_log_file_buffering": BUFFERING,
}


class Server:
    """One whose settings are these; *ignored* ones keep their values.

    notes: the rows of the table in which changes are recorded, None if there is none.
    """

    def __init__(
        self, *, storage: str = "innodb", ignored: str = "", **settings: str
    ) -> None:
        self.storage, self.ignored = ENGINES[storage], ignored
        self.settings = {**PLAIN, **settings}
        self.notes: list[tuple[str, int, int]] | None = None

    def row(self, statement: str) -> tuple[Any, ...]:
        assert statement == "server"
        return "11.4.2-MariaDB", "mariadb.org binary distribution", "dbcheck@%"

    def rows(self, statement: str, values: Any = None) -> list[tuple[Any, ...]]:
        match statement:
            case "durability":
                return list(self.settings.items())
            case "table":
                return [("", "", MARK)] if self.notes is not None else []
            case "create_relaxed" | "drop_relaxed":
                self.notes = [] if statement == "create_relaxed" else None
            case "remember_relaxed":
                assert self.notes is not None
                note = (values["setting"], values["former"], values["changed"])
                self.notes.append(note)
            case "relaxed":
                return sorted(self.notes or [])
            case "grants":
                return [("GRANT SUPER, BINLOG ADMIN ON *.* TO `dbcheck`@`%`",)]
            case _:
                self.set(SETTERS[statement], values["value"])
        return []

    def set(self, name: str, value: int) -> None:
        switch = self.settings[name] in ("ON", "OFF")
        if name != self.ignored:
            self.settings[name] = ("OFF", "ON")[value] if switch else str(value)


def relax(server: Server, *, process: bool = False) -> str:
    return weaken(cast(MysqlLink, server), "dbcheck", process=process)


@pytest.mark.parametrize(
    ("server", "said"),
    [
        (Server(), "= 2 (was 1)"),  # MySQL, and MariaDB before 10.8
        (Server(**{BUFFERING: "ON"}), "= 2 (was 1)"),
        (
            Server(**{BUFFERING: "OFF", WRITE_THROUGH: "OFF", METHOD: "O_DSYNC"}),
            f"= 2 (was 1), {BUFFERING} = 1 (was 0)",
        ),
        (
            Server(**{BUFFERING: "OFF", "log_bin": "ON"}),
            f"= 2 (was 1), sync_binlog = 0 (was 1), {BUFFERING} = 1 (was 0)",
        ),
    ],
)
def test_commits_stay_in_the_page_cache(server: Server, said: str) -> None:
    before = dict(server.settings)
    assert relax(server) == f"{FLUSH} {said} on the whole server until the cut"
    assert server.settings.get(BUFFERING, "ON") == "ON"
    assert restore(cast(MysqlLink, server)) is not None
    assert server.settings == before
    assert server.notes is None


def test_a_log_past_the_page_cache_is_no_weak_one() -> None:
    server = Server(**{FLUSH: "2", BUFFERING: "OFF"})
    assert relax(server).startswith(f"{BUFFERING} = 1 (was 0)")


@pytest.mark.parametrize(
    ("server", "process"),
    [
        (Server(**{BUFFERING: "OFF"}), True),
        (Server(**{FLUSH: "0", BUFFERING: "OFF"}), False),
        (Server(**{FLUSH: "0", METHOD: "O_DSYNC"}), False),
        (Server(storage="rocksdb", **{ROCKSDB_FLUSH: "1", BUFFERING: "OFF"}), False),
        (Server(storage="rocksdb", **{ROCKSDB_FLUSH: "1", METHOD: "O_DSYNC"}), False),
    ],
)
def test_innodbs_file_is_left_where_no_commit_is_to_stay_in_it(
    server: Server, process: bool
) -> None:
    file = server.settings.get(BUFFERING)
    assert BUFFERING not in relax(server, process=process)
    assert server.settings.get(BUFFERING) == file


@pytest.mark.parametrize(
    ("settings", "ignored", "naming"),
    [
        ({BUFFERING: "OFF", METHOD: "O_DSYNC"}, "", f"{METHOD} is O_DSYNC"),
        ({BUFFERING: "OFF", WRITE_THROUGH: "ON"}, "", f"{WRITE_THROUGH} is ON"),
        ({BUFFERING: "OFF"}, BUFFERING, f"did not set {BUFFERING} to ON"),
    ],
)
def test_a_log_that_no_page_cache_can_hold_is_refused(
    settings: dict[str, str], ignored: str, naming: str
) -> None:
    server = Server(ignored=ignored, **settings)
    with refused(ErrorId.CONTROL_NOT_SUPPORTED, EngineError, naming=naming):
        relax(server)
    restore(cast(MysqlLink, server))
    assert server.settings == {**PLAIN, **settings}


def test_what_stays_until_a_restart_is_noted_and_nothing_else() -> None:
    server = Server(**{BUFFERING: "OFF"})
    relax(server)
    server.ignored = BUFFERING
    with refused(
        ErrorId.CONTROL_NEEDS_RESTART, EngineError, naming=f"{BUFFERING} stays 1"
    ):
        restore(cast(MysqlLink, server))
    assert server.settings[FLUSH] == "1"
    assert server.notes == [(BUFFERING, 0, 1)]
    server.ignored = ""
    assert restore(cast(MysqlLink, server)) is not None
    assert server.settings[BUFFERING] == "OFF"


@pytest.mark.parametrize("process", [True, False])
def test_the_next_run_undoes_it_whatever_its_own_tables_are_in(process: bool) -> None:
    """The client that changed it died; the next one's URL chooses other tables."""
    before = {FLUSH: "1", ROCKSDB_FLUSH: "1", BUFFERING: "OFF"}
    for first, next_one in (("innodb", "rocksdb"), ("rocksdb", "innodb")):
        server = Server(storage=first, **before)
        relax(server, process=process)
        assert server.settings != {**PLAIN, **before}
        server.storage = ENGINES[next_one]
        assert restore(cast(MysqlLink, server)) is not None
        assert server.settings == {**PLAIN, **before}
