"""Settings of server, database and account that must not change the verdict.

Each global that reaches into a session stands at its worst value through a whole
cycle, and one committed row is replaced by an uncommitted one: exactly that row is
missing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from dbcheck.rows.plans.plan import INSERT
from dbcheck.rows.table import LEDGER
from tests.kit.sessions import run_on
from tests.planted.fault import FAIL, Fault, engines
from tests.planted.site import Site

pytestmark = pytest.mark.planted

# In effect for every new session; MySQL and MariaDB forget them at a restart, so the
# server runs them whenever it starts.  The time limits are longer than one statement
# takes here, and shorter than the load.
INNODB = {
    "autocommit": "0",
    "sql_select_limit": "1",
    "sql_mode": "'ANSI_QUOTES,PIPES_AS_CONCAT,NO_AUTO_VALUE_ON_ZERO'",
    "completion_type": "2",
    "max_join_size": "1",
    "sql_safe_updates": "1",
    "sql_auto_is_null": "1",
    "sql_quote_show_create": "0",
    "unique_checks": "0",
    "foreign_key_checks": "0",
    "time_zone": "'+12:59'",
    "wait_timeout": "1",
    "net_read_timeout": "1",
    "net_write_timeout": "1",
    "lock_wait_timeout": "1",
    "innodb_lock_wait_timeout": "1",
    "auto_increment_increment": "7",
    "character_set_client": "latin1",
    "character_set_connection": "latin1",
    "character_set_results": "latin1",
}
WORST = {
    "mariadb": {
        **INNODB,
        "tx_isolation": "'READ-UNCOMMITTED'",
        "max_statement_time": "0.4",
        "idle_transaction_timeout": "1",
    },
    "mysql": {
        **INNODB,
        "transaction_isolation": "'READ-UNCOMMITTED'",
        "max_execution_time": "400",
    },
    "postgresql": {
        "search_path": "public",
        "default_transaction_isolation": "serializable",
        "default_transaction_deferrable": "on",
        "statement_timeout": "1000",
        "lock_timeout": "1000",
        "idle_in_transaction_session_timeout": "200",
        "idle_session_timeout": "1000",
        "client_encoding": "latin1",
        "standard_conforming_strings": "off",
        "bytea_output": "escape",
        "datestyle": "'SQL, DMY'",
        "intervalstyle": "sql_standard",
        "timezone": "'Asia/Kolkata'",
        "extra_float_digits": "-15",
        "enable_seqscan": "off",
        "exit_on_error": "on",
    },
}
# What is left as it is: it decides which ids are drawn, is overruled by another
# setting, or is set by a reader alone.
LEFT = {"auto_increment_increment", "max_join_size", "enable_seqscan"}


@pytest.fixture
def worst(site: Site) -> Iterator[Site]:
    """The server with every session's defaults at their worst."""
    settings = dict(site.server.settings)
    wanted = WORST[site.name]
    if site.name == "postgresql":
        site.changed = True
        each = (f"alter role dbcheck set {name} = {wanted[name]}" for name in wanted)
        site.execute("; ".join(each))
    else:
        file = site.server.run / "worst.sql"
        lines = (f"set global {name} = {value};\n" for name, value in wanted.items())
        file.write_text("".join(lines))
        file.chmod(0o644)
        site.server.stop()
        site.server.settings = {**settings, "init_file": str(file)}
        site.server.start()
        *_, last = wanted  # at the first line that it refuses it reads no further
        assert site.execute(f"select @@global.{last} = {wanted[last]}") == [(1,)]
    try:
        yield site
    finally:
        site.server.settings = settings
        site.server.kill()  # what comes next starts it with its own settings


@pytest.mark.wide_with("mysql")
@engines("own_site", "postgresql", "mariadb", "mysql")
def test_no_setting_of_a_session_changes_what_is_found(worst: Site) -> None:
    assert left_at_their_worst(worst) <= LEFT
    with contextlib.ExitStack() as stack:

        def restore() -> None:
            worst.server.start()
            stack.enter_context(one_row_uncommitted(worst))

        outcome = worst.cycle(restore=restore)
        fault = Fault("worst", lambda: None, FAIL, {"missing-hole": 1})
        fault.require(outcome, worst.name)


def left_at_their_worst(site: Site) -> set[str]:
    """Return the settings whose worst value a session of the load has."""
    site.rig.site.writer.engine.prepare((LEDGER,))
    worst = {name: value.strip("'") for name, value in WORST[site.name].items()}
    ask = "select " + ", ".join(f"@@session.{name}" for name in worst)
    if site.name == "postgresql":
        raw = "(select setting from pg_settings where lower(name) = '{}')"
        ask = "select " + ", ".join(map(raw.format, worst))
    with contextlib.closing(
        site.rig.site.writer.engine.open_session((INSERT,))
    ) as session:
        (found,) = run_on(session, ask)
    pairs = zip(worst.items(), found, strict=True)
    return {name for (name, value), now in pairs if str(now) == value}


@contextlib.contextmanager
def one_row_uncommitted(site: Site) -> Iterator[None]:
    """Delete a row; put it back in a transaction that never commits."""
    columns = "id, epoch, session, seq, part, payload, checksum"
    with contextlib.closing(site.connect()) as connection:
        cursor = connection.cursor()
        if site.name == "postgresql":
            off = (name for name in WORST[site.name] if name.endswith("_timeout"))
            cursor.execute("; ".join(("reset all", *(f"set {n} = 0" for n in off))))
        else:
            cursor.execute(
                "set session wait_timeout = 600, sql_select_limit = 1000,"
                " sql_big_selects = 1, sql_safe_updates = 0"
            )
        cursor.execute(
            f"select {columns} from {site.table} where session = 1 and seq = 5"
        )
        (row,) = cursor.fetchall()
        cursor.execute(f"delete from {site.table} where session = 1 and seq = 5")
        cursor.execute("begin")
        cursor.execute(
            f"insert into {site.table} ({columns}) values (%s, %s, %s, %s, %s, %s, %s)",
            row,
        )
        cursor.close()
        yield
