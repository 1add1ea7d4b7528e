"""One real cut, judged again and again with another fault planted after it.

Rows, the witness's log and the run folder are put back before each fault.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from dbcheck.cycle.preflight.before_load import Started
from dbcheck.lab.lab import list_missing
from dbcheck.lab.spec import LabSpec
from dbcheck.model.records import LoadRecord
from dbcheck.rows.loss import LossKind
from dbcheck.rows.schedule import Schedule
from dbcheck.rows.table import LEDGER
from tests.kit.nodes import with_node
from tests.kit.rigs import SEED, Bench, bench, read_anew, schedule_of

Named = tuple[LossKind, int, int]  # a loss: its kind, session and seq


@dataclass(frozen=True)
class OneCut:
    """A lab whose power was cut twice, its survivors unread.

    first:  the earlier cycle, with rows in the same table.
    second: the cycle that is judged.
    """

    bench: Bench
    first: Started
    second: Started
    saved: Path

    @classmethod
    def of(cls, here: Bench, saved: Path) -> OneCut:
        """Cut twice and keep a copy of all that a fault may change."""
        first, second = here.cut_cycle(seed=SEED + 1), here.cut_cycle()
        here.execute(f"create table kept as select * from {here.table}")
        one = cls(here, first, second, saved)
        shutil.copytree(second.run.path, saved / "run")
        shutil.copy(one.log, saved / "acks.log")
        return one

    def put_back(self) -> None:
        """Undo every fault, and every judgement."""
        table, run = self.bench.table, self.second.run.path
        # TRUNCATE would give the table another identity.
        self.bench.execute(f"delete from {table}")
        self.bench.execute(f"insert into {table} select * from kept")
        shutil.rmtree(run)
        shutil.copytree(self.saved / "run", run)
        read_anew(self.second.run)
        shutil.copy(self.saved / "acks.log", self.log)
        for other in self.log.parent.glob("acks-*.log"):
            other.unlink()
        manifest = self.second.manifest
        now = self.bench.rig.site.writer.engine.table_identity(LEDGER)
        assert now == manifest.tables[LEDGER.name].identity

    @property
    def epoch(self) -> int:
        """Epoch of the cycle that is judged."""
        return self.second.manifest.epoch

    @property
    def rows(self) -> Schedule:
        """Its rows as they were sent."""
        return schedule_of(self.second)

    @property
    def load(self) -> LoadRecord:
        """What the client saw of it."""
        load = self.second.run.load()
        assert load is not None
        return load

    @property
    def log(self) -> Path:
        """Its log on the witness's disk."""
        witness = Path(urlsplit(self.bench.lab.witness_url).path)
        return witness / self.second.manifest.run_id / "acks.log"

    @property
    def other_log(self) -> Path:
        """The earlier cycle's log there."""
        return self.log.parent.parent / self.first.manifest.run_id / "acks.log"

    def row_id(self, session: int, seq: int) -> int:
        """Return the id of a row of the cycle that is judged."""
        ((row_id,),) = self.bench.execute(
            f"select id from {self.bench.table}"
            " where epoch = %s and session = %s and seq = %s",
            self.epoch,
            session,
            seq,
        )
        return int(row_id)

    def change(self, assignment: str, session: int, seq: int, *values: object) -> None:
        """Update one row of the cycle that is judged."""
        self.bench.execute(
            f"update {self.bench.table} set {assignment}"
            " where epoch = %s and session = %s and seq = %s",
            *values,
            self.epoch,
            session,
            seq,
        )

    def delete(self, session: int, seq: int) -> int:
        """Delete one row of the cycle that is judged; return its id."""
        row_id = self.row_id(session, seq)
        self.bench.execute(f"delete from {self.bench.table} where id = %s", row_id)
        return row_id

    def insert(
        self, epoch: int, session: int, seq: int, payload: bytes, checksum: int
    ) -> None:
        """Insert a row; the server chooses its id."""
        self.bench.execute(
            f"insert into {self.bench.table}"
            " (epoch, session, seq, part, payload, checksum)"
            " values (%s, %s, %s, 0, %s, %s)",
            epoch,
            session,
            seq,
            payload,
            checksum,
        )


@pytest.fixture(scope="package")
def one_cut(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OneCut]:
    """A lab without a drive, cut twice; the parameter is the engine."""
    spec = LabSpec(request.param, cut="process")
    if lacking := list_missing(spec):
        pytest.skip("; ".join(lacking))
    folder = tmp_path_factory.mktemp("one-cut")
    with bench(spec, folder) as here:
        # The host would be asked again for each fault, and none is about it.
        rig = with_node(here.rig, host=None, log_path="")
        yield OneCut.of(replace(here, rig=rig), folder)


@pytest.fixture
def cut(one_cut: OneCut) -> OneCut:
    """The same cut with no fault planted."""
    one_cut.put_back()
    return one_cut
