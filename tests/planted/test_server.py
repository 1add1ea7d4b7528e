"""Another server, another state of it, or no cut at all: never its fault."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbcheck.cycle.outcome import Outcome
from dbcheck.cycle.reconciling import reconcile_run
from dbcheck.cycle.recovery import reading_log
from dbcheck.cycle.rig import Limits
from dbcheck.engines.registry import open_engine
from dbcheck.hosts.host import open_host
from dbcheck.judge.item import ItemId, Status
from dbcheck.lab.servers.base import DatabaseServer
from dbcheck.lab.servers.mariadb import MariadbServer
from dbcheck.lab.servers.postgresql import PostgresqlServer
from dbcheck.load.sessions import commit
from dbcheck.model.cut import Gone
from dbcheck.model.verdict import Verdict
from dbcheck.ports.host import TargetHost
from dbcheck.rows.plans.plan import INSERT
from dbcheck.rows.schedule import Schedule
from dbcheck.rows.table import LEDGER
from tests.kit.operations import insert
from tests.kit.proxy import PASS_ON, Proxy
from tests.kit.rigs import CUTS_MAX, ENGINES, quick, witness_lagged
from tests.kit.servers import server_in
from tests.kit.waiting import wait_until
from tests.planted.booted import booted
from tests.planted.fault import FAIL, INCONCLUSIVE, PASS, Fault, engines, faults
from tests.planted.site import LIMITS, Site
from tests.planted.wrapped import Meanwhile, wrapped

pytestmark = pytest.mark.planted

POSTGRESQL = ("postgresql",)
PAGE_BYTES = 8192  # of PostgreSQL
INNODB_PAGE_BYTES = 16384


def killed(site: Site) -> Outcome:
    outcome = site.cycle()
    before, after = (
        one.tables[LEDGER.name] for one in (outcome.manifest, outcome.after)
    )
    assert after.identity == before.identity != ""
    return outcome


def killed_for_a_cut(site: Site) -> Outcome:
    """Kill the server alone, behind a switch that says nothing and no lab."""
    return site.cycle(exact=False, lab=False)


def back_as_a_replica(site: Site) -> Outcome:
    """What it has from then on may come from the server that it follows."""
    follow = {
        "mysql": "change replication source to source_host = '127.0.0.1'",
        "mariadb": "change master to master_host = '127.0.0.1'",
    }

    def restore() -> None:
        site.server.start()
        site.execute(follow[site.server.name])
        site.changed = True

    return site.cycle(restore=restore)


def shut_down(site: Site) -> Outcome:
    return site.cycle(site.server.stop, exact=False, lab=False)


def shut_down_at_once(site: Site) -> Outcome:
    """Send SIGQUIT: sessions are told, and nothing is written any more."""

    def stop() -> None:
        process = site.server._process
        assert process is not None
        process.send_signal(signal.SIGQUIT)
        process.wait(10)
        site.server.kill()

    return site.cycle(stop, exact=False, lab=False)


def shut_down_in_the_dark(site: Site) -> Outcome:
    """Let the network fail first, as where a UPS feeds the host and not its switch."""
    return _in_the_dark(site, site.server.stop)


def killed_in_the_dark(site: Site) -> Outcome:
    return _in_the_dark(site, site.server.kill)


def _in_the_dark(
    site: Site, end: Callable[[], None], host: TargetHost | None = None
) -> Outcome:
    """Have the server end once nothing of it is seen any more.

    host: asked for the log as well.
    """
    with Proxy(site.server.port, lambda _: PASS_ON) as proxy:

        def restore() -> None:
            end()
            proxy.kill()
            site.server.start()
            proxy.start()

        engine = site.through(proxy.port)
        outcome = site.cycle(
            proxy.go_dark,
            restore,
            engine=engine,
            exact=False,
            lab=False,
            host=host,
            log=host is not None,
        )
    assert outcome.load is not None
    assert outcome.load.gone == Gone.SILENT
    return outcome


def never_restarted(site: Site) -> Outcome:
    return site.cycle(lambda: None, lambda: None)


def view_restarted(site: Site) -> Outcome:
    """Break all that the client sees of the server, which goes on."""
    with Proxy(site.server.port, lambda _: PASS_ON) as proxy:
        return site.cycle(proxy.kill, proxy.start, engine=site.through(proxy.port))


def view_broken_under_the_load(site: Site) -> Outcome:
    """Break every connection once; the sessions come back before the cut."""
    count = f"select count(distinct session) from {site.table}"
    sessions = 1 + 2 * quick().sessions
    with Proxy(site.server.port, lambda _: PASS_ON) as proxy:

        def cut() -> None:
            proxy.drop()
            wait_until(lambda: site.execute(count) == [(sessions,)], "new rows")
            site.server.kill()

        outcome = site.cycle(cut, engine=site.through(proxy.port))
    assert outcome.load is not None
    assert len(outcome.load.sent) == sessions
    return outcome


def backend_killed(site: Site) -> Outcome:
    """Kill one backend: the server recovers all by itself, and is never cut."""

    def cut() -> None:
        pids = "select pid from pg_stat_activity where application_name = 'dbcheck'"
        os.kill(
            site.execute(f"{pids} order by backend_start limit 1")[0][0], signal.SIGKILL
        )

    return site.cycle(cut, lambda: None)


def view_and_server_restarted(site: Site) -> Outcome:
    with Proxy(site.server.port, lambda _: PASS_ON) as proxy:
        return site.cycle(engine=site.through(proxy.port))


def snapshot_restored(site: Site) -> Outcome:
    """Put back what was copied before this cycle, with rows of an earlier one."""
    snapshot = _snapshot(site)
    with contextlib.closing(open_host("local:")) as host:
        return site.cycle(restore=lambda: _start_on(site, snapshot), host=host)


def snapshot_restored_unseen(site: Site) -> Outcome:
    """Put it back where nobody looks at the data directory."""
    snapshot = _snapshot(site)
    return site.cycle(restore=lambda: _start_on(site, snapshot))


def restored_in_place(site: Site) -> Outcome:
    """Write a copy that an earlier run left over the files: their inodes stay."""
    site.cycle()
    site.server.stop()
    copy = site.copy_data("snapshot")
    site.server.start()
    return _written_over(site, copy)


def restored_in_place_without_the_table(site: Site) -> Outcome:
    return _written_over(site, site.clean)


def _written_over(site: Site, copy: Path) -> Outcome:
    def restore() -> None:
        site.changed = True
        data = site.server.data
        # A redo log that the copy lacks would be newer than the pages of the copy.
        for path in sorted(data.rglob("*"), reverse=True):
            if not os.path.lexists(copy / path.relative_to(data)):
                path.rmdir() if path.is_dir() else path.unlink()
        subprocess.run(["cp", "-a", f"{copy}/.", str(data)], check=True)
        site.server.start()

    with contextlib.closing(open_host("local:")) as host:
        return site.cycle(restore=restore, host=host, exact=False, lab=False)


def snapshot_without_the_table(site: Site) -> Outcome:
    with contextlib.closing(open_host("local:")) as host:
        return site.cycle(restore=lambda: _start_on(site, site.clean), host=host)


def snapshot_without_the_table_unseen(site: Site) -> Outcome:
    return site.cycle(restore=lambda: _start_on(site, site.clean))


def table_emptied(site: Site) -> Outcome:
    """Lose every row, and nothing else: the data directory is the same."""

    def restore() -> None:
        site.server.start()
        site.execute(f"delete from {site.table}")

    with contextlib.closing(open_host("local:")) as host:
        return site.cycle(restore=restore, host=host)


def table_truncated(site: Site) -> Outcome:
    """Have somebody truncate the table once the server is back."""
    return _replaced(site, f"truncate table {site.table}")


def table_rewritten(site: Site) -> Outcome:
    """Have somebody rewrite the table, with every row in it."""
    return _replaced(site, f"vacuum full {site.table}")


def _replaced(site: Site, statement: str) -> Outcome:
    def restore() -> None:
        site.server.start()
        site.execute(statement)

    with contextlib.closing(open_host("local:")) as host:
        return site.cycle(restore=restore, host=host)


def table_dropped(site: Site) -> Outcome:
    """Lose the table, and nothing else."""

    def restore() -> None:
        site.server.start()
        site.rig.site.writer.engine.drop()

    with contextlib.closing(open_host("local:")) as host:
        return site.cycle(restore=restore, host=host)


def other_server(site: Site) -> Outcome:
    """Start another server, with data of its own, on the port of the first."""
    with _other(site, "other") as other:
        try:
            return site.cycle(restore=other.start)
        finally:
            other.kill()


def other_server_in_its_place(site: Site) -> Outcome:
    """Put another server's data where the first one had its own."""
    with _other(site, "other") as other:
        data = other.data
        return site.cycle(restore=lambda: _start_on(site, data))


