"""Prepared transactions that were lost, or decided otherwise: planted and found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import ConnectionLost, EngineError
from dbcheck.config.workload_file import load
from dbcheck.cycle.host import end_canaries
from dbcheck.cycle.outcome import Outcome
from dbcheck.cycle.preflight.before_load import run_preflight
from dbcheck.cycle.reconciling import reconcile_run
from dbcheck.cycle.recovery import in_doubt
from dbcheck.cycle.recovery.survivors import Survivors
from dbcheck.judge.diagnosis import Cause
from dbcheck.model.server import ServerFacts
from dbcheck.ports.engine import Engine
from dbcheck.rows.acks import Key
from dbcheck.rows.loss import LossKind
from dbcheck.rows.plans.twophase import PART
from dbcheck.rows.prepared import LeftFate, Name, is_committed
from dbcheck.rows.workload import Workload
from dbcheck.runs.folder import RunFolder
from tests.kit.definition import checksum, payload
from tests.kit.refusals import refused
from tests.kit.rigs import ENGINES, SEED
from tests.planted.fault import FAIL, INCONCLUSIVE, PASS, engines
from tests.planted.site import Site

pytestmark = pytest.mark.planted

BYTES = 200
PREPARED, RESURRECTED = LossKind.PREPARED, LossKind.RESURRECTED
Named = tuple[LossKind, int, int]


def two_phase() -> Workload:
    return replace(
        load("two-phase"),
        sessions=4,
        payload_bytes=(BYTES,),
        rate=200.0,
        cut_after_s=(1.0, 1.0),
    )


def left_by(site: Site) -> list[Name]:
    """Return the transactions that the server lists as prepared."""
    engine = site.rig.site.writer.engine
    names = map(Name.read, engine.prepared(server=engine.facts()))
    return [name for name in names if name is not None]


def decide(site: Site, name: Name, *, commit: bool) -> None:
    engine = site.rig.site.writer.engine
    engine.decide(str(name), commit=commit, server=engine.facts())


class Planted:
    """Plants one fault for each session, in a server that came back."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.expected: Counter[Named] = Counter()

    def plant(self) -> None:
        """Start the server and change what recovery brought back."""
        self._site.server.start()
        left = {name.session: name for name in left_by(self._site)}
        # That of session 0 comes from the preflight, and nothing was sent after it.
        self._note(PREPARED, left[0])
        decide(self._site, left[0], commit=False)
        epoch = left[0].epoch
        self._note(RESURRECTED, self._rolled_back_is_back(Name(epoch, 1, 4)))
        self._note(PREPARED, self._committed_is_gone(Name(epoch, 2, 3)))

    def _note(self, kind: LossKind, name: Name) -> None:
        self.expected[kind, name.session, name.seq] += 1

    def _rolled_back_is_back(self, name: Name) -> Name:
        assert not is_committed(name.seq)
        key = Key(name.epoch, name.session, name.seq)
        content = payload(SEED, key, PART, BYTES)
        self._site.execute(
            f"insert into {self._items}"
            " (epoch, session, seq, part, payload, checksum)"
            " values (%s, %s, %s, %s, %s, %s)",
            *key,
            PART,
            content,
            checksum(key, PART, content),
        )
        return name

    def _committed_is_gone(self, name: Name) -> Name:
        assert is_committed(name.seq)
        self._site.execute(
            f"delete from {self._items} where epoch = %s and session = %s and seq = %s",
            *name,
        )
        return name

    @property
    def _items(self) -> str:
        return self._site.table.replace("ledger", "item")


def found(outcome: Outcome) -> Counter[Named]:
    assert outcome.found is not None, outcome.judgement
    return Counter((x.kind, x.session, x.seq) for x in outcome.found.losses)


@pytest.mark.wide_with("mysql")
@engines("own_site", *ENGINES)
def test_what_was_prepared_or_decided_and_is_not_so_is_found(site: Site) -> None:
    """The ledger is whole in each of these; before them, a cycle without a fault."""
    honest = site.cycle(workload=two_phase())
    assert (honest.verdict, found(honest)) == (PASS, Counter()), honest.judgement
    fates = Counter(one.fate for one in honest.after.left_over)
    assert set(fates) == {LeftFate.KEPT}
    assert not left_by(site), "all were decided once the rows were read"
    planted = Planted(site)
    broken = site.cycle(restore=planted.plant, workload=two_phase())
    assert found(broken) == planted.expected
    assert broken.verdict is FAIL


def all_rolled_back(site: Site) -> None:
    """Roll back what is prepared, as a transaction manager does at its start."""
    site.server.start()
    for name in left_by(site):
        decide(site, name, commit=False)


