"""What was unsafe for a time while the load ran, and was not before and after it."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from sqlalchemy.engine import make_url

from dbcheck.base.system import now_us
from dbcheck.cycle.cutter import Cutter
from dbcheck.cycle.loading import load_until_cut
from dbcheck.cycle.outcome import Outcome
from dbcheck.cycle.preflight.before_load import run_preflight
from dbcheck.cycle.reconciling import reconcile_run
from dbcheck.cycle.rig import Limits
from dbcheck.engines.registry import open_engine
from dbcheck.judge.diagnosis import Cause
from dbcheck.judge.item import ItemId, Status
from dbcheck.judge.server_end import decide_how_server_ended
from dbcheck.lab.spec import LabSpec
from dbcheck.model.cut import Cut, Gone
from dbcheck.model.verdict import Verdict
from dbcheck.model.watched import FactKind, Looked, WatchTally
from dbcheck.ports.connection import Session
from dbcheck.ports.listener import Phase
from dbcheck.power.kinds.manual import ManualConfig, ManualSwitch
from dbcheck.rows.plans.registry import plan_of
from dbcheck.rows.schedule import Schedule
from tests.kit.lab_access import connect, server_pid
from tests.kit.labs import host_of, process_lab
from tests.kit.nodes import with_node
from tests.kit.proxy import PASS_ON, SWALLOW, Proxy
from tests.kit.rigs import ENGINES, SEED, Bench, Said, bench, cut_beside, quick
from tests.kit.sessions import run_on
from tests.kit.waiting import wait_until

# What the statements of PostgreSQL's looks name, and none of a session of the load.
_LOOKED_FOR = (
    *(b"pg_settings", b"pg_conf_load_time", b"pg_stat_sys_tables", b"pg_class"),
    b"canary",
)
FLUSH = "innodb_flush_log_at_trx_commit"


def break_sessions(here: Bench) -> int:
    """Break every session that has committed; return how many there were."""
    rows = here.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where pid <> pg_backend_pid() and query ilike any"
        " (array['%into dbcheck.ledger%', 'commit'])"
    )
    return len(rows)


class Looks:
    """What the looks of a run showed, as they come."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._found: list[Looked] = []
        self._asked_us = 0
        added = WatchTally.add

        def add(
            tally: WatchTally, asked_us: int, found: Looked, answered_us: int
        ) -> None:
            added(tally, asked_us, found, answered_us)
            self._found.append(found)
            self._asked_us = asked_us

        monkeypatch.setattr(WatchTally, "add", add)

    def await_one(self, after_us: Callable[[], int]) -> None:
        """Wait until a look was answered that was asked for after that moment."""
        wait_until(lambda: self._asked_us > after_us(), "a look")

    def await_value(
        self, kind: FactKind, has: Callable[[str], bool], of: str | None = None
    ) -> None:
        """Wait until a look that is yet to come shows such a value.

        of: the setting's name, or what else has the value; None: any.
        """
        begun = len(self._found)

        def shown() -> bool:
            return any(
                fact.kind is kind and of in (None, fact.of) and has(value)
                for looked in self._found[begun:]
                for fact, value in looked.items()
            )

        wait_until(shown, f"a look at {kind.value}")


class PassesOn:
    """A switch that does what the real one does, but for what a test changes."""

    def __init__(self, real: Any) -> None:
        self.real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    return Looks(monkeypatch)


def status(outcome: Outcome, name: ItemId) -> Status:
    (found,) = [item for item in outcome.judgement.items if item.id is name]
    return found.status


