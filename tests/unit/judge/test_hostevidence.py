from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from dbcheck.judge import host as host_items
from dbcheck.judge.item import ItemId, Status
from dbcheck.judge.judge import judge
from dbcheck.judge.server_end import Ended
from dbcheck.model.cut import CutClass, Gone
from dbcheck.model.depth import Depth, DepthFinding, Remains, Tally
from dbcheck.model.host import Drive, HostAfter
from dbcheck.model.verdict import Verdict
from dbcheck.rows.reconcile import Reconciliation
from tests.kit.cases import case, lab, loaded
from tests.kit.host_samples import BEFORE, FACTS, VOLUME, after
from tests.kit.nodes import having
from tests.kit.samples import ALL_GONE, CLEAN

NO_CLOCK = dataclasses.replace(after(), clocks=None)


def on(**changed: Any) -> dict[str, Any]:
    """Return facts of a data directory on a volume that differs."""
    return {"volumes": (dataclasses.replace(VOLUME, **changed),)}


def finding(depth: Depth | None) -> DepthFinding:
    return DepthFinding(depth, Tally(1, 1, 0), Tally(1, 1, 0), ("as measured",))


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        pytest.param({}, Status.PRESENT, id="the same"),
        pytest.param({"machine_id": "m2"}, Status.CONTRADICTED, id="other machine"),
        pytest.param(on(filesystem_uuid="u2"), Status.CONTRADICTED, id="other fs"),
        pytest.param(on(drives=()), Status.PRESENT, id="drives cannot be read now"),
        pytest.param(
            on(drives=(dataclasses.replace(VOLUME.drives[0], serial="s2"),)),
            Status.CONTRADICTED,
            id="other drive",
        ),
    ],
)
def test_same_storage(changed: dict[str, Any], status: Status) -> None:
    item = host_items.judge_same_storage(case(BEFORE, after(**changed)))
    assert item is not None
    assert item.status is status


def test_a_drive_is_one_whatever_the_number_of_its_paths() -> None:
    path = VOLUME.drives[0]
    other = dataclasses.replace(path, name="sdb")
    two = on(drives=(path, other))
    for before, now in ((two, {}), ({}, two)):
        facts = dataclasses.replace(FACTS, **before)
        item = host_items.judge_same_storage(
            case(dataclasses.replace(BEFORE, facts=facts), after(**now))
        )
        assert item is not None
        assert item.status is Status.PRESENT, item.reason


KNOWN = VOLUME.drives[0]
OTHER = dataclasses.replace(KNOWN, name="sdx", serial="s9")
NAMELESS = dataclasses.replace(KNOWN, name="sdn", serial="", wwid="")


@pytest.mark.parametrize(
    ("then", "now", "status"),
    [
        ((KNOWN, NAMELESS), (KNOWN, NAMELESS), Status.PRESENT),
        ((KNOWN, NAMELESS), (KNOWN, OTHER), Status.PRESENT),
        ((KNOWN, OTHER), (KNOWN, NAMELESS), Status.PRESENT),
        ((KNOWN, OTHER), (KNOWN,), Status.CONTRADICTED),
        ((KNOWN,), (OTHER, NAMELESS), Status.CONTRADICTED),
    ],
)
def test_a_drive_that_nothing_identifies_is_named(
    then: tuple[Drive, ...], now: tuple[Drive, ...], status: Status
) -> None:
    """It may be any, and never makes the others another storage."""
    facts = dataclasses.replace(FACTS, **on(drives=then))
    before = dataclasses.replace(BEFORE, facts=facts)
    item = host_items.judge_same_storage(case(before, after(**on(drives=now))))
    assert item is not None
    assert item.status is status
    if status is Status.PRESENT:
        assert "sdn" in item.reason


def test_only_what_was_read_twice_is_called_the_same() -> None:
    some = host_items.judge_same_storage(
        case(BEFORE, after(machine_id="", **on(drives=())))
    )
    assert some is not None
    assert some.reason == "same filesystem"
    nothing = host_items.judge_same_storage(
        case(BEFORE, after(machine_id="", **on(drives=(), filesystem_uuid="")))
    )
    assert nothing is not None
    assert nothing.status is Status.NOT_OBSERVABLE


def test_the_drives_own_counter() -> None:
    drive = VOLUME.drives[0]
    more = dataclasses.replace(drive, unsafe_shutdowns=8)
    unread = dataclasses.replace(drive, unsafe_shutdowns=None)
    counted = host_items.judge_unsafe_shutdowns(
        case(BEFORE, after(**on(drives=(more,))))
    )
    assert counted is not None
    assert counted.status is Status.PRESENT
    same = host_items.judge_unsafe_shutdowns(case(BEFORE, after()))
    assert same is not None
    assert same.status is Status.ABSENT
    silent = case(BEFORE, after(**on(drives=(unread,))))
    assert host_items.judge_unsafe_shutdowns(silent) is None


