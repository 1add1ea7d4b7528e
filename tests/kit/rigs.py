"""Rigs of real servers for the tests of whole cycles, and hands to tamper with them."""

from __future__ import annotations

import contextlib
import csv
import io
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from dbcheck.campaign.folder import CampaignPlan
from dbcheck.config import workload_file
from dbcheck.cycle.cutter import Cutter
from dbcheck.cycle.cycle import run_cycle
from dbcheck.cycle.loading import load_until_cut
from dbcheck.cycle.outcome import Outcome
from dbcheck.cycle.preflight.before_load import Started, run_preflight
from dbcheck.cycle.reconciling import reconcile_run
from dbcheck.cycle.rig import Limits, Rig
from dbcheck.cycle.stored_run import StoredLogs
from dbcheck.judge.item import ItemId, Status
from dbcheck.judge.verdict import Judgement
from dbcheck.lab.lab import Lab
from dbcheck.lab.spec import LabSpec
from dbcheck.model.records import Manifest
from dbcheck.model.verdict import Verdict
from dbcheck.ports.engine import Engine
from dbcheck.power.kinds.manual import ManualConfig, ManualSwitch
from dbcheck.report.progress import PlainProgress
from dbcheck.rows.schedule import Schedule
from dbcheck.rows.workload import Workload
from dbcheck.runner.lab_rig import make_lab_rig
from dbcheck.runs import stored
from dbcheck.runs.folder import RunFolder
from dbcheck.witness.log import FrameLogReader
from dbcheck.witness.url import open_witness
from tests.kit.lab_access import connect
from tests.kit.nodes import site_of
from tests.kit.waiting import wait_until

ENGINES = ("postgresql", "mariadb", "mysql")
# One server of each family, for what does not depend on the server.
FAMILIES = ("postgresql", "mariadb")
TABLES = {
    "postgresql": "dbcheck.ledger",
    **dict.fromkeys(("mariadb", "mysql", "myrocks"), "ledger"),
}
CUT_AFTER_S = (0.6, 1.0)
# Loads of which a test takes the first that has commits enough: a machine may be slow.
LOADS_S = (1.2, 5.0, 20.0, 80.0)
SEED = 11
CUTS_MAX = 6


def quick(name: str = "insert", sessions: int = 4) -> Workload:
    """Return a workload whose cut comes as early as the evidence allows."""
    chosen = workload_file.load(name).with_sessions(sessions)
    return replace(chosen, cut_after_s=CUT_AFTER_S)


def write_quick(folder: Path) -> Path:
    """Write a workload that ends as early into a file in *folder*; return its path."""
    file = folder / "quick.toml"
    file.write_text(
        'plan = "insert"\npayload_bytes = [128, 8192]\nsessions = 4\n'
        f"cut_after_s = {list(CUT_AFTER_S)}\n"
    )
    return file


def witness_lagged(judgement: Judgement) -> bool:
    """Return whether a PASS lacks only a stored ack of the last second before the cut.

    A busy machine stores it too late; a test then cuts once more.
    """
    lacking = f"{ItemId.WITNESS_AT_CUT.value} {Status.ABSENT.value}: "
    reason, *others = judgement.reasons
    return reason.startswith(lacking) and not others


class Said(PlainProgress):
    """Remembers what a person would have been shown."""

    def __init__(self) -> None:
        self._file = io.StringIO()
        super().__init__(Console(file=self._file, width=200))

    @property
    def text(self) -> str:
        """All of it."""
        return self._file.getvalue()


@dataclass(frozen=True)
class Bench:
    """A running lab and the rig that it is."""

    lab: Lab
    rig: Rig
    said: Said

    @property
    def engine(self) -> str:
        """The kind of server."""
        return self.lab.spec.engine

    @property
    def table(self) -> str:
        """The ledger's name."""
        return TABLES[self.engine]

    def execute(self, statement: str, *values: Any) -> list[Any]:
        """Run a statement over the plain driver; return its rows."""
        with contextlib.closing(
            connect(self.lab.target_url, self.lab.password)
        ) as connection:
            cursor = connection.cursor()
            cursor.execute(statement, values or None)
            rows = list(cursor.fetchall()) if cursor.description else []
            cursor.close()
            return rows

    def cut_cycle(
        self,
        chosen: Workload | None = None,
        seed: int = SEED,
        cutter: Callable[[Rig, Started], Cutter] = Cutter,
    ) -> Started:
        """Run a cycle up to the moment before its survivors are read.

        cutter: makes what decides when the power is cut.  The server is back then, or
        its lab knows that it did not start.
        """
        started = run_preflight(self.rig, chosen or quick(), seed)
        load = load_until_cut(self.rig, started, cutter(self.rig, started))
        assert load.gone
        site = self.rig.site
        site.writer.power.restore()
        wait_until(
            lambda: site.writer.engine.ready() is None or site.failure() is not None,
            "server is back",
        )
        return started

    def loading(self, started: Started) -> None:
        """Run the load of a cycle that is under way; the cut comes in its time."""
        load_until_cut(self.rig, started, Cutter(self.rig, started))

    def judge(self, started: Started) -> Outcome:
        """Read the survivors and judge."""
        return reconcile_run(self.rig, started.run, started.manifest)


