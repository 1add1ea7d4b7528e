"""Transactions over two tables: halves of them, planted and found."""

from __future__ import annotations

import contextlib
from collections import Counter
from dataclasses import replace

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.config.workload_file import load
from dbcheck.cycle.outcome import Outcome
from dbcheck.load.sessions import commit
from dbcheck.rows.acks import Key
from dbcheck.rows.decks import SLOTS
from dbcheck.rows.loss import LossKind
from dbcheck.rows.mix import Mix
from dbcheck.rows.operation import Operation
from dbcheck.rows.plans.mixed import REGISTER_BYTES, MixedPlan
from dbcheck.rows.schedule import Schedule
from dbcheck.rows.table import LEDGER
from dbcheck.rows.workload import Workload
from tests.kit.definition import checksum, payload
from tests.kit.refusals import refused
from tests.kit.rigs import ENGINES, SEED
from tests.kit.sessions import run_on
from tests.planted.fault import FAIL, PASS, engines
from tests.planted.site import Site

pytestmark = pytest.mark.planted

STALE, TORN, CORRUPT = LossKind.STALE, LossKind.TORN, LossKind.CORRUPT


def registers() -> Workload:
    return replace(load("registers"), sessions=5, rate=250.0, cut_after_s=(1.0, 1.0))


def register_table(site: Site) -> str:
    return site.table.replace("ledger", "register")


class Halves:
    """Plants one fault for each session, in a server that came back."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.expected: Counter[tuple[LossKind, int, int]] = Counter()

    def plant(self) -> None:
        """Start the server and change what recovery brought back."""
        self._site.server.start()
        ((epoch,),) = self._site.execute(
            f"select epoch from {self._site.table} order by id desc limit 1"
        )
        self._stale(epoch, 1)
        self._torn(epoch, 2)
        self._gone(epoch, 3)
        self._damaged(epoch, 4)

    def _newest(self, epoch: int, session: int) -> int:
        table = self._site.table
        where = "where epoch = %s and session = %s"
        statement = f"select max(seq) from {table} {where}"
        ((seq,),) = self._site.execute(statement, epoch, session)
        return int(seq)

    def _change(
        self, epoch: int, session: int, seq: int, what: str, *by: object
    ) -> None:
        self._site.execute(
            f"update {register_table(self._site)} set {what}"
            " where epoch = %s and session = %s and seq = %s",
            *by,
            epoch,
            session,
            seq,
        )

    def _stale(self, epoch: int, session: int) -> None:
        """Put back the version that the last operation but SLOTS had written."""
        seq = self._newest(epoch, session) - 1  # which is surely acked
        old = seq - SLOTS
        key, part = Key(epoch, session, old), (old - 1) % SLOTS + 1
        content = payload(SEED, key, part, REGISTER_BYTES)
        what = "seq = %s, payload = %s, checksum = %s"
        given = old, content, checksum(key, part, content)
        self._change(epoch, session, seq, what, *given)
        self.expected[STALE, session, seq] += 1

    def _torn(self, epoch: int, session: int) -> None:
        """Delete the row that the last acked operation inserted."""
        seq = self._newest(epoch, session) - 1
        self._site.execute(
            f"delete from {self._site.table}"
            " where epoch = %s and session = %s and seq = %s",
            epoch,
            session,
            seq,
        )
        self.expected[TORN, session, seq] += 1

    def _gone(self, epoch: int, session: int) -> None:
        seq = self._newest(epoch, session) - 1
        self._site.execute(
            f"delete from {register_table(self._site)}"
            " where epoch = %s and session = %s and seq = %s",
            epoch,
            session,
            seq,
        )
        self.expected[TORN, session, seq] += 1

    def _damaged(self, epoch: int, session: int) -> None:
        seq = self._newest(epoch, session) - 1
        self._change(epoch, session, seq, "checksum = checksum + 1")
        self.expected[CORRUPT, session, seq] += 1


def found(outcome: Outcome) -> Counter[tuple[LossKind, int, int]]:
    assert outcome.found is not None, outcome.judgement
    return Counter((x.kind, x.session, x.seq) for x in outcome.found.losses)


@pytest.mark.wide_with("mysql")
@engines("own_site", *ENGINES)
def test_halves_of_transactions_are_found(site: Site) -> None:
    """The cycle before has none: a server that is only killed keeps them whole."""
    honest = site.cycle(workload=registers())
    assert (honest.verdict, found(honest)) == (PASS, Counter()), honest.judgement
    halves = Halves(site)
    broken = site.cycle(restore=halves.plant, workload=registers())
    assert found(broken) == halves.expected
    assert broken.verdict is FAIL
    said = broken.judgement.reasons[0]
    assert f"lost or damaged {len(halves.expected)} of the" in said
    listed = (broken.run.path / "losses.csv").read_text()
    assert all(f"{kind.value},{s},{n}," in listed for kind, s, n in halves.expected)


PLAN = MixedPlan(Schedule(SEED, 9, (40,)), Mix(registers=1))


@pytest.mark.wide_with("mysql")
@engines("own_site", *ENGINES)
def test_a_transaction_whose_second_statement_fails_leaves_nothing(site: Site) -> None:
    """The register is there already; so the row before it must not be committed."""
    engine = site.rig.site.writer.engine
    engine.prepare(PLAN.tables)
    again = PLAN.operation(1, 1).statements[1]
    half = PLAN.operation(1, 2)
    half = Operation(half.session, half.seq, (half.statements[0], again))
    with contextlib.closing(engine.open_session(PLAN.statements)) as session:
        assert commit(session, PLAN.operation(1, 1)) == 1
        with refused(
            ErrorId.COMMIT_REFUSED, EngineError, naming="the server refused a commit"
        ):
            commit(session, half)
        with refused(
            ErrorId.COMMIT_UNKNOWN,
            EngineError,
            naming="the connection broke during a commit",
        ):  # it would commit the open half
            commit(session, PLAN.operation(1, 3))
    rows = [batch for _, batch in engine.survivors((LEDGER,))]
    assert [row.seq for batch in rows for row in batch] == [1]


@engines("own_site", "mariadb", "mysql")
@pytest.mark.parametrize("autocommit", [0, 1])
def test_a_transaction_is_whole_whatever_autocommit_is(
    site: Site, autocommit: int
) -> None:
    """A proxy may run each query on another connection, with settings of its own."""
    engine = site.rig.site.writer.engine
    engine.prepare(PLAN.tables)
    again = PLAN.operation(1, 1).statements[1]
    half = Operation(1, 2, (PLAN.operation(1, 2).statements[0], again))
    with contextlib.closing(engine.open_session(PLAN.statements)) as session:
        run_on(session, f"set session autocommit = {autocommit}")
        assert commit(session, PLAN.operation(1, 1)) == 1
        with refused(
            ErrorId.COMMIT_REFUSED, EngineError, naming="the server refused a commit"
        ):
            commit(session, half)
    rows = [batch for _, batch in engine.survivors((LEDGER,))]
    assert [row.seq for batch in rows for row in batch] == [1]


@pytest.mark.wide_with("mysql")
@engines("own_site", *ENGINES)
def test_an_update_of_no_row_is_not_acked(site: Site) -> None:
    """Operation 5 writes the register of operation 1, which is not there."""
    engine = site.rig.site.writer.engine
    engine.prepare(PLAN.tables)
    with (
        contextlib.closing(engine.open_session(PLAN.statements)) as session,
        refused(ErrorId.CONNECTION_NOT_DIRECT, EngineError, naming="the server "),
    ):
        commit(session, PLAN.operation(1, 5))