@pytest.mark.root
def test_fsync_off_for_a_time_is_named_as_the_cause(
    looks: Looks, tmp_path: Path
) -> None:
    """What was written to a segment of the WAL that is full is never flushed again."""
    fsync = "select setting from pg_settings where name = 'fsync'"

    def act() -> None:
        here.execute("alter system set fsync = off")
        here.execute("select pg_reload_conf()")
        wait_until(lambda: here.execute(fsync) == [("off",)], "fsync is off")
        rows = f"select count(*) from {here.table}"
        (before,) = here.execute(rows)[0]
        wait_until(lambda: here.execute(rows)[0][0] > before + 100, "commits")
        looks.await_value(FactKind.SETTING, lambda value: value == "off", "fsync")
        here.execute("select pg_switch_wal()")
        here.execute("alter system reset fsync")
        here.execute("select pg_reload_conf()")
        wait_until(lambda: here.execute(fsync) == [("on",)], "fsync is on again")
        looks.await_value(FactKind.SETTING, lambda value: value == "on", "fsync")

    with bench(LabSpec("postgresql"), tmp_path) as here:
        outcome = cut_beside(here, act, quick())
    assert outcome.verdict is Verdict.FAIL, outcome.judgement
    result = outcome.result
    assert any(text.startswith("fsync = off") for text in result.settings_at_fault)
    assert result.diagnosis[0].cause is Cause.SETTING
    assert status(outcome, ItemId.SAME_SETTINGS) is Status.CONTRADICTED
    assert status(outcome, ItemId.THROUGH_LOAD) is Status.CONTRADICTED
    assert outcome.load is not None and outcome.load.watched is not None
    seen = outcome.load.watched
    assert seen.looks > 2 and seen.last_us > outcome.load.began_us


@pytest.mark.parametrize("processes", [1, 2])
def test_what_the_loads_sessions_alone_have_is_at_fault(
    processes: int, tmp_path: Path
) -> None:
    """An account's setting holds for the sessions that begin while it is there."""
    name = "synchronous_commit"

    def act() -> None:
        (account,) = here.execute("select current_user")[0]
        rows = f"select count(*) from {here.table}"
        (before,) = here.execute(rows)[0]
        wait_until(lambda: here.execute(rows)[0][0] > before + 50, "commits")
        here.execute(f'alter role "{account}" set {name} = off')
        try:
            broken.append(break_sessions(here))
            (before,) = here.execute(rows)[0]
            wait_until(lambda: here.execute(rows)[0][0] > before + 50, "commits anew")
        finally:
            here.execute(f'alter role "{account}" reset {name}')

    broken: list[int] = []
    chosen = replace(quick(), processes=processes)
    with bench(process_lab("postgresql"), tmp_path) as here:
        outcome = cut_beside(here, act, chosen)
    assert outcome.verdict is not Verdict.PASS, outcome.judgement
    at_fault = outcome.result.settings_at_fault
    assert any(text.startswith(f"{name} = off") for text in at_fault)
    assert status(outcome, ItemId.SETTINGS) is Status.ABSENT
    assert status(outcome, ItemId.SAME_SETTINGS) is Status.CONTRADICTED
    assert status(outcome, ItemId.THROUGH_LOAD) is Status.CONTRADICTED
    load = outcome.load
    assert load is not None and load.watched is not None
    assert load.replaced is not None
    assert load.began_us < load.replaced.first_us <= load.replaced.last_us
    assert 1 <= load.replaced.sessions <= broken[0]
    assert not load.watched.of(FactKind.SETTING), "no other session shows it"


@pytest.mark.root
@pytest.mark.parametrize("engine", ["mariadb", "mysql"])
def test_a_relaxed_log_for_a_time_takes_the_pass_away(
    engine: str, looks: Looks, tmp_path: Path
) -> None:
    def act() -> None:
        (strict,) = here.execute(f"select @@global.{FLUSH}")[0]
        here.execute(f"set global {FLUSH} = 2")
        looks.await_value(FactKind.SETTING, lambda value: value == "2", FLUSH)
        here.execute(f"set global {FLUSH} = {strict}")

    with bench(LabSpec(engine), tmp_path) as here:
        outcome = cut_beside(here, act, quick())
    assert outcome.verdict is Verdict.INCONCLUSIVE, outcome.judgement
    assert outcome.result.settings_at_fault[0].startswith(f"{FLUSH} = 2")
    assert status(outcome, ItemId.SETTINGS) is Status.ABSENT
    assert status(outcome, ItemId.SAME_SETTINGS) is Status.CONTRADICTED


