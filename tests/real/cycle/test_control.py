"""Controls on real servers: they lose, and a rig that cannot see it is found out."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, PowerError
from dbcheck.cycle.cycle import (
    TRIES_MAX,
    extract_control_facts,
    run_control,
    run_controls,
    run_cycle,
)
from dbcheck.cycle.judging import judge_run
from dbcheck.cycle.outcome import Outcome
from dbcheck.cycle.preflight.before_load import run_preflight
from dbcheck.cycle.rig import Limits
from dbcheck.lab.lab import Lab, list_missing
from dbcheck.lab.spec import DriveSpec, LabSpec
from dbcheck.model.cut import Cut, CutClass, PowerState, SwitchKind
from dbcheck.model.verdict import Verdict
from dbcheck.rows.table import LEDGER
from tests.kit.nodes import with_node
from tests.kit.refusals import refused
from tests.kit.rigs import FAMILIES, SEED, Bench, bench, quick

MYSQL_IN_SOAK = pytest.mark.parametrize(
    "engine", [*FAMILIES, pytest.param("mysql", marks=pytest.mark.soak)]
)
FLUSH, BUFFERING = "innodb_flush_log_at_trx_commit", "innodb_log_file_buffering"

NOTHING = "the control lost nothing"


@pytest.fixture(params=FAMILIES)
def here(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    """A rig whose cut kills the server of each kind, and needs no root."""
    yield from process_bench(request.param, tmp_path)


@pytest.fixture
def mariadb(tmp_path: Path) -> Iterator[Bench]:
    """A rig whose cut kills a MariaDB server."""
    yield from process_bench("mariadb", tmp_path)


def process_bench(engine: str, folder: Path) -> Iterator[Bench]:
    spec = LabSpec(engine, cut="process")
    if lacking := list_missing(spec):
        pytest.skip("; ".join(lacking))
    with bench(spec, folder) as made:
        yield made


def control_of(outcome: Outcome) -> tuple[str, str]:
    """Return how the item of the control stands, and why."""
    (item,) = [i for i in outcome.judgement.items if i.id.value == "control"]
    return item.status.value, item.reason


def tables(here: Bench) -> set[str]:
    return {row[0] for row in here.execute("show tables")}


def flush_log(here: Bench) -> int:
    ((value,),) = here.execute(f"select @@global.{FLUSH}")
    return int(value)


def buffering(here: Bench) -> int:
    ((value,),) = here.execute(f"select @@global.{BUFFERING}")
    return int(value)


# ------------------------------------------------------------------- it loses


def campaign(here: Bench) -> tuple[list[Outcome], Outcome]:
    """Run controls and the cycle after them."""
    chosen = quick()
    controls = list(run_controls(here.rig, chosen, SEED))
    facts = [extract_control_facts(control) for control in controls]
    return controls, run_cycle(here.rig, chosen, SEED, facts)


def assert_seen(here: Bench) -> None:
    """Run a campaign; see that its control lost, and that its cycle passed."""
    controls, cycle = campaign(here)
    control = controls[-1]
    assert control.verdict is Verdict.PASS, control.judgement
    assert control.found is not None
    assert control.found.counts.keys() == {"missing-tail"}
    lost, acked = control.found.counts["missing-tail"], control.found.confirmed
    assert cycle.verdict is Verdict.PASS, cycle.judgement
    assert control_of(cycle) == (
        "present",
        f"the control lost {lost:,} of {acked:,} acknowledged commits, as expected",
    )
    assert not control.settings.flagged  # its server is as durable as ever
    assert cycle.found is not None
    assert cycle.found.earlier > 0
    assert not cycle.found.earlier_lost
    for one in (*controls, cycle):  # what is stored says the same again
        again = judge_run(one.run, here.rig.reader)
        assert again.judgement == one.judgement
        assert again.manifest.control == (one is not cycle)
    if here.engine != "postgresql":
        assert flush_log(here) == 1
        assert "relaxed" not in tables(here)


@pytest.mark.wide_with("mariadb")
@pytest.mark.root
@MYSQL_IN_SOAK
def test_a_power_cut_loses_and_the_cycle_after_it_passes(
    engine: str, tmp_path: Path
) -> None:
    with bench(LabSpec(engine), tmp_path) as here:
        assert_seen(here)


@pytest.mark.wide
def test_a_killed_server_loses_and_the_cycle_after_it_passes(here: Bench) -> None:
    assert_seen(here)


def fill_redo_log(here: Bench) -> None:
    """Write more than its 96 MiB to the log, so that none is new to the filesystem.

    A filesystem keeps a first write with O_DIRECT to a part of the file only once it is
    flushed.  A smaller log would be filled sooner, but is flushed all the time as well,
    since its server must write the pages of the tables that it is about to overwrite.
    """
    here.execute("create database filler")
    here.execute("create table filler.filler (bytes longblob)")
    for _ in range(12):
        here.execute("insert into filler.filler values (repeat('x', 10000000))")
    here.execute("drop database filler")


@pytest.mark.root
def test_it_loses_on_a_drive_whose_cache_survives_the_cut(tmp_path: Path) -> None:
    """MariaDB writes its log past the page cache, where a control must keep it."""
    drive = DriveSpec(kept_writes="all", seed=3)
    with bench(LabSpec("mariadb", drive=drive), tmp_path) as here:
        fill_redo_log(here)
        assert buffering(here) == 0
        # Its log is flushed once a second; a cut just after that loses nothing.
        *_, control = run_controls(here.rig, quick(), SEED)
        assert control.verdict is Verdict.PASS, control.judgement
        assert f"{BUFFERING} = 1 (was 0)" in here.said.text
        assert (flush_log(here), buffering(here)) == (1, 0)
        assert "relaxed" not in tables(here)


# ------------------------------------------------------------------- it does not


@pytest.mark.wide
def test_sessions_that_are_not_relaxed_lose_nothing_and_nothing_passes(
    here: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the setting had no effect; the cut and all evidence are sound."""
    engine = here.rig.site.writer.engine
    monkeypatch.setattr(
        engine,
        "open_weak_session",
        lambda statements, _, **more: engine.open_session(statements, **more),
    )
    monkeypatch.setattr(engine, "weaken_durability", lambda *, process: "nothing")
    controls, cycle = campaign(here)
    said, weak = NOTHING, here.engine == "postgresql"
    if not weak:  # the server itself tells that its setting is what it was
        said += f", but its commits were durable: {FLUSH} = 1 just before the cut"
    assert [c.judgement.reasons for c in controls] == [(said,)] * TRIES_MAX
    assert cycle.verdict is Verdict.INCONCLUSIVE
    assert control_of(cycle)[0] == "absent"
    (reason,) = cycle.judgement.reasons
    assert f"the control did not work: {said}, the last of 3 tries" in reason
    assert ("this set-up cannot see losses" in reason) is weak


