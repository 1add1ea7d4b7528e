"""What looks through the load make of the evidence and of the diagnosis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dbcheck.judge.case import Case
from dbcheck.judge.cutmoment import explain_missing_date
from dbcheck.judge.flushes import judge_write_caches
from dbcheck.judge.item import Item, ItemId, Status
from dbcheck.judge.server import judge_same_settings, judge_same_tables
from dbcheck.judge.server_end import decide_how_server_ended, judge_not_shut_down
from dbcheck.judge.settings import collect_settings, collect_settings_at_depths
from dbcheck.judge.watched import LATE_S, judge_looks_during_load, places
from dbcheck.model.cut import Cut, Gone
from dbcheck.model.depth import Depth
from dbcheck.model.host import (
    WRITE_BACK,
    WRITE_THROUGH,
    HostBefore,
    Layer,
    ServerProcess,
)
from dbcheck.model.records import LoadRecord
from dbcheck.model.unobserved import Gap, GapClock, Observed
from dbcheck.model.watched import (
    CANARY,
    GONE,
    SEEN_MAX,
    THERE,
    Fact,
    FactKind,
    Looked,
    Watched,
    WatchTally,
    join_watched,
)
from tests.kit.cases import case, item, loaded
from tests.kit.host_samples import BEFORE, VOLUME
from tests.kit.samples import CLEAN, FACTS, MANIFEST

FSYNC = Fact(FactKind.SETTING, "fsync")
LOADED = Fact(FactKind.CHANGE_TIME, "configuration")
_PRESENT, _ABSENT = Status.PRESENT, Status.ABSENT
CUT_US = 10_000_000  # of cases.loaded()
BEGAN_US = 8_000_000
SAFE = {FSYNC: "on", CANARY: THERE, LOADED: "1"}


def watched(*looks: Looked, until_us: int = CUT_US - 100_000) -> Watched:
    """Return looks half a second apart, the last of them at *until_us*."""
    tally = WatchTally({FSYNC: "on"})
    for number, look in enumerate(looks, 1 - len(looks)):
        asked_us = until_us + number * 500_000
        tally.add(asked_us, look, asked_us + 1)
    return tally.watched()


def of_looks(*looks: Looked, **changed: Any) -> Case:
    load = loaded(
        watched=watched(*looks, **changed),
        settings=FACTS.settings,
        gone=Gone.SILENT,
        cut=Cut(9_000_000, None),
        began_us=BEGAN_US,
    )
    now = replace(FACTS, started_us=FACTS.started_us + 10**9)
    one = case(load=load, after={"facts": now, "canary": False})
    return replace(one, found=CLEAN)


def of_host(host: HostBefore, seen: Watched) -> Case:
    return case(host, load=loaded(host_watched=seen, began_us=BEGAN_US))


def flagged(load: LoadRecord) -> list[str]:
    one = collect_settings_at_depths(
        MANIFEST, load, [Depth.DRIVE], MANIFEST.writer_name, None
    )
    return [str(finding) for finding in one.at_fault(lost=True)]


def test_nothing_is_said_of_a_run_that_was_not_looked_at() -> None:
    assert judge_looks_during_load(case(load=loaded())) is None
    assert flagged(loaded()) == []


def test_what_never_changed_is_present() -> None:
    found = item(judge_looks_during_load, of_looks(SAFE, SAFE, SAFE))
    assert (found.id, found.status) == (ItemId.THROUGH_LOAD, Status.PRESENT)
    assert "3 times" in found.reason
    assert "0.1 s before the cut" in found.reason


@pytest.mark.parametrize(
    ("interval_us", "said"),
    [
        (310, "0.31 ms"),
        (48_300, "48 ms"),
        (506_000, "506 ms"),
        (1_240_000, "1.2 s"),
    ],
)
def test_the_time_between_looks_is_said_however_short_it_is(
    interval_us: int, said: str
) -> None:
    """Many sessions that each look now and then look often together."""
    tally = WatchTally({FSYNC: "on"})
    for number in range(3):
        at_us = BEGAN_US + number * interval_us
        tally.add(at_us, SAFE, at_us)
    one = of_looks(SAFE)
    assert one.load is not None
    one = replace(one, load=replace(one.load, sessions_watched=tally.watched()))
    reason = item(judge_looks_during_load, one).reason
    assert f"3 times, every {said} (at most {said} apart)" in reason


def test_an_unsafe_value_of_a_moment_is_at_fault() -> None:
    """Where it was safe at the audit, just before the cut and after it."""
    off = {**SAFE, FSYNC: "off"}
    one = of_looks(SAFE, off, off, SAFE)
    assert one.load is not None
    assert flagged(one.load) == ["fsync = off"]
    assert item(judge_same_settings, one).status is Status.CONTRADICTED
    found = item(judge_looks_during_load, one)
    assert found.status is Status.CONTRADICTED
    assert "from 1.1 s before the cut to 0.6 s before the cut" in found.reason


def test_an_unsafe_value_of_one_session_is_at_fault() -> None:
    """Where every session that only looks has a safe one."""
    tally = WatchTally({FSYNC: "on"})
    for at_us, value in ((1_000_000, "on"), (1_000_001, "off"), (1_000_002, "on")):
        tally.add(at_us, {FSYNC: value}, at_us + 1)
    one = of_looks(SAFE)
    assert one.load is not None
    one = replace(one, load=replace(one.load, sessions_watched=tally.watched()))
    assert one.load is not None
    assert flagged(one.load) == ["fsync = off"]
    assert item(judge_same_settings, one).status is Status.CONTRADICTED
    assert item(judge_looks_during_load, one).status is Status.CONTRADICTED
    assert collect_settings(one).item(kept=True).status is Status.ABSENT


def test_what_was_seen_otherwise_does_not_count_all_settings_as_compared() -> None:
    fact = Fact(FactKind.SETTING, "a setting of sessions alone")
    tally = WatchTally({fact: "on"})
    tally.add(1_000_000, {fact: "off"}, 1_000_001)
    one = of_looks(SAFE)
    assert one.load is not None
    compared = item(judge_same_settings, one).reason
    one = replace(one, load=replace(one.load, sessions_watched=tally.watched()))
    found = item(judge_same_settings, one)
    assert found.status is Status.ASSUMED
    assert found.reason == f"{compared}; not read each time: {fact.of}"


def test_sessions_that_commit_seldom_are_looked_at_whenever_they_do() -> None:
    tally = WatchTally({FSYNC: "on"})
    for at_us in (1_000_000, 9_000_000):
        tally.add(at_us, {FSYNC: "on"}, at_us + 1)
    one = of_looks(SAFE)
    assert one.load is not None
    one = replace(one, load=replace(one.load, sessions_watched=tally.watched()))
    assert item(judge_looks_during_load, one).status is _PRESENT


def test_what_several_processes_saw_is_told_as_one() -> None:
    off, both = {**SAFE, FSYNC: "off"}, None
    for looks, until_us in (((SAFE, off), 5_000_000), ((off, SAFE, off), 9_000_000)):
        both = join_watched(both, watched(*looks, until_us=until_us))
    assert both is not None
    assert (both.looks, both.first_us, both.last_us) == (5, 4_500_000, 9_000_000)
    (seen,) = both.of(FactKind.SETTING)
    assert (seen.looks, seen.first_us, seen.last_us) == (3, 5_000_000, 9_000_000)
    assert join_watched(both, None) == join_watched(None, both) == both


def test_what_several_clients_saw_is_no_denser_than_it_was() -> None:
    """Nobody looked between the last look of one and the first of the other."""
    one, other = (
        watched(SAFE, SAFE, until_us=at_us) for at_us in (1_500_000, CUT_US - 100_000)
    )
    for both in (join_watched(one, other), join_watched(other, one)):
        assert both is not None
        assert both.gap_us == both.find_longest_gap_us(CUT_US) == 7_900_000
        assert both.find_last_look_before(2_000_000) <= 1_500_000


def test_connections_of_several_clients_count_together() -> None:
    tally = WatchTally(SAFE)
    for there_us, asked_us in ((1, 2), (7_000_000, 8_000_000)):
        tally.connected(there_us)
        tally.add(asked_us, SAFE, asked_us + 1)
    undated = watched(SAFE, SAFE, until_us=5_000_000)
    both = join_watched(tally.watched(), undated)
    assert both is not None
    assert both.connections == ((1, 2), (4_500_000, 5_000_000), (7_000_000, 8_000_000))
    assert [both.lived_us(at_us) for at_us in (3, 6_000_000, CUT_US)] == [
        2,
        5_000_000,
        8_000_000,
    ]


def test_answers_of_several_sessions_may_come_in_another_order_than_they_asked() -> (
    None
):
    tally = WatchTally({FSYNC: "on"})
    for asked_us, value in ((20, "off"), (90, "on"), (30, "off"), (10, "off")):
        tally.add(asked_us, {FSYNC: value}, 100)
    found = tally.watched()
    assert (found.looks, found.first_us, found.last_us) == (4, 10, 90)
    assert (found.gap_us, found.gaps) == (70, ((20, 90),))
    (seen,) = found.seen
    assert (seen.value, seen.looks, seen.first_us, seen.last_us) == ("off", 3, 10, 30)


LOOKS_US = (0, 30, 31, 40, 65, 66, 100)


@pytest.mark.parametrize("connected", [(), (0, 66), (0, 31, 65, 90)])
def test_no_look_before_a_moment_seems_later_than_it_was(
    connected: tuple[int, ...],
) -> None:
    """Also where it lies in a gap that was shorter than one before, so is not kept."""
    tally = WatchTally({})
    for asked_us in LOOKS_US:
        if there := [at for at in connected if asked_us - 10 <= at <= asked_us]:
            tally.connected(max(there))
        tally.add(asked_us, SAFE, asked_us + 1)
    found = tally.watched()
    assert found.gaps == ((0, 30), (66, 100))
    for until_us in range(120):
        last_us = max(at for at in LOOKS_US if at <= until_us)
        assert found.find_last_look_before(until_us) <= last_us
        assert until_us - found.find_last_look_before(until_us) <= 34


def test_a_connection_that_ended_shows_its_last_look() -> None:
    tally = WatchTally({})
    for there_us, *asked in ((0, 1, 30, 31), (50, 51)):
        tally.connected(there_us)
        for asked_us in asked:
            tally.add(asked_us, SAFE, asked_us + 1)
    assert tally.watched().find_last_look_before(45) == 31


def test_a_canary_may_have_gone_in_a_gap_that_is_not_kept() -> None:
    tally = WatchTally(SAFE)
    for at_us in (0, 8_000_000, 15_000_000):
        tally.add(at_us, SAFE, at_us + 1)
    load = loaded(watched=tally.watched(), settings=FACTS.settings)
    one = replace(case(load=load, after={"canary": False}), found=CLEAN)
    assert not decide_how_server_ended(one).crashed
    dense = replace(load, watched=watched(*[SAFE] * 20, until_us=15_000_000))
    assert decide_how_server_ended(replace(one, load=dense)).crashed


@pytest.mark.parametrize(
    ("there_us", "is_at_fault"),
    [(9_400_000, True), (9_600_000, False)],
    ids=["connected before the last ack", "connected after it"],
)
def test_a_server_that_may_have_started_again_is_not_that_of_the_load(
    there_us: int, is_at_fault: bool
) -> None:
    """Where nothing dates the cut, a look may be at either."""
    tally = WatchTally(SAFE)
    for connected_us, asked_us, value in (
        (1_000_000, 2_000_000, "on"),
        (there_us, 9_900_000, "off"),
    ):
        tally.connected(connected_us)
        tally.add(asked_us, {**SAFE, FSYNC: value}, asked_us + 1)
    one = of_looks()
    assert one.load is not None
    load = replace(one.load, watched=tally.watched(), cut_failed="interrupted")
    one = replace(one, load=load)
    assert explain_missing_date(one)
    assert bool(collect_settings(one).at_fault(lost=True)) is is_at_fault
    found = [
        item(each, one).status
        for each in (judge_same_settings, judge_looks_during_load)
    ]
    assert (Status.CONTRADICTED in found) is is_at_fault


@pytest.mark.parametrize(
    ("fact", "judged", "status"),
    [
        (CANARY, judge_not_shut_down, Status.NOT_OBSERVABLE),
        (Fact(FactKind.TABLE, "ledger"), judge_same_tables, Status.CONTRADICTED),
        (
            Fact(FactKind.TABLE_VERSION, "ledger"),
            judge_same_tables,
            Status.CONTRADICTED,
        ),
        (LOADED, judge_looks_during_load, Status.ASSUMED),
    ],
    ids=lambda each: each.kind.value if isinstance(each, Fact) else "",
)
def test_no_look_at_a_server_that_may_have_started_again_counts(
    fact: Fact, judged: Callable[[Case], Item | None], status: Status
) -> None:
    """Its canary is gone by the cut, and so may a table be, or what it counts."""
    safe = {fact: THERE}
    for there_us, counts in ((9_400_000, True), (9_600_000, False)):
        tally = WatchTally(safe)
        tally.connected(1_000_000)
        tally.add(9_300_000, safe, 9_300_001)
        tally.connected(there_us)
        tally.add(9_900_000, {fact: GONE}, 9_900_001)
        one = of_looks()
        assert one.load is not None
        load = replace(one.load, watched=tally.watched(), cut_failed="interrupted")
        one = replace(one, load=load)
        assert explain_missing_date(one)
        assert (item(judged, one).status is status) is counts


def test_sessions_show_settings_of_the_load_wherever_the_cut_came() -> None:
    off = watched({FSYNC: "on"}, {FSYNC: "off"}, until_us=9_000_000)
    load = loaded(sessions_watched=off)
    assert load.settings_seen(None) == load.settings_seen(CUT_US) == [("fsync", "off")]


def test_a_server_that_was_first_reached_after_the_last_ack_shows_nothing() -> None:
    tally = WatchTally(SAFE)
    tally.connected(9_600_000)
    tally.add(9_700_000, {**SAFE, FSYNC: "off"}, 9_700_001)
    load = loaded(watched=tally.watched())
    assert load.settings_seen(CUT_US) == [("fsync", "off")]
    assert load.settings_seen(None) == []


def test_a_value_that_was_first_seen_after_the_cut_is_not_of_the_load() -> None:
    """A server that is up again has lost what was set for a while, or been changed."""
    tally, off = WatchTally(SAFE), {**SAFE, FSYNC: "off"}
    tally.add(CUT_US - 100_000, SAFE, CUT_US - 90_000)
    tally.add(CUT_US + 1, off, CUT_US + 2)
    one = of_looks()
    assert one.load is not None
    one = replace(one, load=replace(one.load, watched=tally.watched()))
    assert not collect_settings(one).at_fault(lost=True)
    assert item(judge_same_settings, one).status is _PRESENT


def test_looks_that_all_came_after_the_cut_show_nothing_of_the_load() -> None:
    """What the first of them found was not known before."""
    tally = WatchTally({FSYNC: "on", CANARY: THERE})
    tally.add(CUT_US + 1, SAFE, CUT_US + 2)
    one = of_looks()
    assert one.load is not None
    one = replace(one, load=replace(one.load, watched=tally.watched()))
    assert item(judge_looks_during_load, one).status is Status.ASSUMED
    assert not decide_how_server_ended(one).crashed, (
        "its canary may have been gone before"
    )


def test_a_control_changes_settings_itself() -> None:
    one = of_looks(SAFE, {**SAFE, FSYNC: "off"})
    one = replace(one, manifest=replace(one.manifest, control=True))
    assert item(judge_looks_during_load, one).status is not Status.CONTRADICTED


@pytest.mark.parametrize(
    ("looks", "until_us"),
    [
        ((SAFE, {**SAFE, LOADED: "2"}, SAFE), CUT_US),
        ((SAFE, SAFE), CUT_US - int(LATE_S * 1e6) - 1),
    ],
    ids=["a reload between two looks", "no look for a long time"],
)
def test_what_may_have_changed_unseen_is_assumed_not_to_have(
    looks: tuple[Looked, ...], until_us: int
) -> None:
    found = item(judge_looks_during_load, of_looks(*looks, until_us=until_us))
    assert found.status is Status.ASSUMED


@pytest.mark.parametrize(
    ("late_us", "status"),
    [(0, Status.PRESENT), (int(LATE_S * 1e6) + 1, Status.ASSUMED)],
)
def test_a_load_that_began_before_the_first_look_was_not_looked_at_then(
    late_us: int, status: Status
) -> None:
    one = of_looks(SAFE)
    assert one.load is not None and one.load.watched is not None
    load = replace(one.load, began_us=one.load.watched.first_us - late_us)
    assert item(judge_looks_during_load, replace(one, load=load)).status is status


def test_a_client_that_stood_still_dates_no_look() -> None:
    """What it read of the cut afterwards has no known age: the item says so itself."""
    one = of_looks(SAFE, SAFE, SAFE)
    gap = Gap(CUT_US - 3_000_000, CUT_US, 3_000_000, GapClock.MONOTONIC)
    assert one.load is not None
    load = replace(one.load, observed=(Observed(CUT_US, (gap,)),), last_ack_us=CUT_US)
    one = replace(one, load=load)
    assert explain_missing_date(one)
    assert explain_missing_date(one) in item(judge_looks_during_load, one).reason


def test_what_was_never_looked_at_is_assumed_and_says_why() -> None:
    one = of_looks()
    assert one.load is not None
    never = replace(one.load, watched=WatchTally({}).watched("too many connections"))
    found = item(judge_looks_during_load, replace(one, load=never))
    assert found.status is Status.ASSUMED
    assert "too many connections" in found.reason


def test_a_mount_without_barriers_of_a_moment_is_at_fault() -> None:
    barriers = Fact(FactKind.MOUNT, "/")
    tally = WatchTally({barriers: "rw,relatime"})
    tally.add(1, {barriers: "rw,relatime,barrier=0"}, 1)
    one = of_host(BEFORE, tally.watched())
    found = collect_settings(one).at_fault(lost=True)
    assert [finding.rule.id for finding in found] == ["fs-barrier"]
    assert item(judge_looks_during_load, one).status is Status.CONTRADICTED


@pytest.mark.parametrize("at", ["/dev/shm/w (tmpfs 0:25)", ""])
def test_a_place_that_lay_elsewhere_for_a_time_has_no_known_depth(at: str) -> None:
    wal = Fact(FactKind.PLACE, "WAL")
    tally = WatchTally({wal: "/d/pg_wal (xfs 7:2)"})
    for at_us, where in ((1, at), (2, at), (3, "/d/pg_wal (xfs 7:2)")):
        tally.add(at_us, {wal: where}, at_us)
    one = of_host(BEFORE, tally.watched())
    assert [(seen.of, seen.looks) for seen in one.strayed] == [("WAL", 2)]
    assert item(judge_looks_during_load, one).status is Status.CONTRADICTED
    found = item(places, one)
    assert found.status is Status.CONTRADICTED
    assert at in found.reason and "2 looks" in found.reason


@pytest.mark.parametrize(
    ("answered_us", "status"),
    [(9_499_999, Status.CONTRADICTED), (9_500_000, Status.PRESENT)],
    ids=["before the last ack", "after it"],
)
def test_what_the_cut_takes_off_a_host_that_runs_on_contradicts_nothing(
    answered_us: int, status: Status
) -> None:
    """A look that is asked for before the cut may be answered after it."""
    mount = Fact(FactKind.MOUNT, "/")
    tally = WatchTally({mount: "rw,relatime"})
    tally.add(8_000_000, {mount: "rw,relatime"}, 8_000_001)
    tally.add(9_400_000, {mount: ""}, answered_us)
    found = item(judge_looks_during_load, of_host(BEFORE, tally.watched()))
    assert found.status is status


def test_the_drive_of_a_lab_is_gone_from_when_its_cut_is_asked_for() -> None:
    mount = Fact(FactKind.MOUNT, "/")
    tally = WatchTally({mount: "rw,relatime"})
    tally.add(8_900_000, {mount: ""}, 9_000_000)
    one = of_host(BEFORE, tally.watched())
    in_lab = replace(one, manifest=replace(one.manifest, lab={"cut": "drive"}))
    assert item(judge_looks_during_load, one).status is Status.CONTRADICTED
    assert item(judge_looks_during_load, in_lab).status is Status.PRESENT


@pytest.mark.parametrize("back_us", [9_500_001, 18_500_000])
def test_a_host_that_is_up_again_shows_nothing_of_the_load(back_us: int) -> None:
    """A reset host boots within the silence, with other caches and mount options."""
    drive = Layer("sda", "disk", "", "", "", WRITE_BACK, "0", ())
    volume = replace(VOLUME, layers=(drive,))
    host = replace(BEFORE, facts=replace(BEFORE.facts, volumes=(volume,)))
    cache, mount = Fact(FactKind.WRITE_CACHE, "sda"), Fact(FactKind.MOUNT, "/")
    before = {cache: WRITE_BACK, mount: "rw"}
    tally = WatchTally(before)
    for at_us in range(1_000_000, 9_500_000, 500_000):
        tally.add(at_us, before, at_us + 1)
    booted = {cache: WRITE_THROUGH, mount: "rw,nobarrier"}
    tally.add(back_us, booted, back_us + 1)
    one = of_host(host, tally.watched())
    assert item(judge_looks_during_load, one).status is _PRESENT
    assert item(judge_write_caches, one).status is _PRESENT
    assert not collect_settings(one).at_fault(lost=True)


def test_a_server_that_is_up_again_was_looked_at_until_its_cut() -> None:
    tally, back_us = WatchTally(SAFE), CUT_US + 9_000_000
    tally.connected(8_900_000)
    for at_us in (9_000_000, 9_400_000):
        tally.add(at_us, {**SAFE, LOADED: "1"}, at_us + 1)
    tally.connected(back_us - 1)
    tally.add(back_us, {**SAFE, LOADED: "2"}, back_us + 1)
    one = of_looks()
    assert one.load is not None
    one = replace(one, load=replace(one.load, watched=tally.watched()))
    assert item(judge_looks_during_load, one).status is _PRESENT


def test_a_long_time_without_a_look_before_the_last_ack_counts() -> None:
    tally = WatchTally(SAFE)
    for at_us in (1_000_000, 7_000_000, 9_400_000, CUT_US + 9_000_000):
        tally.connected(at_us - 1)
        tally.add(at_us, SAFE, at_us + 1)
    one = of_looks()
    assert one.load is not None
    one = replace(one, load=replace(one.load, watched=tally.watched()))
    assert item(judge_looks_during_load, one).status is Status.ASSUMED


def test_a_volatile_drive_that_was_sent_no_flush_for_a_moment_counts() -> None:
    drive = Layer("sda", "disk", "", "", "", WRITE_BACK, "0", ())
    volume = replace(VOLUME, layers=(drive,))
    host = replace(BEFORE, facts=replace(BEFORE.facts, volumes=(volume,)))
    tally, cache = WatchTally({}), Fact(FactKind.WRITE_CACHE, "sda")
    tally.add(1, {cache: WRITE_BACK}, 1)
    assert item(judge_write_caches, of_host(host, tally.watched())).status is _PRESENT
    tally.add(2, {cache: WRITE_THROUGH}, 2)
    tally.add(3, {cache: WRITE_BACK}, 3)
    assert item(judge_write_caches, of_host(host, tally.watched())).status is _ABSENT


@pytest.mark.parametrize(
    ("looks", "until_us", "shows"),
    [
        ((SAFE, SAFE), CUT_US, True),
        ((SAFE, {**SAFE, CANARY: GONE}), CUT_US - 1, False),
        ((SAFE, {**SAFE, CANARY: GONE}), CUT_US + 1, True),
        ((SAFE, SAFE), CUT_US - int(LATE_S * 1e6) - 1, False),
        (({FSYNC: "on"},), CUT_US, True),
        ((), CUT_US, False),
    ],
    ids=[
        "there",
        "gone before",
        "gone after",
        "not looked at for long",
        "held by a session",
        "never looked at",
    ],
)
def test_a_canary_that_was_gone_before_the_cut_shows_nothing(
    looks: tuple[Looked, ...], until_us: int, shows: bool
) -> None:
    one = of_looks(*looks, until_us=until_us)
    assert decide_how_server_ended(one).crashed is shows
    assert (judge_not_shut_down(one).status is Status.PRESENT) is shows


def test_a_row_that_is_there_after_the_cut_shows_a_shutdown_all_the_same() -> None:
    one = of_looks(SAFE, {**SAFE, CANARY: GONE})
    one = replace(one, after=replace(one.after, canary=True))
    assert decide_how_server_ended(one).canary is True


def test_the_values_that_are_kept_have_a_bound() -> None:
    looks = [{**SAFE, FSYNC: str(number)} for number in range(2 * SEEN_MAX)]
    assert len(watched(*looks).seen) == SEEN_MAX


@pytest.mark.parametrize(
    ("changed", "rule"),
    [
        ({"replaced": {"/lib/libeatmydata.so": ("fsync",)}}, "host-flush-replaced"),
        ({"no_sync": "--debug-no-sync"}, "host-no-sync-option"),
        ({"preloaded": ("libjemalloc.so",)}, None),
        ({"unread": "Permission denied"}, None),
        ({"no_sync_unread": "Permission denied"}, None),
        ({}, None),
    ],
)
def test_a_process_that_leaves_flushes_out_is_at_fault(
    changed: dict[str, Any], rule: str | None
) -> None:
    process = replace(ServerProcess("", (), {}, ""), **changed)
    host = replace(BEFORE, facts=replace(BEFORE.facts, process=process))
    one = case(host, load=loaded())
    found = collect_settings(one).at_fault(lost=True)
    assert [finding.rule.id for finding in found] == ([rule] if rule else [])
