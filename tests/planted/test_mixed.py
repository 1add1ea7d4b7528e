"""Losses that a load of single inserts cannot show: planted, found and named."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from dbcheck.config.workload_file import load
from dbcheck.cycle.outcome import Outcome
from dbcheck.rows.acks import Key
from dbcheck.rows.loss import LossKind
from dbcheck.rows.plans.mixed import DELETE_ITEM, MixedPlan
from dbcheck.rows.plans.registry import plan_of
from dbcheck.rows.schedule import Schedule
from dbcheck.rows.workload import Workload
from tests.kit.definition import checksum, payload
from tests.kit.mixed import Model, Name, versions
from tests.kit.rigs import ENGINES, SEED
from tests.planted.fault import FAIL, PASS, engines
from tests.planted.site import Site

pytestmark = pytest.mark.planted

BYTES = 200
STALE, TORN = LossKind.STALE, LossKind.TORN
RESURRECTED, UNEXPECTED = LossKind.RESURRECTED, LossKind.UNEXPECTED
Named = tuple[LossKind, int, int]


def mixed() -> Workload:
    return replace(
        load("mixed"),
        sessions=6,
        payload_bytes=(BYTES,),
        rate=400.0,
        cut_after_s=(2.0, 2.0),
    )


class Planted:
    """Plants one fault for each session, in a server that came back."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.expected: Counter[Named] = Counter()

    def plant(self) -> None:
        """Start the server and change what recovery brought back."""
        self._site.server.start()
        ((self._epoch,),) = self._site.execute(
            f"select epoch from {self._site.table} order by id desc limit 1"
        )
        faults = (
            self._deleted_is_back,
            self._rolled_back_is_back,
            self._update_is_lost,
            self._row_of_a_batch_is_lost,
            self._half_of_a_transfer_is_lost,
            self._row_of_no_operation,
        )
        for session, fault in enumerate(faults, start=1):
            plan = plan_of(mixed(), Schedule(SEED, self._epoch, (BYTES,)))
            assert isinstance(plan, MixedPlan)
            ((last,),) = self._site.execute(
                f"select max(seq) from {self._site.table}"
                " where epoch = %s and session = %s",
                self._epoch,
                session,
            )
            model = Model(plan)
            model.run(session, int(last))
            self.expected[fault(session, int(last), model)] += 1

    def _table(self, name: str) -> str:
        return self._site.table.replace("ledger", name)

    def _insert(self, name: Name) -> None:
        """Insert the item that its operation wrote, or tried to."""
        session, seq, part = name
        key = Key(self._epoch, session, seq)
        content = payload(SEED, key, part, BYTES)
        self._site.execute(
            f"insert into {self._table('item')}"
            " (epoch, session, seq, part, payload, checksum)"
            " values (%s, %s, %s, %s, %s, %s)",
            *key,
            part,
            content,
            checksum(key, part, content),
        )

    def _remove(self, table: str, name: Name) -> None:
        self._site.execute(
            f"delete from {self._table(table)}"
            " where epoch = %s and session = %s and seq = %s and part = %s",
            self._epoch,
            *name,
        )

    def _deleted_is_back(self, session: int, last: int, model: Model) -> Named:
        for seq in range(1, last):
            for statement in model.plan.operation(session, seq).statements:
                if statement.name == DELETE_ITEM.name:
                    _, _, old, part = statement.values
                    self._insert((session, int(old), int(part)))
                    return RESURRECTED, session, seq
        raise AssertionError("no operation deleted an item")

    def _rolled_back_is_back(self, session: int, last: int, model: Model) -> Named:
        for seq in range(1, last):
            first, *_ = model.plan.operation(session, seq).statements
            if first.name == "insert_item":
                _, _, _, part, *_ = first.values
                self._insert((session, seq, int(part)))
                return RESURRECTED, session, seq
        raise AssertionError("no operation was rolled back")

    def _update_is_lost(self, session: int, last: int, model: Model) -> Named:
        found = versions(model.plan, session, last - 1)
        new = max(name for name in found if name in model.tables["item"])
        self._remove("item", new)
        self._insert(found[new])
        return STALE, session, new[1]

    def _row_of_a_batch_is_lost(self, session: int, last: int, model: Model) -> Named:
        updated = versions(model.plan, session, last)
        items = model.tables["item"]
        gone = min(n for n in items if n not in updated and n[2] == 4)
        self._remove("item", gone)
        return TORN, session, gone[1]

    def _half_of_a_transfer_is_lost(
        self, session: int, last: int, model: Model
    ) -> Named:
        gone = max(name for name in model.tables["register"] if name[2] > 4)
        self._remove("register", gone)
        return TORN, session, gone[1]

    def _row_of_no_operation(self, session: int, last: int, model: Model) -> Named:
        name = (session, last + 1000, 1)
        self._insert(name)
        return UNEXPECTED, session, name[1]


def found(outcome: Outcome) -> Counter[Named]:
    assert outcome.found is not None, outcome.judgement
    return Counter((x.kind, x.session, x.seq) for x in outcome.found.losses)


@pytest.mark.wide_with("mariadb", "mysql")
@engines("own_site", *ENGINES)
def test_what_a_load_of_inserts_cannot_show_is_found(site: Site) -> None:
    """The ledger, all that such a load has, is whole in each of these.

    The cycle before has none: a server that is only killed keeps what it did.
    """
    honest = site.cycle(workload=mixed())
    assert (honest.verdict, found(honest)) == (PASS, Counter()), honest.judgement
    planted = Planted(site)
    broken = site.cycle(restore=planted.plant, workload=mixed())
    assert found(broken) == planted.expected
    assert broken.verdict is FAIL