def promoted_replica(site: Site) -> Outcome:
    """Bring up a replica that got nothing of the run, where the primary was."""
    standby = _standby(site)
    return site.cycle(restore=lambda: _promote(site, standby))


def promoted_replica_that_has_all(site: Site) -> Outcome:
    """Bring up a synchronous replica: no ack is missing, and no drive was read."""
    standby = _streaming(site)
    with (standby.data / "postgresql.auto.conf").open("a") as settings:
        settings.write("synchronous_standby_names = '*'\n")  # as the primary has it
    try:
        standby.start()
        site.execute("alter system set synchronous_standby_names = '*'")
        site.execute("select pg_reload_conf()")
        names = "select count(*) from pg_stat_replication where sync_state = 'sync'"
        wait_until(lambda: site.execute(names) == [(1,)], "the standby is in step")

        def restore() -> None:
            standby.stop()
            _promote(site, standby.data)

        return site.cycle(restore=restore)
    finally:
        standby.kill()
        shutil.rmtree(standby.data.parent)


def page_lost(site: Site) -> Outcome:
    """Find zeros where a page of the table was; its index still knows the rows."""

    def restore() -> None:
        _restart_cleanly(site)
        table = _table_file(site)
        site.server.stop()
        with table.open("r+b") as file:
            file.seek(2 * PAGE_BYTES)
            file.write(bytes(PAGE_BYTES))
        site.server.start()

    # A few rows on each page, so that even a slow server's last row is on a later one.
    return site.cycle(restore=restore, workload=replace(quick(), payload_bytes=(1000,)))


