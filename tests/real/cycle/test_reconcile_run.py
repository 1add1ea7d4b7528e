"""A run whose witness fails between the reading of the rows and the judgement."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import (
    EngineError,
    TableLost,
    TableRefused,
    UsageError,
    WitnessError,
)
from dbcheck.cycle import reconciling
from dbcheck.cycle.host import read_client_clocks
from dbcheck.cycle.judging import judge_run
from dbcheck.cycle.loading import seal_load
from dbcheck.cycle.outcome import Outcome
from dbcheck.cycle.reconciling import reconcile_run
from dbcheck.cycle.rig import Limits, Rig
from dbcheck.model.cluster import ONLY_NODE
from dbcheck.model.records import Manifest, PreparedRecord, StoredRows
from dbcheck.model.verdict import Verdict
from dbcheck.ports.connection import LoginRefused
from dbcheck.ports.engine import Engine
from dbcheck.ports.power import PowerSwitch
from dbcheck.ports.witness import Witness, WitnessLog
from dbcheck.report.progress import PlainProgress
from dbcheck.rows.acks import Ack
from dbcheck.rows.prepared import Name
from dbcheck.rows.table import LEDGER, TableFacts
from dbcheck.runner.resume import _recall_run
from dbcheck.runs import stored
from dbcheck.runs.folder import RunFolder
from dbcheck.witness.log import FrameLogReader
from dbcheck.witness.url import open_witness
from dbcheck.witness.witness import AgentWitness
from tests.kit.fake_engine import ACKED, FakeEngine
from tests.kit.nodes import after_of, site_of
from tests.kit.refusals import refused
from tests.kit.samples import FACTS, LOAD, MANIFEST

PATIENT = Limits()
NO_ROWS = {LEDGER.name: StoredRows(0, hashlib.sha256().hexdigest())}


class FailingWitness:
    """A witness of which *reads* logs can be read, and no more."""

    def __init__(self, witness: AgentWitness, reads: int) -> None:
        self._witness, self._left = witness, reads

    def read(self, run_id: str, number: int) -> Iterator[bytes]:
        if not self._left:
            raise WitnessError("the witness is gone", id=ErrorId.WITNESS_NOT_CONFIRMING)
        self._left -= 1
        return self._witness.read(run_id, number)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._witness, name)


@dataclass(frozen=True)
class Site:
    """A run of two logs, with acks in the second, whose client has lost its record."""

    run: RunFolder
    manifest: Manifest
    witness: AgentWitness
    logs: tuple[WitnessLog, WitnessLog]

    def reconcile(
        self,
        reads: int,
        reading: Callable[[], None] = lambda: None,
        settings: Mapping[str, str] = FACTS.settings,
        limits: Limits = PATIENT,
    ) -> Outcome:
        """Read the rows and judge, as far as the witness allows."""
        rig = Rig(
            site_of(
                cast(Engine, FakeEngine(reading, settings)),
                cast(PowerSwitch, SimpleNamespace(failure=lambda: None)),
            ),
            cast(Witness, FailingWitness(self.witness, reads)),
            FrameLogReader(),
            PlainProgress(Console(quiet=True)),
            self.run.path.parent,
            limits,
        )
        return reconcile_run(rig, self.run, self.manifest)

    def ack(self, number: int, session: int, seq: int) -> None:
        """Have a log hold one more ack."""
        log = self.logs[number]
        log.append(Ack(session, seq, seq, seq))
        log.note({"event": "held"})

    def store_prepared(self) -> None:
        """Store what a reading does before it decides a prepared transaction."""
        names, lengths = (Name(MANIFEST.epoch, 1, 1),), self.run.log_bytes()
        self.run.write_prepared(PreparedRecord(names, ONLY_NODE, {}, lengths))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A witness in processes of their own, with a run in it."""
    manifest = replace(MANIFEST, logs=2, tables={LEDGER.name: TableFacts({}, 0)})
    witness = open_witness(f"file:{tmp_path}/witness", volatile=True)
    first = witness.create(manifest.run_id, stored.to_bytes(manifest))
    second = witness.join(manifest.run_id, 1)
    made = Site(
        RunFolder.create(tmp_path / "runs", manifest),
        manifest,
        witness,
        (first, second),
    )
    for seq in range(1, ACKED + 1):
        made.ack(1, 1, seq)
    yield made
    first.close()
    second.close()
    witness.close()


