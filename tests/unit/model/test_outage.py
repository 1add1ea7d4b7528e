"""The time to recover: from which ack to which, and when no figure is given."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dbcheck.model.cluster import ONLY_NODE
from dbcheck.model.cut import Cut
from dbcheck.model.outage import (
    INTERRUPTED,
    NO_RECORD,
    P95_CUTS_MIN,
    OutageRecord,
    OutageResult,
    ProbeAck,
    Probed,
    measure_outage,
    sum_up_outages,
)
from dbcheck.model.records import RestoreRecord
from dbcheck.model.replication import PromotedBy, Promotion
from tests.kit.client_clocks import LATER, clocks
from tests.kit.nodes import after_of, having
from tests.kit.stored_run import load_record, manifest

LAST_US = load_record().last_ack_us or 0
S = 10**6


def ack(
    at_s: float,
    tried_s: float | None = None,
    *,
    seq: int = 1,
    lasted: bool = True,
    waited_s: float = 0.001,
) -> ProbeAck:
    """Return an ack *at_s* seconds after the last one of the load."""
    tried_us = None if tried_s is None else LAST_US + int(tried_s * S)
    at_us = LAST_US + int(at_s * S)
    sent_us = at_us - int(waited_s * S)
    return ProbeAck(seq, tried_us, sent_us - 1000, sent_us, at_us, lasted)


def probed(*acks: ProbeAck, target: str = "postgresql://u@h/d", **more: Any) -> Probed:
    """Return tries at a node's own address."""
    return Probed(target, **{"node": ONLY_NODE, "acks": acks, **more})