def page_damaged(site: Site, *, log: bool = True, limits: Limits = LIMITS) -> Outcome:
    """Find other bytes in the table's file than the server wrote."""

    def restore() -> None:
        _restart_cleanly(site)
        table = _table_file(site)
        ((payload,),) = site.execute(
            f"select payload from {site.table} where length(payload) = 128"
            " order by id limit 1"
        )
        site.server.stop()
        content = bytearray(table.read_bytes())
        content[content.index(bytes(payload))] ^= 0xFF
        table.write_bytes(content)
        site.server.start()

    with contextlib.closing(open_host("local:")) as host:
        return site.cycle(restore=restore, host=host, log=log, limits=limits)


def root_page_damaged(site: Site) -> Outcome:
    """Find noise where the tree of the table begins: the server names the table."""

    def restore() -> None:
        _restart_cleanly(site)
        table = _table_file(site)
        site.server.stop()
        with table.open("r+b") as file:
            file.seek(3 * INNODB_PAGE_BYTES + 200)
            file.write(os.urandom(4000))
        site.server.start()

    return site.cycle(restore=restore)


def file_unreadable(site: Site) -> Outcome:
    """Take away the right to open the table's file, as a copy with wrong modes does."""

    def restore() -> None:
        _restart_cleanly(site)
        table = _table_file(site)
        site.server.stop()
        table.chmod(0)
        site.server.start()

    outcome = site.cycle(restore=restore)
    assert not outcome.run.was_read()
    return outcome


def setting_changed(site: Site) -> Outcome:
    """Change, during the load, a setting that the server has after it."""
    if site.name != "postgresql":
        return site.cycle(restore=lambda: _start_with(site, "sync_binlog", "7"))
    change = "alter role dbcheck set synchronous_commit = off"

    def cut() -> None:
        site.changed = True
        site.execute(change)
        site.server.kill()

    return site.cycle(cut)


def system_altered(site: Site) -> Outcome:
    def cut() -> None:
        site.changed = True
        site.execute("alter system set commit_delay = 10")
        site.server.kill()

    return site.cycle(cut)


def global_set_before(site: Site) -> Outcome:
    """Set what the restart sets back."""
    site.execute("set global innodb_flush_log_at_trx_commit = 2")
    return site.cycle()


def global_set_during(site: Site) -> Outcome:
    """Set, under the load, what the restart sets back."""

    def relax() -> None:
        site.execute("set global innodb_flush_log_at_trx_commit = 2")

    engine = wrapped(
        site.rig.site.writer.engine, lambda opened: Meanwhile(opened, 1, 20, relax)
    )
    return site.cycle(engine=engine)