def test_the_record_left_with_the_witness_is_there_with_the_survivors(
    site: Site,
) -> None:
    """They are read once: what is not there then, no later judgement has."""
    load = replace(LOAD, watermarks=(None, None), windows=LOAD.windows * 2)
    site.logs[0].note(seal_load(site.run.key(), load))
    with refused(ErrorId.WITNESS_NOT_CONFIRMING, WitnessError, naming="gone"):
        site.reconcile(reads=2)
    assert site.run.was_read()
    assert judge_run(site.run, FrameLogReader()).load == load


@pytest.mark.parametrize("reads", [2, 3])
def test_no_ack_is_held_against_rows_that_were_read_before_it(
    site: Site, reads: int
) -> None:
    """The load goes on, and what would tell it fails."""
    with refused(ErrorId.WITNESS_NOT_CONFIRMING, WitnessError, naming="gone"):
        site.reconcile(reads, lambda: site.ack(0, 2, 1))
    outcome = judge_run(site.run, FrameLogReader())
    assert outcome.found is not None
    assert (outcome.found.confirmed, outcome.found.kept) == (ACKED, ACKED)
    assert not outcome.found.losses


def test_a_table_without_rows_was_read_to_its_end(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No batch comes of it; it has no changed rows, as far as that can be known."""
    monkeypatch.setattr(FakeEngine, "survivors", lambda *_, **__: iter(()))
    outcome = site.reconcile(10)
    assert outcome.after.tables == {LEDGER.name: TableFacts({}, 0)}
    assert outcome.after.survivors == NO_ROWS
    assert outcome.run.different_ids(LEDGER.name) == []
    assert outcome.found is not None
    assert len(outcome.found.losses) == outcome.found.confirmed == ACKED


def test_rows_that_were_read_while_a_log_grew_are_forgotten(site: Site) -> None:
    with refused(ErrorId.RUN_STILL_UNDER_LOAD, UsageError):
        site.reconcile(10, lambda: site.ack(1, 1, ACKED + 1))
    assert not site.run.was_read()


def test_rows_are_left_unread_until_no_setting_hides_any(site: Site) -> None:
    def read() -> None:
        raise AssertionError("the rows were read")

    outcome = site.reconcile(10, read, {"zero_damaged_pages": "on"})
    assert outcome.judgement.reasons[0].startswith("zero_damaged_pages = on: ")
    assert not site.run.was_read()
    later = site.reconcile(10, settings={"zero_damaged_pages": "off"})
    assert later.found is not None
    assert later.found.kept == ACKED
    assert site.run.was_read()


# As MariaDB 10.11.19, and MySQL 9.7.4, log a damaged first page of a table's file.
NAMED = (
    "[ERROR] mariadbd: Table `d`.`ledger` is corrupted. Please drop the table and"
    " recreate."
)
FILE = "[ERROR] InnoDB: The first page of file ./d/ledger.ibd is corrupted"
ZEROS = (
    "[ERROR] InnoDB: Expected tablespace id 5 but found 0 in the file ./d/ledger.ibd"
)
OF_MYSQL = (
    "[ERROR] [MY-012095] [InnoDB] [FATAL] Tablespace id is 2 in the data dictionary but"
    " in file ./d/ledger.ibd it is 0!"
)
OTHERS = (
    NAMED.replace("`d`.`ledger`", "`shop`.`orders`"),
    NAMED.replace("`d`", "`dd`"),
    FILE.replace("ledger.ibd", "ledger_old.ibd"),
    FILE.replace("ledger.ibd", "ledger@002dold.ibd"),
    FILE.replace("./d/", "./old-d/"),
    f"{NAMED}\n[ERROR] InnoDB: Operating system error number 13: Permission denied",
)


@pytest.mark.parametrize(
    ("log", "verdict"),
    [
        ("", Verdict.INCONCLUSIVE),
        *((other, Verdict.INCONCLUSIVE) for other in OTHERS),
        (NAMED, Verdict.FAIL),
        (FILE, Verdict.FAIL),
        (ZEROS, Verdict.FAIL),
        (OF_MYSQL, Verdict.FAIL),
    ],
)
def test_a_table_that_is_not_opened_fails_only_if_the_log_names_its_damage(
    site: Site, log: str, verdict: Verdict, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise TableRefused("1812: tablespace is missing", id=ErrorId.TABLE_REFUSED)

    monkeypatch.setattr(FakeEngine, "log", log)
    outcome = site.reconcile(10, refuse)
    assert outcome.verdict is verdict
    reason = outcome.judgement.reasons[-1]
    assert "1812: tablespace is missing: " in reason
    fails = verdict is Verdict.FAIL
    assert ("its owner and mode" in reason) == (not fails)
    assert site.run.was_read() == fails
    if not fails:
        later = site.reconcile(10)
        assert later.found is not None
        assert later.found.kept == ACKED


def test_a_login_that_is_refused_is_not_waited_for(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is stored of it, so the run is judged once the password is given."""
    no = EngineError(
        "no password supplied", id=ErrorId.PASSWORD_REFUSED, hint="Give it."
    )
    monkeypatch.setattr(reconciling, "REFUSED_S", 0.0)
    with monkeypatch.context() as patch:
        patch.setattr(FakeEngine, "ready", lambda _: LoginRefused(no))
        with refused(ErrorId.PASSWORD_REFUSED, EngineError, naming="no password"):
            site.reconcile(10, limits=Limits(return_s=1.0))
    assert not site.run.was_read()
    later = site.reconcile(10)
    assert later.found is not None
    assert later.found.kept == ACKED


DEAD = after_of(None, failure="PANIC: no checkpoint", survivors=NO_ROWS)


def test_the_first_answer_has_the_clocks_of_its_moment(site: Site) -> None:
    before = read_client_clocks()
    answered = site.reconcile(10).after.answered
    assert answered is not None
    assert answered.boot == before.boot
    assert before.clock_us <= answered.clock_us <= read_client_clocks().clock_us


@pytest.mark.parametrize("missing", [False, True])
def test_a_server_that_came_back_late_fails_by_its_rows_and_never_passes(
    site: Site, missing: bool
) -> None:
    site.run.write_after(DEAD)
    if missing:
        site.ack(1, 1, ACKED + 1)
    outcome = site.reconcile(10)
    assert outcome.found is not None
    assert outcome.found.kept == ACKED
    assert outcome.after.failed_before == DEAD.failure
    said = "the server did not come back after the cut (PANIC: no checkpoint)"
    if missing:
        assert outcome.verdict is Verdict.FAIL
    else:
        assert outcome.verdict is Verdict.INCONCLUSIVE
        assert any(said in reason for reason in outcome.judgement.reasons)
    with refused(ErrorId.SURVIVORS_READ_ALREADY, UsageError):
        site.reconcile(10)


@pytest.mark.parametrize(
    ("error", "identity"),
    [
        pytest.param(
            TableRefused("1812: tablespace is missing", id=ErrorId.TABLE_REFUSED),
            FACTS.identity,
            id="refused",
        ),
        pytest.param(
            TableLost("no table", missing=True, id=ErrorId.TABLE_LOST),
            FACTS.identity,
            id="gone",
        ),
        pytest.param(None, dict.fromkeys(FACTS.identity, "another"), id="another one"),
    ],
)
def test_a_failure_stands_while_nothing_can_be_read(
    site: Site,
    error: EngineError | None,
    identity: Mapping[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same address may lead to a server that was set up anew since."""

    def read() -> None:
        if error is not None:
            raise error

    monkeypatch.setattr(FakeEngine, "identity", identity)
    site.run.write_after(DEAD)
    outcome = site.reconcile(10, read)
    assert outcome.verdict is Verdict.FAIL
    assert outcome.judgement.reasons[1] == "unrecoverable: PANIC: no checkpoint"
    assert site.run.after() == DEAD


def test_a_failure_stands_if_an_older_copy_was_restored(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy has the name of the data, and none of the rows."""
    monkeypatch.setattr(FakeEngine, "rows", 0)
    assert site.reconcile(10).verdict is Verdict.INCONCLUSIVE
    site.run.write_after(DEAD)
    outcome = site.reconcile(10, site.store_prepared)
    assert outcome.verdict is Verdict.FAIL
    assert outcome.judgement.reasons[1] == "unrecoverable: PANIC: no checkpoint"
    assert site.run.after() == DEAD
    assert site.run.prepared() is None, "they are the copy's"


def test_a_failure_stands_if_the_rows_were_read_under_load(site: Site) -> None:
    def go_on() -> None:
        site.store_prepared()
        site.ack(1, 1, ACKED + 1)

    site.run.write_after(DEAD)
    with refused(ErrorId.RUN_STILL_UNDER_LOAD, UsageError):
        site.reconcile(10, go_on)
    assert site.run.after() == DEAD
    assert site.run.prepared() is None


def test_a_run_whose_folder_is_here_is_reconciled_in_it(site: Site) -> None:
    folder = site.run.path
    with refused(ErrorId.RUN_FOLDER_EXISTS, UsageError, naming=str(folder)) as caught:
        _recall_run(site.witness, folder.name, folder.parent)
    assert f"dbcheck reconcile {folder}" in caught.value.hint
    elsewhere = _recall_run(site.witness, folder.name, folder.parent / "elsewhere")
    assert elsewhere.manifest() == site.manifest