def record(*addresses: Probed, **changed: Any) -> OutageRecord:
    made = OutageRecord(LAST_US + S // 10, LATER, addresses)
    return replace(made, **changed)


def measured(found: OutageRecord | None, **changed: Any) -> OutageResult:
    """Return what is measured of a run; changed: of what measure_outage() takes."""
    values: dict[str, Any] = {
        "manifest": manifest(),
        "load": load_record(),
        "restore": RestoreRecord({ONLY_NODE: None}),
        "after": after_of(),
    }
    result = measure_outage(found, **(values | changed))
    assert result is not None
    return result


def test_the_time_runs_from_the_last_ack_to_the_first_that_lasted() -> None:
    result = measured(record(probed(ack(4.2, 4.1), ack(5.0, 4.2))))
    assert (result.seconds, result.least_s, result.why) == (4.2, 4.1, "")
    assert result.spread_s == pytest.approx(0.1)


def test_an_answer_that_did_not_last_is_no_recovery() -> None:
    """An old writer that nothing keeps off answers at once."""
    old = probed(ack(0.2, lasted=False), ack(0.5, 0.2, lasted=False), target="old")
    new = probed(ack(6.0, 5.8), target="new")
    result = measured(record(old, new))
    assert (result.seconds, result.by) == (6.0, "new")
    assert result.not_lasting == {"old": 2}
    assert result.acked == 3


def test_one_address_that_led_to_the_old_writer_first_is_no_recovery_yet() -> None:
    acks = (ack(0.2, lasted=False), ack(3.0, 2.5, seq=2))
    result = measured(record(probed(*acks)))
    assert (result.seconds, result.least_s) == (3.0, 2.5)


def test_of_several_addresses_a_client_needs_the_first() -> None:
    first, second = probed(ack(4.0, 3.9), target="a"), probed(ack(4.1, 3.7), target="b")
    result = measured(record(first, second))
    assert (result.seconds, result.least_s, result.by) == (4.0, 3.7, "a")


def test_a_commit_that_had_to_wait_shows_the_moment_of_its_answer() -> None:
    result = measured(record(probed(ack(6.5, 0.1, waited_s=6.3))))
    assert (result.seconds, result.least_s) == (6.5, 6.5)


def test_at_the_address_of_clients_it_shows_the_moment_when_it_was_sent() -> None:
    """It may have waited at the old writer, and a new connection led to the new one."""
    found = record(probed(ack(9.0, 1.0, waited_s=5.0), node=""))
    assert measured(found).least_s == 4.0


def test_an_answer_to_the_first_try_is_a_bound_alone() -> None:
    result = measured(record(probed(ack(4.0))))
    assert (result.seconds, result.least_s, result.spread_s) == (4.0, None, None)


def test_the_parts_are_without_power_the_wait_for_the_promotion_and_the_rest() -> None:
    promotion = Promotion(PromotedBy.SQL, {}, asked_us=LAST_US + 7 * S)
    result = measured(
        record(probed(ack(9.0, 8.9))),
        restore=RestoreRecord({ONLY_NODE: 5.0}),
        after=after_of(promotion=promotion),
    )
    parts = (result.power_off_s, result.promotion_s, result.recovering_s)
    assert parts == (5.0, 2.0, 2.0)


def test_a_person_who_cut_has_the_time_until_the_power_was_back() -> None:
    cut = Cut(None, None)
    result = measured(
        record(probed(ack(90.0, 89.0)), restored_us=LAST_US + 80 * S),
        load=having(load_record(), cut=cut),
    )
    assert result.by_hand
    assert (result.power_off_s, result.recovering_s) == (80.0, 10.0)


SLEPT = replace(LATER, boot_us=LATER.boot_us + 3 * S)
GOOD = record(probed(ack(4.2, 4.1)))


@pytest.mark.parametrize(
    ("found", "changed", "why"),
    [
        (None, {}, NO_RECORD),
        (GOOD, {"load": None}, INTERRUPTED),
        (OutageRecord(not_begun="no table"), {}, "no table"),
        (replace(GOOD, began_us=None), {}, INTERRUPTED),
        (replace(GOOD, unread="it broke"), {}, "it broke"),
        (GOOD, {"load": having(load_record(), cut=None)}, "no cut of the power"),
        (
            GOOD,
            {"load": having(load_record(), last_ack_us=None)},
            "no commit was acknowledged before",
        ),
        (GOOD, {"manifest": replace(manifest(), own_clocks=True)}, "other machines"),
        (replace(GOOD, ended=SLEPT), {}, "stood still for 3.0 s"),
        (replace(GOOD, ended=clocks(90 * S, boot="c2")), {}, "cannot be compared"),
    ],
)
def test_without_a_sound_figure_there_is_the_reason(
    found: OutageRecord | None, changed: dict[str, Any], why: str
) -> None:
    result = measured(found, **changed)
    assert result.seconds is None
    assert why in result.why


def test_without_a_lasting_answer_it_took_longer_than_the_newest_try_shows() -> None:
    tried_us = LAST_US + 30 * S
    result = measured(record(probed(error="it is in recovery", tried_us=tried_us)))
    assert (result.seconds, result.least_s) == (None, 30.0)
    assert result.why == "no commit was answered after the cut; it is in recovery"
    lost = measured(record(probed(ack(1, lasted=False), tried_us=tried_us)))
    assert "none of the 1 commits that were answered" in lost.why


def test_a_control_has_no_time_to_recover() -> None:
    control = replace(manifest(), control=True)
    made = (control, load_record(), None, after_of())
    assert measure_outage(GOOD, *made) is None


def test_rows_show_which_answers_lasted_by_address_and_try() -> None:
    first = probed(replace(ack(1), seq=1), replace(ack(2), seq=2), target="a")
    second = probed(replace(ack(3), seq=1), target="b")
    found = record(first, second, unread="x").with_rows([(0, 2), (1, 1)])
    assert [[one.lasted for one in each.acks] for each in found.probed] == [
        [False, True],
        [True],
    ]
    assert not found.unread


def test_a_95th_percentile_needs_sixty_cuts() -> None:
    few = sum_up_outages([1.0] * (P95_CUTS_MIN - 1))
    assert few is not None and few.p95_s is None
    times = [float(n) for n in range(1, 101)]
    many = sum_up_outages(times[::-1], not_lasting=3)
    assert many is not None
    assert (many.measured, many.median_s, many.max_s) == (100, 50.5, 100.0)
    assert (many.p95_s, many.not_lasting) == (95.0, 3)
    sixty = sum_up_outages([1.0] * 57 + [2.0, 3.0, 4.0])
    assert sixty is not None and sixty.p95_s == 1.0
    assert sum_up_outages([]) is None


def test_a_cut_after_which_nothing_lasted_counts_as_longer_than_all() -> None:
    """Left out, the slowest cuts would make the figures better."""
    found = sum_up_outages([1.0, 2.0, 3.0], [16.4])
    assert found is not None
    assert (found.median_s, found.max_s) == (2.5, None)
    assert (found.measured, found.longer, found.longer_s) == (3, 1, 16.4)
    none = sum_up_outages([1.0], [16.4, 20.0])
    assert none is not None and none.median_s is None
    most = sum_up_outages([1.0] * 57 + [2.0], [16.4] * 4)
    assert most is not None and most.p95_s is None and most.median_s == 1.0
