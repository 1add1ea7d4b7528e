"""Order entry: what a load of single inserts cannot show, planted and found."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from dbcheck.config.workload_file import load
from dbcheck.cycle.outcome import Outcome
from dbcheck.judge.item import ItemId, Status
from dbcheck.rows.acks import Key
from dbcheck.rows.loss import ConditionCheck, LossKind
from dbcheck.rows.plans.orderentry import (
    DISTRICT_PARTS,
    LINE_PARTS,
    ORDER_PART,
    OrderAction,
    draw_operation,
)
from dbcheck.rows.workload import Workload
from tests.kit.definition import checksum, payload
from tests.kit.orders import OrdersModel, plan_of
from tests.kit.rigs import ENGINES, SEED
from tests.planted.fault import FAIL, PASS, engines
from tests.planted.site import Site

pytestmark = pytest.mark.planted

STALE, TORN = LossKind.STALE, LossKind.TORN
RESURRECTED, UNEXPECTED = LossKind.RESURRECTED, LossKind.UNEXPECTED
Named = tuple[LossKind, str, int, int]  # kind, table, session and seq
SESSIONS = range(1, 9)
UNDONE = next(
    (session, seq)
    for seq in range(2, 60)
    for session in SESSIONS
    if draw_operation(SEED, session, seq).action is OrderAction.UNDONE
)


def order_entry() -> Workload:
    return replace(
        load("order-entry"), sessions=len(SESSIONS), rate=600.0, cut_after_s=(2.0, 2.0)
    )


class Orders:
    """What a server that came back holds, and faults in it."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.expected: Counter[Named] = Counter()

    def start(self) -> None:
        """Start the server, and learn how far its sessions came."""
        self._site.server.start()
        ((self._epoch,),) = self._site.execute(
            f"select epoch from {self._site.table} order by id desc limit 1"
        )
        rows = self._site.execute(
            f"select session, max(seq) from {self._site.table} where epoch = %s"
            " group by session",
            self._epoch,
        )
        self._newest = {int(session): int(seq) for session, seq in rows}

    def oldest(self, table: str, session: int) -> str:
        """Return what selects a row: the oldest of the district that has the most."""
        ((district, number),) = self._site.execute(
            f"select district, min(number) from {self.table(table)}"
            " where epoch = %s and session = %s"
            " group by district order by count(*) desc limit 1",
            self._epoch,
            session,
        )
        return f"session = {session} and district = {district} and number = {number}"

    def model(self) -> OrdersModel:
        """Return the tables as they must be."""
        model = OrdersModel(plan_of(SEED, self._epoch))
        for session, newest in self._newest.items():
            model.run(session, newest)
        return model

    def require_the_sums_of(self, model: OrdersModel) -> None:
        """The server's own counters, apart from dbcheck's conditions."""
        found = self._site.execute(
            f"select session, part, next_order, ytd from {self.table('district')}"
            " where epoch = %s",
            self._epoch,
        )
        districts = [(s, d) for s in sorted(self._newest) for d in DISTRICT_PARTS]
        assert sorted((int(s), int(d), int(n), int(y)) for s, d, n, y in found) == [
            (s, d, model.orders[s, d] + 1, model.sums[s, d]) for s, d in districts
        ]
        found = self._site.execute(
            f"select session, district, number from {self.table('orders')}"
            " where epoch = %s",
            self._epoch,
        )
        assert sorted((int(s), int(d), int(n)) for s, d, n in found) == [
            (s, d, n) for s, d in districts for n in range(1, model.orders[s, d] + 1)
        ]

    def table(self, name: str) -> str:
        return self._site.table.replace("ledger", name)

    def plant(self) -> None:
        """Change the rows of another session each."""
        self.start()
        faults = (
            self._line_is_lost,
            self._order_is_lost,
            self._payment_is_lost,
            self._answer_is_lost,
            self._order_of_no_operation,
        )
        sessions = (session for session in SESSIONS if session != UNDONE[0])
        for session, fault in zip(sessions, faults, strict=False):
            self.expected[fault(session)] += 1
        session, seq = UNDONE
        self._insert_order(session, seq)
        self.expected[RESURRECTED, "orders", session, seq] += 1

    def _last(self, session: int, action: OrderAction) -> int:
        """Return the newest operation of that kind that is surely acked."""
        return next(
            seq
            for seq in range(self._newest[session] - 1, 1, -1)
            if draw_operation(SEED, session, seq).action is action
        )

    def _remove(self, table: str, session: int, seq: int, part: int) -> None:
        self._site.execute(
            f"delete from {self.table(table)}"
            " where epoch = %s and session = %s and seq = %s and part = %s",
            self._epoch,
            *(session, seq, part),
        )

    def _insert_order(self, session: int, seq: int) -> None:
        key = Key(self._epoch, session, seq)
        content = payload(SEED, key, ORDER_PART, 24)
        self._site.execute(
            f"insert into {self.table('orders')} (epoch, session, seq, part, payload,"
            " checksum, district, number, line_count)"
            " values (%s, %s, %s, %s, %s, %s, 1, 1, 0)",
            *key,
            *(ORDER_PART, content, checksum(key, ORDER_PART, content)),
        )

    def _line_is_lost(self, session: int) -> Named:
        seq = self._last(session, OrderAction.ORDER)
        self._remove("orderline", session, seq, LINE_PARTS[1])
        return TORN, "orderline", session, seq

    def _order_is_lost(self, session: int) -> Named:
        seq = self._last(session, OrderAction.ORDER)
        self._remove("orders", session, seq, ORDER_PART)
        return TORN, "orders", session, seq

    def _payment_is_lost(self, session: int) -> Named:
        """Put the warehouse back to the version that it was inserted in."""
        newest = self._last(session, OrderAction.PAYMENT)
        later = range(newest + 1, self._newest[session] + 1)
        paid = [
            s
            for s in later
            if draw_operation(SEED, session, s).amount and self._pays(session, s)
        ]
        newest = paid[-1] if paid else newest
        key, part = Key(self._epoch, session, 1), LINE_PARTS.stop
        content = payload(SEED, key, part, 64)
        self._site.execute(
            f"update {self.table('warehouse')} set seq = 1, payload = %s, checksum = %s"
            " where epoch = %s and session = %s",
            *(content, checksum(key, part, content), self._epoch, session),
        )
        return STALE, "warehouse", session, newest

    @staticmethod
    def _pays(session: int, seq: int) -> bool:
        return draw_operation(SEED, session, seq).action is OrderAction.PAYMENT

    def _answer_is_lost(self, session: int) -> Named:
        """Remove the row of the ledger, and nothing else that the order wrote."""
        seq = self._last(session, OrderAction.ORDER)
        self._remove("ledger", session, seq, 0)
        return TORN, "orders", session, seq

    def _order_of_no_operation(self, session: int) -> Named:
        seq = self._newest[session] + 1000
        self._insert_order(session, seq)
        return UNEXPECTED, "orders", session, seq