def went(
    host: HostAfter | None,
    depth: Depth | None,
    ended: Ended | None = None,
    *,
    lab_cut: str = "",
    silent: bool = False,
    reset: bool = False,
    **load_fields: Any,
) -> Status:
    cut_class = CutClass.RESET if reset else CutClass.UNKNOWN
    gone = Gone.SILENT if silent else Gone.BROKEN
    load = loaded(gone=gone, heard_us=None, **load_fields)
    judged = case(BEFORE, host, load=load, lab=lab(lab_cut), cut_class=cut_class)
    found = finding(depth) if host else None
    return host_items.judge_fall_of_host(judged, ended or Ended(), found)[0]


@pytest.mark.parametrize(
    ("found", "status"),
    [
        pytest.param(went(after(), Depth.DRIVE), Status.PRESENT, id="rebooted"),
        pytest.param(
            went(after(), None), Status.NOT_OBSERVABLE, id="rebooted, no depth"
        ),
        pytest.param(
            went(after(), None, silent=True), Status.PRESENT, id="rebooted, silent"
        ),
        pytest.param(went(after(), None, reset=True), Status.PRESENT, id="reset"),
        pytest.param(
            went(NO_CLOCK, None, silent=True),
            Status.NOT_OBSERVABLE,
            id="rebooted, silent, on no clock",
        ),
        pytest.param(
            went(NO_CLOCK, Depth.OS, silent=True),
            Status.PRESENT,
            id="its page cache was lost, on no clock",
        ),
        pytest.param(
            went(after(), Depth.PROCESS), Status.CONTRADICTED, id="cache survived"
        ),
        pytest.param(
            went(after(boot_id="b1"), Depth.OS), Status.CONTRADICTED, id="same boot"
        ),
        pytest.param(
            went(after(boot_id=""), Depth.OS), Status.PRESENT, id="boot unknown"
        ),
        pytest.param(
            went(None, None, silent=True), Status.NOT_OBSERVABLE, id="silence alone"
        ),
        pytest.param(
            went(None, None, Ended(canary=False), silent=True),
            Status.ASSUMED,
            id="crashed in silence",
        ),
        pytest.param(
            went(None, None, Ended(logged=True)), Status.ABSENT, id="crashed, closed"
        ),
        pytest.param(
            went(after(), None, Ended(recorded="wtmp records the shutdown")),
            Status.CONTRADICTED,
            id="rebooted, after a shutdown",
        ),
        pytest.param(
            went(None, None, Ended(seen_off=True), silent=True),
            Status.PRESENT,
            id="the switch saw the power off",
        ),
        pytest.param(went(None, None), Status.ABSENT, id="closed at once"),
        pytest.param(went(None, None, lab_cut="drive"), Status.PRESENT, id="lab"),
        pytest.param(
            went(None, None, lab_cut="drive", cut=None),
            Status.NOT_OBSERVABLE,
            id="a lab without a cut on record",
        ),
        pytest.param(
            went(after(), Depth.OS, lab_cut="drive", cut=None),
            Status.PRESENT,
            id="a lab whose canaries show the cut",
        ),
        pytest.param(
            went(after(boot_id="b1"), Depth.DRIVE, lab_cut="drive"),
            Status.PRESENT,
            id="a lab's kernel lives on",
        ),
        pytest.param(
            went(after(), Depth.PROCESS, lab_cut="drive"),
            Status.CONTRADICTED,
            id="a lab whose drive lost nothing",
        ),
    ],
)
def test_host_went_down(found: Status, status: Status) -> None:
    assert found is status


def test_that_the_host_went_down_is_required() -> None:
    item = host_items.judge_host_went_down(case(BEFORE, after(), load=loaded()))
    assert item is not None
    assert (item.id, item.required) == (ItemId.HOST_DOWN, True)


def test_the_drive_of_a_lab_whose_client_was_lost_is_not_known_to_be_cut() -> None:
    item = host_items.judge_host_went_down(case(lab=lab("drive")))
    assert item is not None
    assert item.status is Status.NOT_OBSERVABLE


def test_a_killed_process_does_not_say_that_a_host_went_down() -> None:
    judged = case(BEFORE, after(boot_id="b1"), load=loaded(), lab=lab("process"))
    assert host_items.judge_host_went_down(judged) is None


