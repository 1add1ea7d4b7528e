"""Archives that are restored to a point: none of it is missing, and nothing is more.

The point is read under load, and no power is cut.  A restore that ends before its point
fails, and one that ends after it is neither cleared nor accused.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.base.points import PointKind
from dbcheck.base.processes import make_environment
from dbcheck.config.target import RestoreSettings
from dbcheck.cycle.copying import run_copied_cycle
from dbcheck.cycle.outcome import Outcome
from dbcheck.cycle.rig import Limits
from dbcheck.engines.registry import open_engine
from dbcheck.judge.item import ItemId, Status
from dbcheck.judge.result import CopyResult
from dbcheck.lab.spec import LabSpec
from dbcheck.model.verdict import Verdict
from dbcheck.ports.site import Copying
from dbcheck.power.kinds.command import CopyByPrograms
from dbcheck.site.single import SingleServer
from tests.kit import point_methods as methods
from tests.kit.archives import Archives, Shipping, archives_of
from tests.kit.copies import PROGRAMS_S, skip_without_program
from tests.kit.point_methods import postgresql_point
from tests.kit.refusals import refused
from tests.kit.rigs import SEED, bench, quick
from tests.kit.servers import skip_without_server

LSN, NAMED = PointKind.LSN, PointKind.RESTORE_POINT
# A server that stays in recovery is not waited for longer.
SOON = Limits(return_s=5)


def judge(archives: Archives, kind: PointKind) -> Outcome:
    """Return the verdict on a restore to a point of that kind."""
    return run_copied_cycle(archives.point_rig(kind, SOON), quick(), SEED)


def restore_to(kind: PointKind, shipping: Shipping) -> Outcome:
    """Return the verdict on one that ends in a server, in a lab of its own."""
    with archives_of(shipping, cut="process") as archives:
        return judge(archives, kind)


def copy_of(outcome: Outcome) -> CopyResult:
    copy = outcome.result.copy
    assert copy is not None
    return copy


def status_of(outcome: Outcome, id: ItemId) -> Status:
    items = {item.id: item.status for item in outcome.judgement.items}
    return items[id]


def require_kept(outcome: Outcome, kind: PointKind) -> None:
    """Require that a restore ended at its point, and that much was at stake."""
    assert outcome.verdict is Verdict.PASS, outcome.judgement
    copy = copy_of(outcome)
    assert copy.due
    assert copy.due == copy.due_kept
    assert copy.after
    assert copy.after_kept == 0
    assert copy.point_kind == kind.value
    assert copy.read_s is not None


@pytest.mark.wide_with("inclusive off")
@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        pytest.param(LSN, "", id="lsn"),
        pytest.param(LSN, "-c recovery_target_inclusive=off", id="inclusive off"),
        pytest.param(NAMED, "", id="restore-point"),
    ],
)
def test_a_restore_to_a_point_has_all_from_before_it_and_no_more(
    kind: PointKind, settings: str
) -> None:
    require_kept(restore_to(kind, postgresql_point(kind, settings=settings)), kind)


def skip_without_mariadb() -> None:
    for program in ("mariadb-backup", "mariadb-binlog"):
        skip_without_program(program)


@pytest.mark.wide
def test_a_binary_log_to_a_gtid_has_all_from_before_it_and_no_more() -> None:
    skip_without_mariadb()
    require_kept(restore_to(PointKind.GTID, methods.mariadb_point()), PointKind.GTID)


@pytest.mark.wide
def test_a_binary_log_that_ends_a_little_before_its_gtid_fails() -> None:
    skip_without_mariadb()
    outcome = restore_to(PointKind.GTID, methods.mariadb_earlier())
    assert outcome.verdict is Verdict.FAIL, outcome.judgement
    copy = copy_of(outcome)
    assert 0 < (copy.due_kept or 0) < (copy.due or 0)


@pytest.mark.wide
def test_a_binary_log_that_is_replayed_to_its_end_does_not_pass() -> None:
    skip_without_mariadb()
    require_past(restore_to(PointKind.GTID, methods.mariadb_point("")))


@pytest.mark.wide
def test_a_restore_to_a_point_from_before_the_run_fails() -> None:
    outcome = restore_to(NAMED, postgresql_point(NAMED, target=methods.EARLIER))
    assert outcome.verdict is Verdict.FAIL, outcome.judgement
    assert "recovery may have stopped before this run" in outcome.judgement.reasons[0]


def test_a_restore_that_ends_a_little_before_its_point_fails() -> None:
    outcome = restore_to(LSN, methods.moved(-65_536))
    assert outcome.verdict is Verdict.FAIL, outcome.judgement
    copy = copy_of(outcome)
    assert 0 < (copy.due_kept or 0) < (copy.due or 0)
    assert "before the point was read" in outcome.judgement.reasons[0]


def require_past(outcome: Outcome) -> None:
    """Require that a restore that went past its point shows that it did."""
    assert outcome.verdict is Verdict.INCONCLUSIVE, outcome.judgement
    assert status_of(outcome, ItemId.POINT_STOP) is Status.CONTRADICTED
    assert "recovery did not stop at the point" in outcome.judgement.reasons[0]
    assert copy_of(outcome).after_kept


@pytest.mark.wide_with("restore-point")
@pytest.mark.parametrize("kind", [LSN, NAMED])
def test_a_restore_that_ignores_its_point_does_not_pass(kind: PointKind) -> None:
    require_past(restore_to(kind, postgresql_point(kind, target="")))


@pytest.mark.wide
def test_a_restore_that_ends_a_little_after_its_point_does_not_pass() -> None:
    require_past(restore_to(LSN, methods.moved(16_384)))


@pytest.mark.wide
def test_an_archive_without_the_segment_of_its_point_is_not_restored() -> None:
    with archives_of(methods.segment_missing(), cut="process") as archives:
        with refused(ErrorId.COPY_NOT_RESTORED, EngineError, naming="could not start"):
            judge(archives, LSN)
        archives.remove_all()


@pytest.mark.wide
@pytest.mark.parametrize("hot_standby", ["on", "off"])
def test_a_restore_that_is_not_promoted_at_its_point_is_not_read(
    hot_standby: str,
) -> None:
    """It pauses there, or shuts down, which pg_ctl may take for a start."""
    settings = f"-c hot_standby={hot_standby}"
    shipping = postgresql_point(LSN, action="", settings=settings)
    with archives_of(shipping, cut="process") as archives:
        try:
            outcome = judge(archives, LSN)
        except EngineError as error:
            assert (error.id, hot_standby) == (ErrorId.COPY_NOT_RESTORED, "off")
        else:
            assert outcome.verdict is Verdict.INCONCLUSIVE, outcome.judgement
            assert not outcome.result.final
            text = outcome.judgement.reasons[0]
            assert ("the server is in recovery" in text) is (hot_standby == "on")
        archives.remove_all()


@pytest.mark.wide
def test_a_run_whose_restore_failed_is_reconciled_to_the_same_point() -> None:
    with archives_of(postgresql_point(LSN, before="exit 1\n"), cut="process") as here:
        with refused(ErrorId.COPY_NOT_RESTORED, EngineError):
            judge(here, LSN)
        mended = here.settings(postgresql_point(LSN).method)
        outcome = here.reconcile(mended)
        assert outcome.verdict is Verdict.PASS, outcome.judgement
        point = here.find_run().copy()
        assert point is not None
        assert point.point is not None
        assert copy_of(outcome).point == point.point.value


def test_an_account_that_may_not_make_a_restore_point_is_told_the_grant(
    tmp_path: Path,
) -> None:
    skip_without_server("postgresql")
    with bench(LabSpec("postgresql", cut="process"), tmp_path / "lab") as here:
        here.execute("create role plain login password 'plain'")
        url = here.lab.target_url.replace("dbcheck@", "plain@")
        engine = open_engine(url, "plain")
        engine.require_point(LSN)
        grant = "grant execute on function pg_create_restore_point(text) to plain;"
        with refused(ErrorId.PRIVILEGE_MISSING, EngineError) as found:
            engine.require_point(NAMED)
        assert grant in found.value.hint
        here.execute(grant)
        engine.require_point(NAMED)
        assert engine.read_point(NAMED, "one").point.value == "one"


@pytest.mark.wide_with("mariadb", "mysql")
@pytest.mark.parametrize(
    ("engine", "kind", "settings", "error"),
    [
        pytest.param(
            *("postgresql", PointKind.GTID, {}, ErrorId.POINT_NOT_SUPPORTED),
            id="postgresql",
        ),
        pytest.param(
            *("postgresql", LSN, {"wal_level": "minimal", "max_wal_senders": "0"}),
            ErrorId.POINT_NOT_READABLE,
            id="no archive",
        ),
        pytest.param("mariadb", LSN, {}, ErrorId.POINT_NOT_SUPPORTED, id="mariadb"),
        pytest.param(
            "mariadb", PointKind.GTID, {}, ErrorId.POINT_NOT_READABLE, id="no log"
        ),
        pytest.param(
            "mysql", PointKind.GTID, {}, ErrorId.POINT_NOT_SUPPORTED, id="mysql"
        ),
    ],
)
def test_a_point_that_the_server_does_not_have_is_refused_before_anything_is_touched(
    engine: str,
    kind: PointKind,
    settings: dict[str, str],
    error: ErrorId,
    tmp_path: Path,
) -> None:
    skip_without_server(engine)
    spec = LabSpec(engine, cut="process", settings=settings)
    with bench(spec, tmp_path / "lab") as here:
        site = SingleServer(replace(here.rig.site.writer, host=None))
        programs = CopyByPrograms(RestoreSettings(("false",), here.lab.target_url))
        copying = Copying(programs, site, until=kind)
        rig = replace(here.rig, site=site, copying=copying)
        with refused(error):
            run_copied_cycle(rig, quick(), SEED)
        assert not rig.runs.exists() or not list(rig.runs.iterdir())
        with pytest.raises(Exception, match="ledger"):  # no driver's own error
            here.execute(f"select 1 from {here.table}")


@pytest.mark.wide
def test_the_command_has_an_archive_restored_by_an_inventory() -> None:
    with archives_of(postgresql_point(NAMED), cut="process") as archives:
        here, settings = archives.here, archives.archive_settings()
        host = {
            "dbcheck_target": here.lab.target_url,
            "dbcheck_witness": f"file:{archives.folder}/acks",
            "dbcheck_sessions": 4,
            "dbcheck_restore": {
                "until": NAMED.value,
                "restore": [*settings.restore],
                "remove": [*settings.remove],
                "target": settings.target,
            },
        }
        inventory = archives.folder / "inventory.yml"
        inventory.write_text(yaml.safe_dump({"all": {"hosts": {"db1": host}}}))
        done = subprocess.run(
            [sys.executable, "-m", "dbcheck", "snapshot", "db1", "--json"]
            + ["--inventory", str(inventory)],
            env={**make_environment(), "DBCHECK_PASSWORD": here.lab.password},
            cwd=archives.folder,
            capture_output=True,
            text=True,
            timeout=PROGRAMS_S,
        )
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout)
        assert result["verdict"] == "PASS"
        assert result["copy"]["point"] == f"dbcheck_{result['run']}"
