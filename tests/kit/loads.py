"""What a load does to a server, and a session of it broken."""

from __future__ import annotations

import threading

from dbcheck.cycle.cutter import Cutter
from dbcheck.cycle.loading import load_until_cut
from dbcheck.cycle.preflight.before_load import Started
from tests.kit.rigs import Bench
from tests.kit.waiting import wait_until


def await_load(here: Bench, started: Started) -> None:
    """Wait until every session of a cycle has committed."""
    epoch, sessions = started.manifest.epoch, started.manifest.workload.sessions
    seen = f"select count(distinct session) from {here.table} where epoch = {epoch}"
    wait_until(lambda: here.execute(seen) == [(1 + sessions,)], "the load")


def load_with_a_broken_session(here: Bench, started: Started) -> None:
    """Break one session of the load, have the power cut once another works."""
    cutter = Cutter(here.rig, started)
    loading = threading.Thread(target=load_until_cut, args=(here.rig, started, cutter))
    loading.start()
    await_load(here, started)
    end_connection(here, a_connection(here))
    epoch, sessions = started.manifest.epoch, started.manifest.workload.sessions
    new = (
        f"select seq from {here.table} where epoch = {epoch}"
        f" and session > {sessions} and seq > 1"
    )
    wait_until(lambda: bool(here.execute(new)), "the new session's first ack")
    cutter.after_s = 0.0
    loading.join()
    here.rig.site.writer.power.restore()


def a_connection(here: Bench) -> int:
    """Return the server's id of a connection that the load uses."""
    found: list[int] = []

    def seen() -> bool:
        found.extend(connections(here))
        return bool(found)

    wait_until(seen, "a session inserts")
    return found[0]


def connections(here: Bench) -> list[int]:
    """Return the server's ids of the connections that insert just now."""
    if here.engine == "postgresql":
        rows = here.execute(
            "select pid from pg_stat_activity where application_name = 'dbcheck'"
            " and query like '%insert%'"
        )
    elif here.engine == "mysql":  # 8.0.36 crashes when it is asked for the statement
        rows = here.execute(
            "select processlist_id from performance_schema.threads"
            " where processlist_user = 'dbcheck' and processlist_command = 'Execute'"
        )
    else:
        rows = here.execute(
            "select id from information_schema.processlist"
            " where user = 'dbcheck' and info like 'insert%'"
        )
    return [row[0] for row in rows]


def end_connection(here: Bench, number: int) -> None:
    """Have the server close one of its connections."""
    if here.engine == "postgresql":
        here.execute("select pg_terminate_backend(%s)", number)
    else:
        here.execute(f"kill connection {number}")