def store_manifest(run: RunFolder, manifest: Manifest) -> None:
    """Have the stored manifest of a run say something else."""
    (run.path / "manifest.json").write_bytes(stored.to_bytes(manifest))
    read_anew(run)


def read_anew(run: RunFolder) -> None:
    """Have *run* read its manifest again, which it does once."""
    vars(run).pop("_manifest", None)


@contextlib.contextmanager
def bench(spec: LabSpec, folder: Path, limits: Limits | None = None) -> Iterator[Bench]:
    """Start a lab and hand out its rig; end it afterwards.

    folder: of its files, made if it is not there.
    """
    folder.mkdir(exist_ok=True)
    said = Said()
    with Lab.start(spec, folder / "lab") as lab:
        rig = make_lab_rig(lab, said, folder / "runs", limits or Limits(return_s=60))
        with contextlib.closing(rig.witness):
            yield Bench(lab, rig, said)


class CutAfter(Cutter):
    """Has the power cut in its time, and not before *acting* is over."""

    acting: Future[None]

    def cut_if_due(self, load_s: float, behind_s: float, ack_us: int | None) -> None:
        if self.acting.done():
            self.acting.result()
            super().cut_if_due(load_s, behind_s, ack_us)


def cut_beside(here: Bench, act: Callable[[], None], chosen: Workload) -> Outcome:
    """Return what a cycle finds whose power is cut once *act* is done."""
    with ThreadPoolExecutor(1) as pool:

        def cutter(rig: Rig, started: Started) -> Cutter:
            made = CutAfter(rig, started)
            made.acting = pool.submit(act)
            return made

        started = here.cut_cycle(chosen, cutter=cutter)
    return here.judge(started)


def cut_relaxed(rig: Rig, workload: Workload) -> Outcome:
    """Run cycles of a server with a relaxed setting until one loses; return the last.

    A cut just after the log was flushed loses nothing, and must prove nothing.
    """
    for number in range(CUTS_MAX):
        outcome = run_cycle(rig, workload, SEED + number)
        if outcome.verdict is not Verdict.INCONCLUSIVE:
            break
        assert "this cut happened to lose none" in str(outcome.judgement)
    return outcome


def rig_by_hand(engine: Engine, folder: Path, said: Said) -> Rig:
    """Return a rig without a lab, whose witness is in *folder*; close that."""
    return Rig(
        site_of(engine, ManualSwitch(ManualConfig(), said.ask)),
        open_witness(f"file:{folder}/acks", volatile=True),
        FrameLogReader(),
        said,
        folder / "runs",
        lab={"cut": "process"},  # so the witness may be here
    )


def schedule_of(started: Started) -> Schedule:
    """Return the rows that a cycle sends."""
    manifest = started.manifest
    sizes = manifest.workload.payload_bytes
    return Schedule(manifest.seed, manifest.epoch, sizes)


def listed_ids(run: RunFolder) -> set[int]:
    """Return the ids in losses.csv."""
    with (run.path / "losses.csv").open(newline="") as file:
        return {int(row["row_id"]) for row in csv.DictReader(file)}


def acked_ids(rig: Rig, run: RunFolder) -> set[int]:
    """Return the ids of all acks in the copies of the witness's logs."""
    logs = StoredLogs(run, rig.reader, run.manifest(), run.load())
    return {int(row_id) for batch in logs.acks() for row_id in batch["row_id"]}


def plan(engine: str = "postgresql", cuts: int = 3, **changed: object) -> CampaignPlan:
    made = CampaignPlan(
        created="2026-01-02T03:04:05+00:00",
        dbcheck="0",
        name="lab",
        target="",
        seed=SEED,
        workload=quick(),
        cuts=cuts,
        cycles_max=cuts + 10,
        bound_ppm=None,
        keep_going=False,
        control=False,
    )
    return replace(made, **changed)  # type: ignore[arg-type]