def found(outcome: Outcome) -> Counter[Named]:
    assert outcome.found is not None, outcome.judgement
    return Counter((x.kind, x.table, x.session, x.seq) for x in outcome.found.losses)


def named(planted: Orders, outcome: Outcome) -> Counter[Named]:
    """Return what is to be found.

    The newest payment may be without an ack.  If its district is there and its
    warehouse is not, nothing acked is stale: the payment is torn.
    """
    assert outcome.load is not None
    acked = outcome.load.acked
    return Counter(
        (TORN if kind is STALE and seq > acked[session] else kind, table, session, seq)
        for kind, table, session, seq in planted.expected
    )


def conditions(outcome: Outcome) -> ConditionCheck:
    assert outcome.after.conditions is not None
    return outcome.after.conditions


@pytest.mark.wide_with("mariadb", "mysql")
@engines("own_site", *ENGINES)
def test_what_an_order_loses_is_found(site: Site) -> None:
    """The cycle before has none: a server that is only killed keeps what it did."""
    orders = Orders(site)
    honest = site.cycle(restore=orders.start, workload=order_entry())
    assert (honest.verdict, found(honest)) == (PASS, Counter()), honest.judgement
    assert conditions(honest) == ConditionCheck()
    orders.require_the_sums_of(orders.model())
    planted = Orders(site)
    broken = site.cycle(restore=planted.plant, workload=order_entry())
    assert broken.verdict is FAIL
    shown, expected = found(broken), named(planted, broken)
    assert expected <= shown
    assert {session for _, _, session, _ in shown} == {
        session for _, _, session, _ in expected
    }


CHANGES = {  # the number of the condition, and of the session -> what breaks it there
    1: ("warehouse", "ytd = ytd - 1"),
    2: ("district", "next_order = next_order - 1"),
    3: ("neworder", "number = -1"),
    4: ("orders", "line_count = 3"),
}


@pytest.mark.wide_with("mariadb", "mysql")
@engines("own_site", *ENGINES)
def test_numbers_that_no_checksum_covers_must_agree(site: Site) -> None:
    """Each row bears the key of its operation, and the content that belongs to it."""
    orders = Orders(site)

    def plant() -> None:
        orders.start()
        where = {1: "session = 1", 2: "session = 2 and part = 3"}
        where |= {3: orders.oldest("neworder", 3), 4: orders.oldest("orders", 4)}
        for session, (table, change) in CHANGES.items():
            site.execute(
                f"update {orders.table(table)} set {change} where {where[session]}"
            )

    broken = site.cycle(restore=plant, workload=order_entry())
    assert broken.verdict is FAIL, broken.judgement
    assert found(broken) == Counter()
    shown = conditions(broken).broken
    # The counter differs from the newest order, and from the newest that is new.
    assert [(x.condition, x.session) for x in shown] == [
        (n, n) for n in (1, 2, 2, 3, 4)
    ]
    assert broken.result.losses == {LossKind.INCONSISTENT.value: len(shown)}
    (item,) = (i for i in broken.judgement.items if i.id is ItemId.CONDITIONS)
    assert item.status is Status.CONTRADICTED
    assert ": condition 1, " in broken.judgement.reasons[0]