def test_nothing_is_said_where_nobody_was_asked() -> None:
    assert host_items.judge_same_storage(case()) is None
    assert host_items.judge_unsafe_shutdowns(case()) is None


WRITTEN = {"auto.cnf": 10}
THERE, GONE = Remains("", (), 1, (), 1), Remains("it does not hold them", (), 1, (), 1)


@pytest.mark.parametrize(
    ("made", "remains", "status"),
    [
        pytest.param(FACTS.made, THERE, Status.PRESENT, id="the same"),
        pytest.param(
            {**FACTS.made, ".": "inode 1 of 7.0"},
            THERE,
            Status.CONTRADICTED,
            id="another folder",
        ),
        pytest.param(
            {**FACTS.made, "ibdata1": "inode 3 of 6.0"},
            THERE,
            Status.CONTRADICTED,
            id="another file in the same folder",
        ),
        pytest.param(
            {".": FACTS.made["."]}, THERE, Status.PRESENT, id="a file unreadable"
        ),
        pytest.param({}, THERE, Status.NOT_OBSERVABLE, id="nothing readable"),
        pytest.param(
            FACTS.made, GONE, Status.NOT_OBSERVABLE, id="the canaries gone as well"
        ),
    ],
)
def test_data_that_were_put_back_are_told(
    made: dict[str, str], remains: Remains, status: Status
) -> None:
    told = dataclasses.replace(after(made=made), remains=remains)
    item = host_items.judge_not_restored(case(BEFORE, told))
    assert (item.id, item.status) == (ItemId.NOT_RESTORED, status)


TOUCHED = {"auto.cnf": 12}
EARLIER = {"auto.cnf": 9}


@pytest.mark.parametrize(
    ("changed", "found", "status"),
    [
        pytest.param(TOUCHED, ALL_GONE, Status.ABSENT, id="and no row"),
        pytest.param(TOUCHED, None, Status.ABSENT, id="and no table"),
        pytest.param(TOUCHED, CLEAN, Status.PRESENT, id="and rows of the run"),
        pytest.param(WRITTEN, ALL_GONE, Status.PRESENT, id="unchanged, and no row"),
        pytest.param(WRITTEN, None, Status.PRESENT, id="unchanged, and no table"),
        pytest.param(EARLIER, ALL_GONE, Status.PRESENT, id="earlier, and no row"),
        pytest.param(EARLIER, None, Status.PRESENT, id="earlier, and no table"),
        pytest.param({}, ALL_GONE, Status.PRESENT, id="not there, and no row"),
    ],
)
def test_a_copy_written_over_the_data_is_told_by_what_no_server_writes(
    changed: dict[str, int], found: Reconciliation | None, status: Status
) -> None:
    before = dataclasses.replace(
        BEFORE, facts=dataclasses.replace(FACTS, changed=WRITTEN)
    )
    told = dataclasses.replace(after(changed=changed), remains=THERE)
    one = dataclasses.replace(case(before, told, load=loaded()), found=found)
    assert host_items.judge_not_restored(one).status is status
    if found is CLEAN:
        return
    if found is None:
        failure = "Table 'ledger' doesn't exist in engine"
        one = dataclasses.replace(one, after=having(one.after, failure=failure))
    judged = judge(one)
    # A drive that lost all that the run wrote made no ctime later.
    is_lost = status is Status.PRESENT
    assert judged.verdict is (Verdict.FAIL if is_lost else Verdict.INCONCLUSIVE)
    # As a chown of a server's unit, or of Kubernetes, does.
    assert ("fsGroupChangePolicy" in judged.reasons[0]) is not is_lost


def test_where_nobody_looks_data_may_have_been_put_back() -> None:
    for told in (None, HostAfter(None, THERE, None, "no route")):
        item = host_items.judge_not_restored(case(BEFORE, told, lab=lab("process")))
        assert item.status is Status.NOT_OBSERVABLE
    item = host_items.judge_not_restored(case(lab=lab("drive")))
    assert item.status is Status.PRESENT


def test_records_of_a_shutdown_that_could_not_be_asked_for_are_named() -> None:
    kept = Remains("", ((1, 50),), 1, (), 100)
    told = dataclasses.replace(after(), remains=kept)
    whole = host_items.judge_readings_after_cut(case(BEFORE, told))
    assert whole is not None
    assert whole.status is Status.PRESENT
    item = host_items.judge_readings_after_cut(
        case(BEFORE, dataclasses.replace(told, shut_down=None))
    )
    assert item is not None
    assert (item.status, item.required) == (Status.NOT_OBSERVABLE, True)
    assert "the host's records of a shutdown" in item.reason
