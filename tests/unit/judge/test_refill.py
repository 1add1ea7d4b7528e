"""Whether other servers may have given back what a server lost, and what that costs."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import ConnectionLost, EngineError
from dbcheck.engines.mysql.check import find_refill
from dbcheck.engines.postgresql.replication import (
    find_subscriptions,
    require_no_subscription,
)
from dbcheck.judge.item import Item, ItemId, Status
from dbcheck.judge.judge import has_other_data, judge
from dbcheck.judge.server import judge_not_refilled
from dbcheck.judge.verdict import judge_rows, judge_unrecoverable
from dbcheck.model.records import AfterRecord
from dbcheck.model.server import Refill, select_refill
from dbcheck.model.verdict import Verdict
from dbcheck.rows.differences import ChangedRow, SecondReading
from dbcheck.rows.loss import Broken, ConditionCheck, IndexLoss, Loss, Losses, LossKind
from dbcheck.rows.reconcile import Reconciliation
from dbcheck.rows.table import CLASSIC, LEDGER
from dbcheck.runs import stored
from tests.kit.cases import case
from tests.kit.nodes import after_of
from tests.kit.refusals import refused
from tests.kit.samples import FACTS

JOINED = Refill("joined", "Cut again")
CLONED = Refill("was cloned", "Cut again", replaces=True)
DENIED = EngineError("denied", id=ErrorId.STATEMENT_FAILED)
RESTARTED = replace(FACTS, started_us=FACTS.started_us + 1)
BROKEN = ConditionCheck((Broken(1, 1, 1, 3, 4),))
CHANGED = SecondReading(9, 1, (ChangedRow("ledger", 7, 1, 1, 3, 0, was_there=True),))
GROUP = [("group_replication_group_name", "1727aa1a-81b1-4727-89f9-f868b5154cba")]
LEFT = [*GROUP, ("group_replication_start_on_boot", "OFF")]
PLUGIN = [("clone_buffer_size", "4194304")]
ENDED = Refill("was a replica", "Cut again", ended=True)
UNKNOWN = Refill("may have been cloned", "grant SELECT", unknown=True)
JOINS = [*GROUP, ("group_replication_start_on_boot", "ON")]
QUIET = [
    ("Com_group_replication_start", "0"),
    ("Com_replica_start", "0"),
    ("Gr_total_messages_sent_count", ""),
]
GALERA = [("wsrep_on", "ON"), ("wsrep_provider", "/lib/galera.so")]
DISCONNECTED = [("wsrep_connected", "OFF"), ("Com_start_slave", "0")]


def link(product: str = "MySQL", **rows: Any) -> Any:
    """Return a link to a server that answers each statement with these rows."""

    def answer(statement: str, *_: Any) -> list[Any]:
        found = rows.get(statement, [])
        if isinstance(found, Exception):
            raise found
        return list(found)

    return SimpleNamespace(product=product, rows=answer)


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(link(), id="of no group"),
        pytest.param(link(variables=LEFT, refill=QUIET), id="a member, not started"),
        pytest.param(
            link(refill=QUIET, cloned=DENIED, group_state=DENIED), id="denied"
        ),
        pytest.param(link("MariaDB", refill=DISCONNECTED), id="MariaDB"),
    ],
)
def test_a_server_that_took_nothing_from_others_shows_nothing(found: Any) -> None:
    assert find_refill(found, 0) is None


@pytest.mark.parametrize(
    ("variables", "cloned"),
    [(PLUGIN, DENIED), ([*PLUGIN, ("performance_schema", "OFF")], [])],
)
def test_a_clone_that_cannot_be_seen_is_not_known(variables: Any, cloned: Any) -> None:
    refill = find_refill(link(variables=variables, cloned=cloned), 0)
    assert refill is not None
    assert refill.unknown and not refill.replaces
    assert "SELECT on performance_schema.clone_status" in refill.advice
    joined = find_refill(link(variables=[*variables, *JOINS], cloned=cloned), 0)
    assert joined is not None
    assert not joined.unknown


@pytest.mark.parametrize("statement", ["cloned", "group_state"])
def test_a_server_that_breaks_off_is_asked_once_more(statement: str) -> None:
    broken = ConnectionLost("the connection broke", 7, id=ErrorId.CONNECTION_LOST)
    answers: dict[str, Any] = {"variables": PLUGIN, statement: broken}
    with refused(ErrorId.CONNECTION_LOST, ConnectionLost, naming="broke"):
        find_refill(link(**answers), 0)


@pytest.mark.parametrize("variables", [PLUGIN, [("performance_schema", "OFF")]])
def test_a_server_that_shows_no_clone_or_makes_none_was_not_cloned(
    variables: Any,
) -> None:
    assert find_refill(link(variables=variables), 0) is None


@pytest.mark.parametrize(
    ("found", "replaces"),
    [
        pytest.param(
            link(variables=LEFT, group_state=[("ONLINE",)]), False, id="ONLINE"
        ),
        pytest.param(
            link(variables=LEFT, group_state=[("RECOVERING",)]), False, id="RECOVERING"
        ),
        pytest.param(link(variables=JOINS, group_state=DENIED), False, id="at startup"),
        pytest.param(
            link(
                refill=[("Com_group_replication_start", "1")],
                group_state=DENIED,
            ),
            False,
            id="started, and not to be seen",
        ),
        pytest.param(
            link(refill=[("Gr_total_messages_sent_count", "10")]), False, id="was one"
        ),
        pytest.param(
            link(refill=[("Com_replica_start", "1")]), False, id="was a replica"
        ),
        pytest.param(
            link("MariaDB", refill=[("Com_start_slave", "1")]),
            False,
            id="was a replica of MariaDB",
        ),
        pytest.param(
            link(cloned=[("2026-11-27 14:23:10",)]), True, id="cloned since the load"
        ),
        pytest.param(
            link(replica_status=[("Connecting", "db2")]), True, id="a replica"
        ),
        pytest.param(
            link("MariaDB", replica_status_mariadb=[("", "", "db2")]),
            True,
            id="a replica of MariaDB",
        ),
        pytest.param(link("MariaDB", variables=GALERA), True, id="Galera"),
        pytest.param(
            link("MariaDB", refill=[("wsrep_connected", "ON")]),
            True,
            id="Galera, its commits its own",
        ),
    ],
)
def test_what_a_server_took_from_others_is_seen(found: Any, replaces: bool) -> None:
    refill = find_refill(found, 0)
    assert refill is not None
    assert refill.replaces is replaces
    assert not refill.unknown


@pytest.mark.parametrize(
    ("status", "certain"),
    [
        ({"Com_replica_start": "1"}, False),
        ({"Com_start_slave": "1"}, False),
        ({"Com_group_replication_start": "1"}, False),
        # A START that fails sets the messages to 0, whatever a start before it did.
        (
            {"Com_group_replication_start": "2", "Gr_total_messages_sent_count": "0"},
            False,
        ),
        (
            {"Com_group_replication_start": "1", "Gr_total_messages_sent_count": "8"},
            True,
        ),
    ],
)
def test_a_start_that_may_have_failed_is_not_said_to_have_happened(
    status: dict[str, str], certain: bool
) -> None:
    refill = find_refill(link(refill=status.items(), group_state=DENIED), 0)
    assert refill is not None
    assert ("may have failed" not in refill.how) is certain


def test_a_subscription_is_refused_before_a_cut_and_seen_after_it() -> None:
    found = link("PostgreSQL", refill=[("s1", "ledger"), ("s2", "classic")])
    with refused(ErrorId.SERVER_IS_REPLICA, EngineError, naming="subscription") as at:
        require_no_subscription(found, (LEDGER, CLASSIC))
    refill = find_subscriptions(found, (LEDGER, CLASSIC))
    assert at.value.id is ErrorId.SERVER_IS_REPLICA
    assert "DROP SUBSCRIPTION" in at.value.hint
    assert refill is not None
    assert not refill.replaces
    for text in (str(at.value), refill.how):
        assert "s1 into dbcheck.ledger, s2 into dbcheck.classic" in text


def test_a_server_without_a_subscription_is_taken() -> None:
    require_no_subscription(link("PostgreSQL"), (LEDGER,))
    assert find_subscriptions(link("PostgreSQL"), (LEDGER,)) is None


@pytest.mark.parametrize(
    ("refill", "deleted", "status"),
    [
        (None, 0, None),
        (None, 3, None),
        (UNKNOWN, 0, Status.ASSUMED),
        (UNKNOWN, 3, Status.ASSUMED),
        (JOINED, None, Status.ABSENT),
        (JOINED, 0, Status.ABSENT),
        (JOINED, 1, Status.CONTRADICTED),
        (CLONED, 0, Status.CONTRADICTED),
        (CLONED, 1, Status.CONTRADICTED),
    ],
)
def test_a_copy_of_another_server_and_what_others_may_have_deleted_are_other_data(
    refill: Refill | None, deleted: int | None, status: Status | None
) -> None:
    judged = case(after={"facts": FACTS, "refill": refill, "deleted": deleted})
    item = judge_not_refilled(judged)
    assert (item and item.status) is status
    if refill is not None and item is not None:
        assert item.required and item.id is ItemId.NOT_REFILLED
        assert refill.how in item.reason and refill.advice in item.reason
        is_other = status is Status.CONTRADICTED
        assert ("no row was judged" in item.reason) is is_other
    assert has_other_data(judged) is (status is Status.CONTRADICTED)


def test_deleted_rows_do_not_excuse_a_server_whose_data_cannot_be_read() -> None:
    after = {"facts": RESTARTED, "refill": JOINED, "deleted": 1, "failure": "torn page"}
    item = judge_not_refilled(case(after=after))
    assert item is not None and item.status is Status.ABSENT
    assert judge(case(after=after)).verdict is Verdict.FAIL


@pytest.mark.parametrize(
    ("losses", "status", "verdict"),
    [
        ([], Status.ABSENT, Verdict.INCONCLUSIVE),
        ([LossKind.MISSING_TAIL], Status.ABSENT, Verdict.FAIL),
        ([LossKind.MISSING_HOLE, LossKind.TORN], Status.ABSENT, Verdict.FAIL),
        ([LossKind.UNEXPECTED], Status.ABSENT, Verdict.INCONCLUSIVE),
        ([LossKind.STALE], Status.ABSENT, Verdict.INCONCLUSIVE),
        ([LossKind.MISSING_TAIL], Status.CONTRADICTED, Verdict.INCONCLUSIVE),
    ],
)
def test_only_a_row_that_is_missing_all_the_same_is_lost(
    losses: list[LossKind], status: Status, verdict: Verdict
) -> None:
    items = [Item(ItemId.NOT_REFILLED, status, "joined", True)]
    lost = [Loss(kind, 0, n, n, n, LEDGER.name) for n, kind in enumerate(losses, 1)]
    found = Reconciliation(9, 5, 0, 0, 0, 0, {}, Losses.of(lost))
    assert judge_rows(found, items).verdict is verdict


@pytest.mark.parametrize(
    ("refill", "missing", "verdict"),
    [
        (JOINED, True, Verdict.INCONCLUSIVE),
        (JOINED, False, Verdict.FAIL),
        (UNKNOWN, True, Verdict.FAIL),
        (None, True, Verdict.FAIL),
    ],
)
def test_a_table_that_another_server_may_have_dropped_is_no_loss(
    refill: Refill | None, missing: bool, verdict: Verdict
) -> None:
    present = Item(ItemId.NOT_RESTORED, Status.PRESENT, "the same files", False)
    item = judge_not_refilled(case(after={"facts": FACTS, "refill": refill}))
    items = [present, item] if item else [present]
    judged = judge_unrecoverable("no table", items, missing=missing, explained=False)
    assert judged.verdict is verdict


@pytest.mark.parametrize(
    ("refill", "beside", "verdict"),
    [
        (JOINED, {"conditions": BROKEN}, Verdict.INCONCLUSIVE),
        (JOINED, {"again": CHANGED}, Verdict.INCONCLUSIVE),
        (JOINED, {"again": SecondReading(9, index="it lacks a row")}, Verdict.FAIL),
        (JOINED, {"again": SecondReading(failure="torn page")}, Verdict.FAIL),
        (JOINED, {"index": IndexLoss("it lacks a row", 1)}, Verdict.FAIL),
        (None, {"conditions": BROKEN}, Verdict.FAIL),
        (None, {"again": CHANGED}, Verdict.FAIL),
    ],
)
def test_what_another_server_may_have_changed_beside_the_rows_is_no_loss(
    refill: Refill | None, beside: dict[str, Any], verdict: Verdict
) -> None:
    found = Reconciliation(9, 9, 0, 0, 0, 0, {}, Losses.of([]))
    after = {"facts": RESTARTED, "refill": refill, **beside}
    assert judge(replace(case(after=after), found=found)).verdict is verdict


@pytest.mark.parametrize(
    ("losses", "verdict"),
    [([], Verdict.PASS), ([LossKind.CORRUPT], Verdict.FAIL)],
)
def test_what_was_not_seen_is_assumed_of_a_pass_and_excuses_no_loss(
    losses: list[LossKind], verdict: Verdict
) -> None:
    lost = [Loss(kind, 0, 1, 1, 1, LEDGER.name) for kind in losses]
    found = Reconciliation(9, 9 - len(lost), 0, 0, 0, 0, {}, Losses.of(lost))
    judged = replace(case(after={"facts": FACTS, "refill": UNKNOWN}), found=found)
    item = judge_not_refilled(judged)
    judgement = judge_rows(found, [item] if item else [])
    assert judgement.verdict is verdict
    named = f"assumed, not seen: {ItemId.NOT_REFILLED.value}" in judgement.reasons[0]
    assert named is (verdict is Verdict.PASS)


@pytest.mark.parametrize(
    ("earlier", "later", "counts"),
    [
        (None, None, None),
        (JOINED, None, JOINED),
        (None, JOINED, JOINED),
        (JOINED, replace(JOINED, how="is a member"), JOINED),
        (JOINED, CLONED, CLONED),
        (CLONED, JOINED, CLONED),
        (UNKNOWN, None, UNKNOWN),
        (None, UNKNOWN, UNKNOWN),
        (UNKNOWN, JOINED, JOINED),
        (JOINED, UNKNOWN, JOINED),
        (UNKNOWN, CLONED, CLONED),
        (CLONED, UNKNOWN, CLONED),
        (ENDED, JOINED, JOINED),
        (UNKNOWN, ENDED, ENDED),
    ],
)
def test_of_two_looks_a_copy_counts_more_and_what_was_not_seen_less(
    earlier: Refill | None, later: Refill | None, counts: Refill | None
) -> None:
    assert select_refill(earlier, later) == counts


@pytest.mark.parametrize("refill", [CLONED, UNKNOWN])
def test_what_was_seen_is_stored(refill: Refill) -> None:
    after = replace(after_of(FACTS), refill=refill)
    assert stored.from_bytes(stored.to_bytes(after), AfterRecord, "after.json") == after
