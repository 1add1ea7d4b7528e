"""Which causes a diagnosis names, and in what order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from dbcheck.audit import rules
from dbcheck.audit.rules import Finding
from dbcheck.judge.diagnosis import Cause, Explanation, diagnose_losses
from dbcheck.rows.loss import LossKind
from dbcheck.rows.lossshape import NO_SHAPE, LossShape, Share, WindowShare
from dbcheck.rows.tasks import TaskKind

TAIL, HOLE, TORN = LossKind.MISSING_TAIL, LossKind.MISSING_HOLE, LossKind.TORN
END = LossShape(
    by_age=(Share(1.0, 212, 212), Share(10.0, 4000, 0)),
    by_size=(),
    by_window=(),
    by_table={"ledger": 212},
    oldest_s=0.9,
    missing=212,
    reordered=0,
)
SCATTERED = replace(END, reordered=200)


def setting(fact: str, value: str) -> Finding:
    """Return what the audit says of a setting of MySQL or PostgreSQL."""
    family = "mysql" if fact.startswith(("innodb", "sync_")) else "postgresql"
    (found,) = [
        each
        for each in rules.find_flagged_settings(family, {fact: value})
        if each.rule.fact == fact and each.value == value
    ]
    return found


def causes(
    counts: Mapping[LossKind, int], shape: LossShape, *settings: Finding
) -> list[tuple[Cause, int]]:
    found = diagnose_losses(counts, shape, settings, (), page_cache_kept=False)
    return [(one.cause, one.losses) for one in found]


def reason(found: tuple[Explanation, ...], cause: Cause) -> str:
    (one,) = [one for one in found if one.cause is cause]
    return one.reason


def test_nothing_is_explained_where_nothing_is_lost() -> None:
    late = setting("synchronous_commit", "off")
    assert not diagnose_losses({}, NO_SHAPE, [late], ["l"], page_cache_kept=True)


def test_the_lost_end_of_a_log_is_a_lost_cache() -> None:
    found = diagnose_losses({TAIL: 212}, END, (), (), page_cache_kept=False)
    assert [(one.cause, one.losses) for one in found] == [(Cause.LOST_CACHE, 212)]
    assert "oldest loss was acked 0.900 s before the cut" in found[0].reason


@pytest.mark.parametrize(
    ("counts", "deleted", "expected"),
    [
        ({TAIL: 200, HOLE: 12}, 212, [(Cause.DELETES, 212), (Cause.LOST_CACHE, 212)]),
        ({TAIL: 212}, 500, [(Cause.DELETES, 212), (Cause.LOST_CACHE, 212)]),
        ({TAIL: 212}, 5, [(Cause.LOST_CACHE, 212), (Cause.DELETES, 5)]),
        ({TAIL: 212}, 0, [(Cause.LOST_CACHE, 212)]),
        ({TAIL: 212}, None, [(Cause.LOST_CACHE, 212)]),
    ],
)
def test_rows_that_somebody_deleted_explain_as_many_that_are_missing(
    counts: Mapping[LossKind, int],
    deleted: int | None,
    expected: list[tuple[Cause, int]],
) -> None:
    found = diagnose_losses(counts, END, (), (), page_cache_kept=False, deleted=deleted)
    assert [(one.cause, one.losses) for one in found] == expected


def test_rows_that_somebody_deleted_come_before_a_setting_and_explain_no_torn_row() -> (
    None
):
    off = setting("fsync", "off")
    found = diagnose_losses({TAIL: 5}, END, [off], (), page_cache_kept=True, deleted=5)
    assert found[0].cause is Cause.DELETES
    found = diagnose_losses(
        {TORN: 5}, NO_SHAPE, (), (), page_cache_kept=False, deleted=5
    )
    assert [one.cause for one in found] == [Cause.DATA_PAGES]


@pytest.mark.parametrize(
    ("kind", "cause"),
    [
        (LossKind.PREPARED, Cause.DECISIONS),
        (LossKind.DUPLICATE, Cause.REPEATS),
    ],
)
def test_what_clients_do_is_named_before_what_else_explains_as_much(
    kind: LossKind, cause: Cause
) -> None:
    off = setting("fsync", "off")
    found = diagnose_losses(
        {kind: 5},
        NO_SHAPE,
        [off],
        (),
        page_cache_kept=True,
        decided=5 if cause is Cause.DECISIONS else 0,
        repeats=5 if cause is Cause.REPEATS else 0,
    )
    assert [(one.cause, one.losses) for one in found] == [
        (cause, 5),
        (Cause.SETTING, 5),
        (Cause.SERVER, 5),
    ]
    assert not diagnose_losses({kind: 5}, NO_SHAPE, (), (), page_cache_kept=False)


def test_losses_out_of_order_are_reordered_writes() -> None:
    found = diagnose_losses({TAIL: 212}, SCATTERED, (), (), page_cache_kept=False)
    assert [one.cause for one in found] == [Cause.REORDERED_WRITES]
    assert found[0].reason.startswith("200 of 212 missing were acked before")


LATE = (
    ("synchronous_commit", "off"),
    ("innodb_flush_log_at_trx_commit", "0"),
    ("innodb_flush_log_at_trx_commit", "2"),
    ("sync_binlog", "0"),
)


@pytest.mark.parametrize(("fact", "value"), LATE)
def test_a_late_flush_explains_a_lost_end(fact: str, value: str) -> None:
    found = causes({TAIL: 212}, END, setting(fact, value))
    assert found == [(Cause.SETTING, 212), (Cause.LOST_CACHE, 212)]


@pytest.mark.parametrize(("fact", "value"), LATE)
def test_a_late_flush_does_not_explain_what_is_out_of_order(
    fact: str, value: str
) -> None:
    late = setting(fact, value)
    assert causes({TAIL: 212}, SCATTERED, late) == [
        (Cause.REORDERED_WRITES, 212),
        (Cause.SETTING, 12),
    ]
    everything = replace(END, reordered=212)
    assert causes({TAIL: 212}, everything, late) == [(Cause.REORDERED_WRITES, 212)]


@pytest.mark.parametrize(
    "kind", [LossKind.CORRUPT, LossKind.STALE, TORN, LossKind.RESURRECTED]
)
def test_a_late_flush_explains_no_row_that_is_wrong(kind: LossKind) -> None:
    late = setting("synchronous_commit", "off")
    shape = replace(NO_SHAPE, by_table={"ledger": 0, "item": 3})
    assert causes({kind: 3}, shape, late) == [(Cause.DATA_PAGES, 3)]


def test_a_setting_that_can_lose_everything_comes_first() -> None:
    off = setting("fsync", "off")
    assert causes({TAIL: 200, TORN: 12}, SCATTERED, off) == [
        (Cause.SETTING, 212),
        (Cause.REORDERED_WRITES, 200),
        (Cause.DATA_PAGES, 12),
    ]


def test_torn_pages_come_behind_what_loses_on_any_storage() -> None:
    pages = setting("full_page_writes", "off")
    off = setting("fsync", "off")
    found = causes({LossKind.CORRUPT: 3}, NO_SHAPE, pages, off)
    assert [cause for cause, _ in found] == [
        Cause.SETTING,
        Cause.TORN_PAGES,
        Cause.DATA_PAGES,
    ]


def test_a_drive_lost_nothing_if_the_page_cache_was_kept() -> None:
    found = diagnose_losses({TAIL: 212}, END, (), ["sda"], page_cache_kept=True)
    assert [one.cause for one in found] == [Cause.SERVER]


def test_a_layer_that_holds_flushes_back_comes_before_a_guess() -> None:
    found = diagnose_losses({TAIL: 212}, END, (), ["md0"], page_cache_kept=False)
    assert [one.cause for one in found] == [Cause.LAYER, Cause.LOST_CACHE]
    assert "md0" in found[0].reason


def sized(*shares: Share) -> LossShape:
    return replace(END, by_size=shares)


def test_only_large_writes_are_lost() -> None:
    shape = sized(Share(4096, 4120, 0), Share(16384, 20, 20), Share(None, 11, 11))
    found = diagnose_losses({TAIL: 31}, shape, (), (), page_cache_kept=False)
    assert found[0].cause is Cause.LARGE_WRITES
    assert reason(found, Cause.LARGE_WRITES) == (
        "only payloads above 4,096 bytes lost something: 31 of 31, and none of 4,120"
        " below"
    )


@pytest.mark.parametrize(
    "shares",
    [
        pytest.param((Share(512, 50, 0), Share(4096, 50, 3)), id="chance"),
        pytest.param((Share(512, 50, 1), Share(4096, 50, 50)), id="small ones too"),
        pytest.param((Share(512, 50, 20),), id="one class"),
        pytest.param((Share(512, 50, 0), Share(4096, 50, 0)), id="nothing dated"),
    ],
)
def test_the_size_is_named_only_if_it_is_hardly_chance(
    shares: tuple[Share, ...],
) -> None:
    assert Cause.LARGE_WRITES not in dict(causes({TAIL: 3}, sized(*shares)))


def test_losses_in_windows_of_one_kind_are_said_to_be() -> None:
    shape = replace(
        END,
        by_window=(
            WindowShare(TaskKind.TRUNCATE, tasks=5, hit=3, acked=100, lost=40),
            WindowShare(TaskKind.CHECKPOINT, tasks=45, hit=0, acked=3000, lost=0),
        ),
    )
    found = diagnose_losses({HOLE: 40}, shape, (), (), page_cache_kept=False)
    assert found[0].cause is Cause.WINDOW
    assert found[0].reason == (
        "only operations acked during truncate lost something: 40 of 100, in 3 of 5"
        " tasks, and none of 3,000 during others"
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param((5, 1, 100, 40), (45, 0, 3000, 0), id="one window"),
        pytest.param((5, 3, 900, 40), (45, 0, 100, 0), id="most operations"),
        pytest.param((40, 3, 100, 40), (5, 0, 3000, 0), id="most tasks"),
        pytest.param((5, 3, 100, 40), (45, 1, 3000, 1), id="two kinds"),
        pytest.param((5, 0, 100, 0), (45, 0, 3000, 0), id="nothing dated"),
    ],
)
def test_a_window_is_named_only_if_it_is_hardly_chance(
    one: tuple[int, int, int, int], other: tuple[int, int, int, int]
) -> None:
    windows = (
        WindowShare(TaskKind.TRUNCATE, *one),
        WindowShare(TaskKind.CHECKPOINT, *other),
    )
    shape = replace(END, by_window=windows)
    assert Cause.WINDOW not in dict(causes({HOLE: 40}, shape))


def test_wrong_rows_in_one_of_several_tables_are_said_to_be() -> None:
    shape = replace(NO_SHAPE, by_table={"ledger": 0, "register": 5})
    found = diagnose_losses({LossKind.STALE: 5}, shape, (), (), page_cache_kept=False)
    assert found[0].reason.endswith("every loss is in the table register")
    for by_table in ({"ledger": 5}, {"ledger": 2, "register": 3}):
        shape = replace(NO_SHAPE, by_table=by_table)
        (one,) = diagnose_losses({TORN: 5}, shape, (), (), page_cache_kept=False)
        assert "table register" not in one.reason
        assert "every loss" not in one.reason


def test_rows_of_earlier_runs_have_no_shape() -> None:
    """Only how many are gone is known of them."""
    off = setting("fsync", "off")
    assert causes({HOLE: 4}, NO_SHAPE) == []
    assert causes({HOLE: 4}, NO_SHAPE, off) == [(Cause.SETTING, 4)]


def test_nodes_that_differ_are_explained_by_a_setting_or_by_replication() -> None:
    late = setting("innodb_flush_log_at_trx_commit", "2")
    counts = {LossKind.DIVERGED: 9}
    assert causes(counts, NO_SHAPE) == [(Cause.REPLICATION, 9)]
    assert causes(counts, NO_SHAPE, late) == [
        (Cause.SETTING, 9),
        (Cause.REPLICATION, 9),
    ]
    both = {TAIL: 212, **counts}
    assert causes(both, END, late)[0] == (Cause.SETTING, 221)