@pytest.mark.root
def test_a_mount_without_barriers_for_a_time_is_named(
    looks: Looks, tmp_path: Path
) -> None:
    def remount(option: str) -> None:
        command = ["nsenter", "-m", "-t", str(server_pid(here.lab))]
        command += ["mount", "-o", f"remount,{option}", str(mounted)]
        subprocess.run(command, check=True)

    def act() -> None:
        remount("barrier=0")
        looks.await_value(
            FactKind.MOUNT,
            lambda options: (
                not {"barrier=0", "nobarrier"}.isdisjoint(options.split(","))
            ),
        )
        remount("barrier=1")

    spec = LabSpec("mariadb", filesystem="ext4")
    with bench(spec, tmp_path) as lab, host_of(lab.lab) as host:
        here: Bench = replace(lab, rig=with_node(lab.rig, host=host))
        datadir = here.rig.site.writer.engine.facts().identity["datadir"]
        mounted = host.facts(datadir).data.mount_point
        outcome = cut_beside(here, act, quick())
    assert outcome.verdict is not Verdict.PASS, outcome.judgement
    assert status(outcome, ItemId.SETTINGS) is Status.ABSENT
    assert status(outcome, ItemId.THROUGH_LOAD) is Status.CONTRADICTED
    assert any("barrier" in text for text in outcome.result.settings_at_fault)


@pytest.mark.root
def test_a_log_that_lay_elsewhere_for_a_time_claims_no_depth(
    looks: Looks, tmp_path: Path
) -> None:
    """It is where it was before the cut; this one lost nothing by that."""

    def act() -> None:
        looks.await_value(FactKind.PLACE, lambda where: where.startswith(str(log)))
        (seen / "pg_wal").rename(seen / "moved")
        (seen / "pg_wal").symlink_to("moved")
        looks.await_value(FactKind.PLACE, lambda where: "/moved (" in where)
        (seen / "pg_wal").unlink()
        (seen / "moved").rename(seen / "pg_wal")
        looks.await_value(FactKind.PLACE, lambda where: where.startswith(str(log)))

    with bench(LabSpec("postgresql"), tmp_path) as lab, host_of(lab.lab) as host:
        here: Bench = replace(lab, rig=with_node(lab.rig, host=host))
        facts = here.rig.site.writer.engine.facts()
        log = Path(facts.identity["data_directory"], "pg_wal")
        seen = Path(f"/proc/{server_pid(here.lab)}/root{log.parent}")
        slow = replace(quick(), rate=40.0)  # no further segment is opened meanwhile
        outcome = cut_beside(here, act, slow)
    assert outcome.verdict is Verdict.INCONCLUSIVE, outcome.judgement
    assert status(outcome, ItemId.PLACES) is Status.CONTRADICTED
    assert status(outcome, ItemId.THROUGH_LOAD) is Status.CONTRADICTED
    assert outcome.result.depth is not None and outcome.result.depth.depth is None


def test_a_canary_that_was_emptied_before_the_cut_shows_nothing(tmp_path: Path) -> None:
    """A backend that crashes has the server recover by itself, in the same process."""
    with bench(process_lab("postgresql"), tmp_path) as here:
        started = run_preflight(here.rig, quick(), SEED)
        writer = here.rig.site.writer
        other = connect(here.lab.target_url, here.lab.password)
        with pytest.raises(psycopg2.OperationalError, match="closed the connection"):
            here.execute("copy (select 1) to program 'kill -9 $PPID'")
        wait_until(lambda: _is_ended(other), "the server ends its other sessions")
        wait_until(lambda: writer.engine.ready() is None, "server is back")
        here.loading(started)
        writer.power.restore()
        wait_until(lambda: writer.engine.ready() is None, "server is back")
        outcome = here.judge(started)
    assert outcome.after.canary is False
    assert decide_how_server_ended(outcome.case).canary is None


def _is_ended(connection: Any) -> bool:
    try:
        connection.cursor().execute("select 1")
    except psycopg2.OperationalError:
        return True
    return False