@pytest.mark.wide
def test_a_switch_that_only_kills_the_server_is_found_out(
    mariadb: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said to be a power switch; what the system holds survives it."""
    engine: Any = mariadb.rig.site.writer.engine
    weaken = engine.weaken_durability
    monkeypatch.setattr(
        engine, "weaken_durability", lambda *, process: weaken(process=not process)
    )
    controls, cycle = campaign(mariadb)
    assert "= 2 (was 1)" in mariadb.said.text
    assert {c.judgement.reasons for c in controls} == {(NOTHING,)}
    assert cycle.verdict is Verdict.INCONCLUSIVE


class Pauser:
    """Stops the server where it should cut, and lets it go on."""

    kind = SwitchKind.EXEC
    attended = False
    cut_class = CutClass.UNKNOWN

    def __init__(self, lab: Lab) -> None:
        self._lab = lab

    def state(self) -> PowerState:
        return PowerState.UNKNOWN

    def cut(self) -> Cut:
        self._lab.freeze_server()
        return Cut(None, None)

    def restore(self) -> None:
        self._lab.thaw_server()

    def failure(self) -> str | None:
        return None


@pytest.mark.wide
def test_a_switch_that_only_pauses_is_found_out_at_once(mariadb: Bench) -> None:
    limits = Limits(silence_s=1, return_s=60)
    paused = with_node(replace(mariadb.rig, limits=limits), power=Pauser(mariadb.lab))
    controls, cycle = campaign(dataclasses.replace(mariadb, rig=paused))
    (control,) = controls  # no luck could undo this
    assert control.verdict is Verdict.INCONCLUSIVE
    assert "start time did not change" in " ".join(control.judgement.reasons)
    assert cycle.verdict is Verdict.INCONCLUSIVE
    assert flush_log(mariadb) == 1
    assert f"{FLUSH} is 1 again; a control had set it to 0" in mariadb.said.text


# ------------------------------------------------------------------- put back


class Broken(Pauser):
    """Cannot cut."""

    def cut(self) -> Cut:
        raise PowerError("the switch does not answer", id=ErrorId.POWER_COMMAND_FAILED)


@pytest.mark.wide
def test_an_error_before_the_cut_puts_the_setting_back(mariadb: Bench) -> None:
    (started,) = mariadb.execute("show global status like 'Uptime'")
    rig = with_node(mariadb.rig, power=Broken(mariadb.lab))
    with refused(
        ErrorId.POWER_COMMAND_FAILED, PowerError, naming="the switch does not answer"
    ):
        run_control(rig, quick(), SEED)
    (now,) = mariadb.execute("show global status like 'Uptime'")
    assert int(now[1]) > int(started[1])  # it is the same process
    assert flush_log(mariadb) == 1
    assert "relaxed" not in tables(mariadb)


@pytest.mark.wide
def test_a_server_that_is_relaxed_already_is_left_so(tmp_path: Path) -> None:
    spec = LabSpec("mariadb", cut="process", settings={FLUSH: "0"})
    if lacking := list_missing(spec):
        pytest.skip("; ".join(lacking))
    with bench(spec, tmp_path) as here:
        # Its log is written once a second; a cut just after that loses nothing.
        *_, control = run_controls(here.rig, quick(), SEED)
        assert control.verdict is Verdict.PASS
        said = f"{FLUSH} is 0 on the server already; nothing was changed"
        assert said in here.said.text
        assert "again" not in here.said.text
        assert flush_log(here) == 0


@pytest.mark.root
def test_what_mariadb_sets_back_only_at_its_start_is_said_before_the_next_cut(
    tmp_path: Path,
) -> None:
    with bench(LabSpec("mariadb"), tmp_path) as here:
        rig = with_node(here.rig, power=Broken(here.lab))
        with refused(ErrorId.POWER_COMMAND_FAILED, PowerError):
            run_control(rig, quick(), SEED)
        assert f"{FLUSH} is 1 again; a control had set it to 2" in here.said.text
        assert f"{BUFFERING} stays 1" in here.said.text
        assert flush_log(here) == 1
        here.execute(f"set global {FLUSH} = 2")  # an administrator's own change
        with refused(
            ErrorId.CONTROL_NEEDS_RESTART, EngineError, naming=f"{BUFFERING} stays 1"
        ):
            run_preflight(here.rig, quick(), SEED)
        assert flush_log(here) == 2
        switch = here.lab.switch()
        switch.cut()
        switch.restore()
        assert here.rig.site.writer.engine.restore_durability() is None
        assert (flush_log(here), buffering(here)) == (1, 0)
        assert "relaxed" not in tables(here)


@pytest.mark.wide_with("mariadb")
@pytest.mark.parametrize("engine", ["mariadb", "mysql"])
def test_a_log_that_is_flushed_at_each_write_leaves_no_control(
    engine: str, tmp_path: Path
) -> None:
    spec = LabSpec(engine, cut="process", settings={"innodb_flush_method": "O_DSYNC"})
    if lacking := list_missing(spec):
        pytest.skip("; ".join(lacking))
    with bench(spec, tmp_path) as here:
        server = here.rig.site.writer.engine
        server.prepare((LEDGER,))
        with refused(
            ErrorId.CONTROL_NOT_SUPPORTED,
            EngineError,
            naming="innodb_flush_method is O_DSYNC",
        ):
            server.weaken_durability(process=False)
        assert flush_log(here) == 1
        assert "relaxed" not in tables(here)
        assert f"{FLUSH} = 0 (was 1)" in server.weaken_durability(process=True)
        assert f"{FLUSH} is 1 again" in str(server.restore_durability())