@pytest.mark.wide_with("mysql")
@engines("own_site", *ENGINES)
def test_what_somebody_rolled_back_before_dbcheck_looked_is_no_lost_commit(
    site: Site,
) -> None:
    """PostgreSQL counts no decisions, so there it is the first cause to look for."""
    outcome = site.cycle(restore=lambda: all_rolled_back(site), workload=two_phase())
    assert {kind for kind, _, _ in found(outcome)} == {PREPARED}, outcome.judgement
    assert outcome.found is not None
    lost = outcome.found.undecided.rolled_back
    assert lost == sum(found(outcome).values())
    decisions = outcome.after.decisions
    if outcome.manifest.family == "postgresql":
        assert decisions is None
        assert outcome.verdict is FAIL, outcome.judgement
        assert outcome.result.diagnosis[0].cause is Cause.DECISIONS
    else:
        assert decisions is not None
        assert (decisions.commits, decisions.rollbacks >= lost) == (0, True)
        assert outcome.verdict is INCONCLUSIVE, outcome.judgement


@pytest.mark.wide_with("mariadb")
@engines("own_site", *ENGINES)
def test_what_somebody_decides_once_it_was_listed_is_no_lost_commit(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def after_somebody(
        engine: Engine, epoch: int, names: Sequence[Name], facts: ServerFacts
    ) -> dict[Name, in_doubt.Refusal | None]:
        for name in names:
            decide(site, name, commit=False)
        return decided(engine, epoch, names, facts)

    decided = in_doubt.decide_transactions
    monkeypatch.setattr(in_doubt, "decide_transactions", after_somebody)
    outcome = site.cycle(workload=two_phase())
    fates = Counter(one.fate for one in outcome.after.left_over)
    assert set(fates) == {LeftFate.GONE}, outcome.after.left_over
    assert outcome.found is not None
    assert outcome.found.undecided.gone == fates[LeftFate.GONE]
    assert outcome.verdict is INCONCLUSIVE, outcome.judgement


def breaking(real: Callable[..., Any], error: BaseException) -> Callable[..., Any]:
    """Return *real*, whose first call ends with *error* once it was done."""
    errors = [error]

    def called(*args: Any, **named: Any) -> Any:
        answer = real(*args, **named)
        if errors:
            raise errors.pop()
        return answer

    return called


PLACES = {
    "in the midst": (None, "decide"),  # of the engine's class
    "when all were decided": (Survivors, "again"),
}


@pytest.mark.wide_with("mysql")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("ends", [False, True], ids=["connection", "client"])
@engines("own_site", *ENGINES)
def test_what_dbcheck_itself_decided_before_it_read_anew_is_no_loss(
    site: Site, monkeypatch: pytest.MonkeyPatch, place: str, ends: bool
) -> None:
    """ends: not the connection breaks, but the client ends, and another reconciles."""
    owner, name = PLACES[place]
    of = owner or type(site.rig.site.writer.engine)
    lost = ConnectionLost("it broke", 0, id=ErrorId.CONNECTION_LOST)
    error = KeyboardInterrupt() if ends else lost
    monkeypatch.setattr(of, name, breaking(getattr(of, name), error))
    if not ends:
        outcome = site.cycle(workload=two_phase())
    else:
        with pytest.raises(KeyboardInterrupt):
            site.cycle(workload=two_phase())
        run = RunFolder.open(max(site.rig.runs.iterdir()))
        outcome = reconcile_run(site.rig, run, run.manifest())
    assert (outcome.verdict, found(outcome)) == (PASS, Counter()), outcome.judgement
    listed = outcome.run.prepared()
    assert listed is not None
    left = [(one.session, one.seq, one.fate) for one in outcome.after.left_over]
    assert left == [(x.session, x.seq, LeftFate.KEPT) for x in listed.names]
    assert outcome.after.decisions == listed.decisions
    assert outcome.after.survivors == listed.survivors
    assert not left_by(site)


def begin(site: Site) -> None:
    """Begin a run, whose client then ends."""
    started = run_preflight(site.rig, two_phase(), SEED)
    started.log.close()
    end_canaries(site.rig.site, started.canaries)
    if started.held is not None:
        started.held.close()


@pytest.mark.wide_with("mariadb")
@engines("own_site", *ENGINES)
def test_what_an_earlier_run_left_prepared_is_rolled_back(site: Site) -> None:
    """A run that was never read leaves transactions, which lock their tables."""
    begin(site)
    (old,) = left_by(site)
    begin(site)
    (new,) = left_by(site)
    assert new != old
    site.rig.site.writer.engine.drop()
    assert not left_by(site)


@engines("own_site", "postgresql")
def test_a_server_that_cannot_prepare_so_many_is_refused(site: Site) -> None:
    engine = site.rig.site.writer.engine
    with refused(
        ErrorId.PREPARED_TRANSACTIONS_LIMIT, EngineError, naming="is 256"
    ) as caught:
        run_preflight(site.rig, replace(two_phase(), sessions=256), SEED)
    assert "max_prepared_transactions = 257" in caught.value.hint
    assert not engine.prepared()
    with refused(ErrorId.CONTROL_CANNOT_PREPARE, EngineError):
        run_preflight(site.rig, two_phase(), SEED, control=True)
