"""Cuts of drives alone: each item of evidence, and facts that contradict it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dbcheck.judge import driveonly
from dbcheck.judge import host as host_items
from dbcheck.judge.absence import Absence, judge_absence
from dbcheck.judge.case import Case
from dbcheck.judge.cutmoment import (
    explain_missing_date,
    find_cut_us,
    find_last_canary_write_us,
    find_latest_cut_us,
)
from dbcheck.judge.item import Item, ItemId, Status
from dbcheck.judge.judge import list_evidence
from dbcheck.judge.load_and_witness import judge_load_at_the_cut
from dbcheck.judge.server_end import Ended, judge_end
from dbcheck.judge.timeoff import judge_time_off
from dbcheck.model.cluster import ONLY_NODE
from dbcheck.model.cut import (
    Cut,
    CutClass,
    CutDrive,
    DriveCut,
    Gone,
    PowerScope,
    Remounted,
)
from dbcheck.model.depth import (
    Completed,
    Counted,
    Depth,
    DepthFinding,
    Remains,
    Ring,
    Tally,
)
from dbcheck.model.host import HostAfter
from dbcheck.model.records import RestoreRecord
from tests.kit.cases import case, loaded
from tests.kit.host_samples import BEFORE, FACTS, VOLUME, after

MOUNT = Remounted("/", "xfs", "s1", True, False, "", "sdb")
SEEN = DriveCut(
    drives={"s1": CutDrive(("sda",), True, ("sdb",))},
    mounts=(MOUNT,),
    gone_us=9_800_000,
    killed=(7, 8),
    left=(),
)
SWITCHED = Cut(9_000_000, None)
COUNTED = replace(VOLUME.drives[0], name="sdb", unsafe_shutdowns=8, power_cycles=10)


def back(**changed: Any) -> HostAfter:
    """Return what a host reports that kept running, of a drive that came back."""
    drive = replace(COUNTED, **changed)
    volume = replace(VOLUME, drives=(drive,))
    return after(boot_id="b1", volumes=(volume,))


def cut(
    seen: DriveCut | None = SEEN, host: HostAfter | None = None, **changed: Any
) -> Case:
    """Return a case of drives alone that were cut by a switch."""
    changed = {"load": loaded(), "cut_class": CutClass.DC_RAIL, **changed}
    judged = case(BEFORE, host or back(), scope=PowerScope.DRIVE, **changed)
    drives = {} if seen is None else {ONLY_NODE: seen}
    return replace(judged, restore=RestoreRecord({ONLY_NODE: 15.0}, drives))


def items(judged: Case) -> dict[ItemId, Item]:
    return {item.id: item for item in list_evidence(judged)}


OWN = (
    ItemId.DRIVES_GONE,
    ItemId.POWER_CYCLES,
    ItemId.SERVER_KILLED,
    ItemId.MOUNTED_ANEW,
    ItemId.PLACES_CUT,
)


def test_drives_that_went_and_came_back_under_a_running_host() -> None:
    found = items(cut())
    for name in OWN:
        assert found[name].status is Status.PRESENT, found[name].reason
        assert found[name].required
    assert ItemId.HOST_DOWN not in found, "its boot_id is expected to stay"
    assert found[ItemId.UNSAFE_SHUTDOWNS].status is Status.PRESENT
    assert "came back as sdb" in found[ItemId.DRIVES_GONE].reason


def test_none_of_them_is_about_a_host_that_is_cut() -> None:
    found = items(case(BEFORE, after(), load=loaded()))
    assert not found.keys() & set(OWN)
    assert found[ItemId.HOST_DOWN]


def test_a_host_that_kept_running_contradicts_a_cut_of_the_host() -> None:
    found = items(case(BEFORE, back(), load=loaded()))
    assert found[ItemId.HOST_DOWN].status is Status.CONTRADICTED


@pytest.mark.parametrize(
    ("seen", "name", "status", "said"),
    [
        pytest.param(
            replace(SEEN, drives={"s1": CutDrive(("sda",), False, ("sda",))}),
            ItemId.DRIVES_GONE,
            Status.ABSENT,
            "never saw sda",
            id="never gone",
        ),
        pytest.param(
            replace(SEEN, drives={"s1": CutDrive(("sda",), True, ())}),
            ItemId.DRIVES_GONE,
            Status.CONTRADICTED,
            "no drive with the serial",
            id="another serial came back",
        ),
        pytest.param(
            None,
            ItemId.DRIVES_GONE,
            Status.NOT_OBSERVABLE,
            "not on record",
            id="no record",
        ),
        pytest.param(
            replace(SEEN, left=(8,)),
            ItemId.SERVER_KILLED,
            Status.CONTRADICTED,
            "processes 8 still ran",
            id="the server ran on",
        ),
        pytest.param(
            replace(SEEN, mounts=(replace(MOUNT, taken_off=False),)),
            ItemId.MOUNTED_ANEW,
            Status.CONTRADICTED,
            "never off",
            id="mounted from before",
        ),
        pytest.param(
            replace(SEEN, mounts=(replace(MOUNT, mounted_on=""),), failure="torn"),
            ItemId.MOUNTED_ANEW,
            Status.ABSENT,
            "not mounted again: torn",
            id="not mounted again",
        ),
        pytest.param(
            replace(SEEN, mounts=(replace(MOUNT, point="/other"),)),
            ItemId.MOUNTED_ANEW,
            Status.NOT_OBSERVABLE,
            "/ was not among",
            id="another filesystem",
        ),
        pytest.param(
            replace(SEEN, drives={"s2": CutDrive(("sdc",), True, ("sdc",))}),
            ItemId.PLACES_CUT,
            Status.ABSENT,
            "kept the power of sda",
            id="a place on another drive",
        ),
    ],
)
def test_a_fact_that_is_not_so(
    seen: DriveCut | None, name: ItemId, status: Status, said: str
) -> None:
    item = items(cut(seen))[name]
    assert item.status is status
    assert item.required
    assert said in item.reason


def test_a_host_that_was_booted_anew_was_not_cut_so() -> None:
    item = items(cut(host=after(boot_id="b2")))[ItemId.DRIVES_GONE]
    assert item.status is Status.CONTRADICTED
    assert "another boot_id" in item.reason


def test_counters_that_did_not_rise_show_a_link_or_a_reset() -> None:
    found = items(cut(host=back(power_cycles=9)))
    assert found[ItemId.POWER_CYCLES].status is Status.CONTRADICTED
    unread = items(cut(host=back(power_cycles=None)))
    assert unread[ItemId.POWER_CYCLES].status is Status.ASSUMED


def test_a_drive_that_was_shut_down_first_needs_its_cache_seen_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = cut(host=back(unsafe_shutdowns=7))
    item = host_items.judge_unsafe_shutdowns(told)
    assert item is not None
    assert (item.status, item.required) == (Status.ABSENT, True)
    none = Tally(0, 0, 0)
    lost = DepthFinding(Depth.DRIVE, none, none, ("lost",))
    monkeypatch.setattr(Case, "depth", lost)
    seen = host_items.judge_unsafe_shutdowns(cut(host=back(unsafe_shutdowns=7)))
    assert seen is not None
    assert not seen.required


def test_a_place_that_was_not_inspected_may_have_kept_its_power() -> None:
    facts = replace(FACTS, unseen={"WAL": "no such directory"})
    before = replace(BEFORE, facts=facts)
    judged = replace(cut(), manifest=case(before, scope=PowerScope.DRIVE).manifest)
    item = driveonly.judge_places_cut(judged)
    assert item is not None
    assert item.status is Status.NOT_OBSERVABLE


def test_acks_without_a_drive_are_named() -> None:
    load = loaded(cut=SWITCHED, last_ack_us=9_900_000)
    item = items(cut(load=load))[ItemId.DRIVES_GONE]
    assert "acked commits for 0.100 s without them" in item.reason


def test_the_last_ack_dates_a_cut_after_which_the_server_ends_late() -> None:
    """The kernel gives a drive up seconds after it lost its power."""
    stalled = loaded(
        cut=SWITCHED,
        last_ack_us=9_300_000,
        gone_us=14_000_000,
        switched_us=14_500_000,
        host_lived=True,
        in_flight=8,
    )
    judged = cut(load=stalled)
    assert not explain_missing_date(judged)
    assert find_cut_us(judged) == 9_300_000
    assert find_latest_cut_us(judged) == SEEN.gone_us
    assert judge_load_at_the_cut(judged).status is Status.PRESENT
    unseen = cut(replace(SEEN, gone_us=None), load=stalled)
    # The switch may have cut 5.2 s after the last ack, and no canary was read.
    assert judge_load_at_the_cut(unseen).status is Status.NOT_OBSERVABLE
    assert "5.2 s after the last ack" in judge_load_at_the_cut(unseen).reason
    idle = cut(load=replace(stalled, last_ack_us=7_000_000))
    assert judge_load_at_the_cut(idle).status is Status.ABSENT


def test_a_drive_that_wrote_on_after_the_last_ack_was_cut_later() -> None:
    done = Completed(Counted(9, 2), (Counted(9, 2),), as_of_us=12_000_000)
    stalled = loaded(
        cut=SWITCHED, last_ack_us=9_300_000, gone_us=9_400_000, canaries=done
    )
    host = replace(back(), remains=Remains("", (), 1, (Ring(((1, 9),)),), 16))
    judged = cut(load=stalled, host=host)
    assert find_last_canary_write_us(judged) == 12_000_000
    assert judge_load_at_the_cut(judged).status is Status.ABSENT


def test_a_server_that_waits_for_its_drive_is_no_sign_of_power() -> None:
    waiting = loaded(gone=Gone.STALLED)
    assert judge_load_at_the_cut(cut(load=waiting)).status is Status.PRESENT
    of_host = case(BEFORE, after(), load=waiting)
    assert judge_load_at_the_cut(of_host).status is Status.CONTRADICTED
    answering = loaded(gone=Gone.NEVER)
    assert judge_load_at_the_cut(cut(load=answering)).status is Status.CONTRADICTED


def test_a_server_may_tell_that_it_crashes_without_its_drives() -> None:
    told = loaded(farewells=("WARNING: because of crash of another server process",))
    crashed = Ended(canary=False, drive_only=True)
    assert judge_end(told, crashed)[0] is Status.PRESENT
    shut = Ended(canary=True, drive_only=True)
    assert judge_end(told, shut)[0] is Status.CONTRADICTED
    of_host = Ended(canary=False)
    assert judge_end(told, of_host)[0] is Status.CONTRADICTED


def test_acks_without_drives_do_not_make_the_switch_late() -> None:
    held = {"off_s": 15.0, "off_seen": True}
    late = loaded(
        cut=Cut(9_000_000, None, held), last_ack_us=20_000_000, switched_us=9_900_000
    )
    item = judge_time_off(cut(load=late))
    assert item is not None
    assert item.status is Status.PRESENT
    unseen = judge_time_off(cut(replace(SEEN, gone_us=None), load=late))
    assert unseen is not None
    assert unseen.status is Status.NOT_OBSERVABLE


START = "LOG:  starting PostgreSQL 15.1 on x86_64\n"
TORN = START + "PANIC:  could not locate a valid checkpoint record\n"


def absent(log: str, seen: DriveCut | None = SEEN) -> Absence:
    """Judge a server that does not answer, whose log says that since the preflight."""
    return judge_absence(cut(seen, host=replace(back(), log=after(log).log)))


def test_a_server_whose_data_are_beyond_recovery() -> None:
    assert "valid checkpoint record" in absent(TORN).failure
    assert "not on record" in absent(TORN, None).doubt


@pytest.mark.parametrize(
    "log",
    [
        "PANIC:  could not fdatasync file: Input/output error\n",
        START + "PANIC:  could not read pg_control: Input/output error\n" + TORN[44:],
    ],
)
def test_what_a_server_logs_without_its_drives_is_not_held_against_them(
    log: str,
) -> None:
    found = absent(log)
    assert not found.failure
    assert found.doubt