def test_a_crash_that_postgresql_outlives_is_not_called_a_shutdown(
    tmp_path: Path,
) -> None:
    """Its main process keeps its start time, and ends the sessions with a farewell."""

    class Crash(PassesOn):
        """A switch that has a backend crash, and leaves the power on."""

        def cut(self) -> Cut:
            asked_us = now_us()
            with pytest.raises(psycopg2.OperationalError, match="closed"):
                here.execute("copy (select 1) to program 'kill -9 $PPID'")
            return Cut(asked_us, None)

    limits = Limits(return_s=60, cut_s=3)
    with bench(process_lab("postgresql"), tmp_path, limits) as here:
        writer = here.rig.site.writer
        crashing = replace(here, rig=with_node(here.rig, power=Crash(writer.power)))
        started = run_preflight(crashing.rig, quick(), SEED)
        crashing.loading(started)
        wait_until(lambda: writer.engine.ready() is None, "server is back")
        outcome = here.judge(started)
    assert outcome.verdict is Verdict.INCONCLUSIVE
    assert decide_how_server_ended(outcome.case).restarted is False
    assert status(outcome, ItemId.NOT_SHUT_DOWN) is Status.PRESENT
    assert status(outcome, ItemId.RESTARTED) is Status.ABSENT


def test_what_changes_while_a_hand_is_at_the_plug_is_seen(
    looks: Looks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The prompt may wait for minutes, in which somebody changes a setting."""
    monkeypatch.setattr("dbcheck.cycle.cutter.PREPARED_MAX_S", 0.1)
    name = "synchronous_commit"

    def act() -> None:
        here.execute(f"alter system set {name} = local")
        here.execute("select pg_reload_conf()")
        looks.await_value(FactKind.SETTING, lambda value: value == "local", name)
        wait_until(lambda: before() == "local", "the facts before the cut are new")
        power.cut()

    def before() -> str:
        made = cutters[0].before
        return made.settings[name] if made is not None else ""

    with bench(process_lab("postgresql"), tmp_path) as here, ThreadPoolExecutor(1) as p:
        power, acting, cutters = here.rig.site.writer.power, list[Future[None]](), []
        by_hand = ManualSwitch(ManualConfig(), lambda _: acting.append(p.submit(act)))
        rig = with_node(here.rig, power=by_hand)
        started = run_preflight(rig, quick(), SEED)
        cutters.append(Cutter(rig, started))
        load = load_until_cut(rig, started, cutters[0])
        acting[0].result()
        power.restore()
        wait_until(lambda: here.rig.site.writer.engine.ready() is None, "it is back")
        outcome = here.judge(started)
    assert load.settings is not None and load.settings[name] == "local"
    assert outcome.verdict is Verdict.INCONCLUSIVE
    assert status(outcome, ItemId.SAME_SETTINGS) is Status.CONTRADICTED
    assert status(outcome, ItemId.THROUGH_LOAD) is Status.CONTRADICTED


def test_a_server_that_answered_on_was_cut_later(looks: Looks, tmp_path: Path) -> None:
    """Its commits stop first: a lying drive writes out its cache, and then goes."""
    stalled, cutters = threading.Event(), list[Cutter]()

    class StallsFirst(PassesOn):
        """A switch before whose cut only the watch's connection is still answered."""

        def cut(self) -> Cut:
            asked_us = now_us()
            stalled.set()
            looks.await_one(lambda: last_ack_us() + 1_500_000)
            proxy.go_dark()  # what loses its power does not end its connections
            return Cut(asked_us, None, self.real.cut().report)

    def last_ack_us() -> int:
        load = cutters[0].load
        assert load is not None
        return load.last_ack_us() or 0

    class Ended(Said):
        """Ends the proxy's silence once the server was seen to be gone."""

        def phase(self, phase: Phase, detail: str = "") -> None:
            super().phase(phase, detail)
            if phase is Phase.GONE:
                proxy.kill()

    def fate(chunk: bytes) -> str:
        """Of a connection that does not ask what a look asks, the first one on."""
        if not stalled.is_set() or any(text in chunk for text in _LOOKED_FOR):
            return PASS_ON
        return SWALLOW

    limits = Limits(silence_s=3, return_s=60)
    with bench(process_lab("postgresql"), tmp_path, limits) as here:
        url = make_url(here.lab.target_url)
        assert url.port is not None
        with Proxy(url.port, fate) as proxy:
            far = url.set(port=proxy.port).render_as_string(hide_password=False)
            near = here.rig.site.writer
            rig = with_node(
                here.rig,
                engine=open_engine(far, here.lab.password),
                power=StallsFirst(near.power),
                host=None,  # which runs on in a lab
            )
            rig = replace(rig, listener=Ended())
            started = run_preflight(rig, quick(), SEED)
            cutters.append(Cutter(rig, started))
            load = load_until_cut(rig, started, cutters[0])
            assert load.gone is Gone.SILENT
            stalled.clear()
            near.power.restore()
            wait_until(lambda: near.engine.ready() is None, "it is back")
            proxy.start()
            outcome = reconcile_run(rig, started.run, started.manifest)
    assert outcome.verdict is Verdict.INCONCLUSIVE, outcome.judgement
    assert status(outcome, ItemId.LOAD) is Status.ABSENT
    lost_s = outcome.before_cut_s(load.last_ack_us or 0)
    assert lost_s is not None and lost_s >= 1.5


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["insert", "mixed", "two-phase"])
def test_a_session_shows_what_it_alone_has(
    engine: str, name: str, tmp_path: Path
) -> None:
    """Of one statement, of several, and of those that end prepared."""
    plan = plan_of(quick(name), Schedule(SEED, 1, (40,)))

    def commit(number: int, seq: int, *, look: bool) -> Mapping[str, str]:
        session = sessions[number]
        sent = session.send(plan.operation(number, seq), look=look)
        wait_until(lambda: sent or session.flush(), "all was sent")
        wait_until(lambda: session.receive() is not None, "a commit")
        return dict(session.settings())

    with bench(process_lab(engine), tmp_path) as here, contextlib.ExitStack() as stack:
        writer = here.rig.site.writer.engine
        writer.prepare(plan.tables)
        facts = writer.facts()

        def open_session(number: int) -> None:
            session = writer.open_session(plan.statements, server=facts)
            sessions[number] = stack.enter_context(contextlib.closing(session))

        sessions: dict[int, Session] = {}
        open_session(1)
        assert commit(1, 1, look=False) == {}
        first = commit(1, 2, look=True)
        assert first and first.items() <= facts.settings.items()
        if engine == "postgresql":
            own = {"synchronous_commit": "off"}
            here.execute("alter role current_user set synchronous_commit = off")
            open_session(2)
        else:
            own = {"sql_log_bin": "OFF"}
            open_session(2)
            run_on(sessions[2], "set session sql_log_bin = 0")
        assert commit(1, 3, look=True) == first
        assert commit(2, 1, look=False) == {}
        assert commit(2, 2, look=True) == {**first, **own}
        assert commit(2, 3, look=False) == {**first, **own}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_change_between_two_looks_leaves_its_time(
    engine: str, tmp_path: Path
) -> None:
    """MariaDB alone does not show when it was set."""
    change: dict[str, tuple[str, ...]] = {
        "postgresql": ("select pg_reload_conf()",),
        "mariadb": (f"set global {FLUSH} = 2", f"set global {FLUSH} = 1"),
    }
    change["mysql"] = change["mariadb"]

    def times(found: Any) -> set[tuple[str, str]]:
        return {(f.of, v) for f, v in found.items() if f.kind is FactKind.CHANGE_TIME}

    with bench(process_lab(engine), tmp_path) as here:
        writer = here.rig.site.writer.engine
        settings = writer.facts().settings
        with contextlib.closing(writer.open_look(settings, None)) as look:
            first = look.read()
            for fact, value in first.items():
                if fact.kind is FactKind.SETTING:
                    assert value == settings[fact.of]
            assert len(first) > 15
            writer.open_look(settings, None).close()  # it sets what sessions may set
            assert times(look.read()) == times(first)
            for statement in change[engine]:
                here.execute(statement)
            if engine != "mariadb":
                wait_until(lambda: times(look.read()) != times(first), "a new time")