SHUT_DOWN = {
    "postgresql": "the server was not cut: ",  # by the farewell, or by the canary
    "mariadb": "it was shut down, not cut",
    "mysql": "it was shut down, not cut",
}
KILLED = {
    "postgresql": "acknowledged commits survived",
    "mariadb": "acknowledged commits survived",
    "mysql": "error log over SQL it says 'Database was not shutdown normally!'",
}
INNODB = ("mariadb", "mysql")
REPLACED = "ledger was truncated, rewritten or recreated since the load began"
COPY = "the data directory was replaced by a copy"
SERVERS = (
    Fault("killed", killed, PASS, says=KILLED, engines=ENGINES),
    Fault(
        "killed for a cut",
        killed_for_a_cut,
        INCONCLUSIVE,
        says="closed",
    ),
    Fault(
        "back as a replica",
        back_as_a_replica,
        INCONCLUSIVE,
        says="follows another server as its replica",
        engines=("mariadb", "mysql"),
    ),
    Fault("shut down", shut_down, INCONCLUSIVE, says=SHUT_DOWN, engines=ENGINES),
    Fault(
        "shut down at once",
        shut_down_at_once,
        INCONCLUSIVE,
        says="closed at once",
        engines=POSTGRESQL,
    ),
    Fault(
        "shut down in the dark",
        shut_down_in_the_dark,
        INCONCLUSIVE,
        says="it was shut down, not cut",
        engines=ENGINES,
    ),
    Fault(
        "killed in the dark",
        killed_in_the_dark,
        PASS,
        says="assumed, not seen: host went down",
        engines=ENGINES,
    ),
    Fault("never restarted", never_restarted, INCONCLUSIVE, says="was not cut"),
    Fault("the view restarted", view_restarted, INCONCLUSIVE, says="was not cut"),
    Fault("the view broken under the load", view_broken_under_the_load, PASS),
    Fault(
        "a backend killed",
        backend_killed,
        INCONCLUSIVE,
        says="was not cut",
        engines=POSTGRESQL,
    ),
    Fault("view and server restarted", view_and_server_restarted, PASS),
    Fault("a snapshot restored", snapshot_restored, INCONCLUSIVE, says=COPY),
    Fault(
        "a copy restored in place",
        restored_in_place,
        INCONCLUSIVE,
        {"missing-tail": -1},
        says={
            "postgresql": "crash canary is gone, but so is every row of this run",
            "mariadb": "mysql/db.opt, which no server writes, was changed",
            "mysql": "auto.cnf, which no server writes, was changed",
        },
        engines=ENGINES,
    ),
    Fault(
        "a copy without the table restored in place",
        restored_in_place_without_the_table,
        INCONCLUSIVE,
        engines=ENGINES,
    ),
    Fault(
        "a snapshot restored, unseen",
        snapshot_restored_unseen,
        INCONCLUSIVE,
        {"missing-tail": -1},
        says="an older copy was restored",
    ),
    Fault(
        "a snapshot without the table",
        snapshot_without_the_table,
        INCONCLUSIVE,
        says=COPY,
    ),
    Fault(
        "a snapshot without the table, unseen",
        snapshot_without_the_table_unseen,
        INCONCLUSIVE,
        says="an older copy was restored",
    ),
    Fault(
        "every row gone",
        table_emptied,
        FAIL,
        {"missing-tail": -1},
        says="same table ledger was not truncated, rewritten or recreated",
    ),
    Fault(
        "the table truncated",
        table_truncated,
        INCONCLUSIVE,
        {"missing-tail": -1},
        says=f"rows are missing from the table, but {REPLACED}",
    ),
    Fault(
        "the table rewritten",
        table_rewritten,
        INCONCLUSIVE,
        says=f"same table {REPLACED}",
        engines=POSTGRESQL,
    ),
    Fault("the table gone", table_dropped, INCONCLUSIVE, says="somebody dropped it"),
    Fault("another server", other_server, INCONCLUSIVE, says="a different server"),
    Fault(
        "another server in its place",
        other_server_in_its_place,
        INCONCLUSIVE,
        says="a different server",
        engines=ENGINES,
    ),
    Fault(
        "a promoted replica",
        promoted_replica,
        INCONCLUSIVE,
        says="timeline",
        engines=POSTGRESQL,
    ),
    Fault(
        "a promoted replica that has all",
        promoted_replica_that_has_all,
        INCONCLUSIVE,
        says="timeline",
        engines=POSTGRESQL,
    ),
    Fault("a page lost", page_lost, FAIL, {"missing-hole": -1}, engines=POSTGRESQL),
    Fault(
        "a page damaged",
        page_damaged,
        FAIL,
        # MySQL ends itself when it reads the page, and says so in its log.
        says={
            "postgresql": "unrecoverable",
            "mariadb": "unrecoverable",
            "mysql": "Database page corruption on disk",
        },
        engines=ENGINES,
    ),
    Fault(
        "a root page damaged",
        root_page_damaged,
        FAIL,
        says="1877 (HY000): Table `dbcheck`.`ledger` is corrupted",
        engines=("mariadb",),
    ),
    Fault(
        "a file that may not be opened",
        file_unreadable,
        INCONCLUSIVE,
        says={
            "postgresql": "Permission denied",
            "mariadb": "Tablespace is missing",
            "mysql": "Tablespace is missing",
        },
        engines=ENGINES,
    ),
    Fault(
        "a setting changed",
        setting_changed,
        INCONCLUSIVE,
        says="same settings",
    ),
    Fault(
        "the system altered",
        system_altered,
        INCONCLUSIVE,
        says="commit_delay was 0, and 10 after",
        engines=POSTGRESQL,
    ),
    Fault(
        "a global set before",
        global_set_before,
        INCONCLUSIVE,
        says="innodb_flush_log_at_trx_commit was 2, and 1 after",
        engines=INNODB,
    ),
    Fault(
        "a global set during the load",
        global_set_during,
        INCONCLUSIVE,
        says="innodb_flush_log_at_trx_commit",
        engines=INNODB,
    ),
)


@pytest.mark.wide_with("mariadb", "mysql")
@faults(SERVERS)
@engines("own_site", *ENGINES)
def test_servers(site: Site, fault: Fault) -> None:
    settings = dict(site.server.settings)
    try:
        fault.require(fault.plant(site), site.name)
    finally:
        site.server.settings = settings


@pytest.mark.wide_with("mysql")
@engines("own_site", *INNODB)
def test_a_server_that_is_shut_down_without_writing_its_pages_was_not_cut(
    site: Site,
) -> None:
    """It recovers as from a crash, and the power took what it logged at its end."""
    with booted() as host:

        def end() -> None:
            logged = site.server.log_file.stat().st_size
            site.execute("set global innodb_fast_shutdown = 2")
            site.server.stop()
            os.truncate(site.server.log_file, logged)
            host.cut = True

        outcome = _in_the_dark(site, end, host.port)
    items = {item.id: item for item in outcome.judgement.items}
    assert items[ItemId.SERVER_LOG].status is Status.PRESENT
    assert items[ItemId.NOT_SHUT_DOWN].status is Status.CONTRADICTED
    assert outcome.verdict is Verdict.INCONCLUSIVE, outcome.judgement


@pytest.mark.wide
@engines("own_site", "mysql")
def test_without_its_log_nobody_knows_why_mysql_ended(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A damaged page ends it; the client sees no more than a lost connection."""
    monkeypatch.setattr(reading_log, "LOG_WAIT_S", 0.0)
    outcome = page_damaged(site, log=False, limits=replace(LIMITS, return_s=1.0))
    assert outcome.verdict is Verdict.INCONCLUSIVE, outcome.judgement
    (reason,) = outcome.judgement.reasons
    assert "Lost connection" in reason
    assert "--server-log" in reason
    assert not outcome.run.was_read()


@engines("own_site", "postgresql")
def test_a_recovery_that_goes_on_is_waited_for(site: Site) -> None:
    """Nothing is final while it lasts, and the right verdict comes once it is over."""
    standby = site.server.data / "standby.signal"

    def restore() -> None:
        site.changed = True
        standby.touch()
        site.server.start()
        ready = site.rig.site.writer.engine.ready
        wait_until(lambda: "in recovery" in (ready() or ""), "it says that it recovers")

    for _ in range(CUTS_MAX):
        outcome = site.cycle(restore=restore, limits=Limits(return_s=1.0))
        assert outcome.verdict is Verdict.INCONCLUSIVE
        assert "in recovery" in outcome.judgement.reasons[0]
        run = outcome.run
        assert not run.was_read()
        site.server.kill()
        standby.unlink()
        site.server.start()
        judgement = reconcile_run(site.rig, run, run.manifest()).judgement
        if not witness_lagged(judgement):
            break
        site.put_back()
    assert judgement.verdict is Verdict.PASS, judgement


def _snapshot(site: Site) -> Path:
    """Copy the data of a server that holds rows of an earlier cycle."""
    site.rig.site.writer.engine.prepare((LEDGER,))
    session = site.rig.site.writer.engine.open_session((INSERT,))
    for seq in range(1, 10):
        commit(session, insert(Schedule(7, 4711, (128,)).row(1, seq)))
    session.close()
    site.server.stop()
    snapshot = site.copy_data("snapshot")
    site.server.start()
    return snapshot


def _start_on(site: Site, data: Path) -> None:
    site.replace_data(data)
    site.server.start()


def _start_with(site: Site, setting: str, value: str) -> None:
    site.changed = True
    site.server.settings = {**site.server.settings, setting: value}
    site.server.start()


def _restart_cleanly(site: Site) -> None:
    """Let the server recover, so that nothing mends a page at its next start."""
    site.changed = True
    site.server.start()
    wait_until(lambda: site.rig.site.writer.engine.ready() is None, "server is back")


def _table_file(site: Site) -> Path:
    if site.name != "postgresql":
        return site.server.data / "dbcheck" / "ledger.ibd"
    ((path,),) = site.execute("select pg_relation_filepath('dbcheck.ledger')")
    return site.server.data / str(path)


@contextlib.contextmanager
def _other(site: Site, name: str) -> Any:
    """Make a server of the same kind, account and database, with its own data."""
    base = site.clean.parent / name
    port, account = site.server.port, site.server._account
    other: DatabaseServer = type(site.server)(
        base / "data", base / "run", port, account=account
    )
    other._held = site.server._held
    try:
        other.initialise()
        site.execute("select 1")
        _same_password(site, other)
        yield other
    finally:
        other.kill()
        shutil.rmtree(base)


def _same_password(site: Site, other: DatabaseServer) -> None:
    """Give the other server the account with the password of the first."""
    port, other.port = other.port, type(other)(other.data, other.run).port
    other.start()
    with contextlib.closing(Site(other, site.rig, site.clean).connect()) as connection:
        cursor = connection.cursor()
        secret = site.server.password
        if isinstance(other, PostgresqlServer):
            cursor.execute("alter role dbcheck password %s", (secret,))
        else:
            mariadb = isinstance(other, MariadbServer)
            value = "password(%s)" if mariadb else "%s"
            cursor.execute(f"set password = {value}", (secret,))
        cursor.close()
    # It is not new to dbcheck, so on MariaDB, too, its data bear a name.
    open_engine(other.url, site.server.password).prepare((LEDGER,))
    other.stop()
    other.port = port


def _standby(site: Site) -> Path:
    """Return the data folder of a replica as it was before the run."""
    site.rig.site.writer.engine.drop()
    site.server.stop()
    standby = site.copy_data("standby")
    site.server.start()
    (standby / "standby.signal").touch()
    return standby


def _promote(site: Site, standby: Path) -> None:
    _start_on(site, standby)
    site.execute("select pg_promote()")


def _streaming(site: Site) -> DatabaseServer:
    """Return a standby that follows the server once it is started."""
    base = site.clean.parent / "streaming"
    base.mkdir(mode=0o755)
    data = base / "data"
    program = PostgresqlServer.find("postgres")
    assert program is not None
    command = [str(program.with_name("pg_basebackup")), "--write-recovery-conf"]
    command += ["--checkpoint=fast", "--no-sync", "--host=127.0.0.1"]
    command += [f"--port={site.server.port}", "--username=dbcheck"]
    subprocess.run(
        [*command, f"--pgdata={data}"],
        env={"PGPASSWORD": site.server.password},
        check=True,
    )
    owner = site.server.data.stat()
    for path in (data, *data.rglob("*")):
        os.chown(path, owner.st_uid, owner.st_gid)
    standby = server_in(base, PostgresqlServer)
    standby._begin_run(site.server.password)
    return standby
