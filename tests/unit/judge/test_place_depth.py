"""What several volumes show together, and how each of them is asked for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError
from dbcheck.cycle.host import end_canaries, inspect_host, inspect_host_again
from dbcheck.cycle.judging import judge_run
from dbcheck.judge.host import judge_same_storage, judge_unsafe_shutdowns
from dbcheck.judge.item import ItemId, Status
from dbcheck.judge.verdict import judge_rows
from dbcheck.judge.volumes import find_least_depth, find_shallowest, find_volume_depths
from dbcheck.judge.watched import places as places_item
from dbcheck.model.cluster import ONLY_NODE
from dbcheck.model.cut import CutClass
from dbcheck.model.depth import Completed, Depth, Remains, Ring
from dbcheck.model.host import (
    Container,
    HostBefore,
    LogMarks,
    LogTail,
    TargetFacts,
    VolumeCanaries,
)
from dbcheck.model.places import DataNames, FoundData, Place
from dbcheck.model.server import ServerFacts
from dbcheck.model.verdict import Verdict
from dbcheck.runs import stored
from dbcheck.runs.folder import RunFolder
from dbcheck.runs.records import read_manifest
from dbcheck.site.single import SingleServer
from dbcheck.witness.log import FrameLogReader
from tests.kit.cases import case
from tests.kit.host_samples import FACTS as HOST
from tests.kit.host_samples import VOLUME
from tests.kit.nodes import having, host_after
from tests.kit.partial_rig import RecordingListener, node_of
from tests.kit.place_samples import DATA, DONE, GONE, KEPT, LEFT, TWO, WAL, after
from tests.kit.samples import CLEAN, FACTS, MANIFEST
from tests.kit.stored_run import manifest, stored_run

BEFORE = HostBefore(TWO, "/c", "n", "", {}, (VolumeCanaries("/wal/c", "m"),))
NOT_COPIED = {".": "inode 1 of 5.0"}


@pytest.mark.parametrize(
    ("data", "wal", "claim", "host", "said"),
    [
        (Depth.DRIVE, Depth.DRIVE, Depth.DRIVE, Depth.DRIVE, "DRIVE on WAL (sdb)"),
        (Depth.DRIVE, Depth.OS, Depth.OS, Depth.OS, "OS on WAL (sdb)"),
        (Depth.OS, Depth.DRIVE, Depth.OS, Depth.OS, "OS on data, undo (sda)"),
        (Depth.DRIVE, Depth.PROCESS, Depth.PROCESS, Depth.PROCESS, "PROCESS on WAL"),
        (Depth.DRIVE, None, None, Depth.DRIVE, "unknown on WAL (sdb)"),
        (None, Depth.DRIVE, None, Depth.DRIVE, "unknown on data, undo (sda)"),
        (None, Depth.PROCESS, Depth.PROCESS, Depth.PROCESS, "PROCESS on WAL"),
        (None, None, None, None, "unknown on WAL (sdb)"),
    ],
)
def test_the_claim_is_the_least_of_all_volumes(
    data: Depth | None,
    wal: Depth | None,
    claim: Depth | None,
    host: Depth | None,
    said: str,
) -> None:
    depths = find_volume_depths(BEFORE, DONE, (DONE,), after(LEFT[data], LEFT[wal]))
    found, of_host = find_least_depth(depths, TWO), find_shallowest(depths)
    assert found is not None
    assert of_host is not None
    assert (found.depth, of_host.depth) == (claim, host)
    assert said in found.reasons[0]
    assert any(reason.startswith("WAL: ") for reason in found.reasons)
    names = ("WAL: ", "data, undo: ")
    assert of_host.reasons[0].startswith(names) or host is None


NO_ROOM = VolumeCanaries("", "", "no room")


@pytest.mark.parametrize(
    ("drives", "data", "wal", "claim"),
    [
        pytest.param(1, Depth.DRIVE, Depth.OS, Depth.DRIVE, id="flushed in time"),
        pytest.param(1, Depth.OS, Depth.DRIVE, Depth.DRIVE, id="the other way round"),
        pytest.param(1, Depth.DRIVE, NO_ROOM, Depth.DRIVE, id="no room for canaries"),
        pytest.param(1, Depth.OS, NO_ROOM, None, id="no room, and nothing lost"),
        pytest.param(1, Depth.DRIVE, Depth.PROCESS, Depth.PROCESS, id="cache kept"),
        pytest.param(1, Depth.DRIVE, None, None, id="the canaries are gone"),
        pytest.param(2, Depth.DRIVE, Depth.OS, Depth.OS, id="perhaps the other drive"),
    ],
)
def test_volumes_on_one_drive_share_its_cache(
    drives: int, data: Depth, wal: Any, claim: Depth | None
) -> None:
    shared = (VOLUME.drives[0], WAL.drives[0])[:drives]
    facts = replace(
        HOST, volumes=(replace(DATA, drives=shared), replace(WAL, drives=shared))
    )
    refused = wal is NO_ROOM
    before = replace(BEFORE, facts=facts)
    before = replace(before, elsewhere=(NO_ROOM,)) if refused else before
    done, left = (None, None) if refused else (DONE, LEFT[wal])
    depths = find_volume_depths(before, DONE, (done,), after(LEFT[data], left))
    found = find_least_depth(depths, facts)
    assert found is not None
    assert found.depth is claim
    said = any("sda lost writes of" in reason for reason in found.reasons)
    assert said is (claim is Depth.DRIVE)


@pytest.mark.parametrize(
    ("done", "left", "canaries"),
    [
        pytest.param((None,), (None,), NO_ROOM, id="no room"),
        pytest.param((DONE,), (None,), VolumeCanaries("/w/c", "m"), id="not read"),
        pytest.param((DONE,), (), VolumeCanaries("/w/c", "m"), id="not asked"),
        pytest.param((), (KEPT,), VolumeCanaries("/w/c", "m"), id="not known how far"),
    ],
)
def test_a_volume_without_canaries_caps_the_claim(
    done: Any, left: Any, canaries: VolumeCanaries
) -> None:
    before = replace(BEFORE, elsewhere=(canaries,))
    depths = find_volume_depths(before, DONE, done, after(LEFT[Depth.DRIVE], *left))
    found = find_least_depth(depths, TWO)
    assert found is not None
    assert found.depth is None
    why = canaries.failure or "could not be read after the cut"
    assert any("WAL" in reason and why in reason for reason in found.reasons)


def test_a_place_that_nobody_could_look_at_caps_the_claim() -> None:
    facts = replace(HOST, unseen={"WAL": "/wal: Permission denied"})
    before = replace(BEFORE, facts=facts, elsewhere=())
    depths = find_volume_depths(before, DONE, (), after(LEFT[Depth.DRIVE], facts=facts))
    found = find_least_depth(depths, facts)
    assert found is not None
    assert found.depth is None
    assert "unknown on WAL (/wal: Permission denied)" in found.reasons[0]
    item = places_item(case(before))
    assert item is not None
    assert item.status is Status.NOT_OBSERVABLE
    assert item.reason.startswith("WAL was not inspected (/wal: Permission denied); ")


def test_a_pass_says_what_was_not_looked_at() -> None:
    full = replace(BEFORE, elsewhere=(VolumeCanaries("", "", "no room"),))
    item = places_item(case(full))
    assert item is not None
    assert item.status is Status.NOT_OBSERVABLE
    assert item.reason.startswith("no canaries are on WAL (sdb) (no room); ")
    judgement = judge_rows(CLEAN, [item], CutClass.AC, None)
    assert judgement.verdict is Verdict.PASS
    assert "how deep it went was not measured" in judgement.reasons[0]
    assert "; not checked: places" in judgement.reasons[0]
    assert "no canaries are on WAL" in "\n".join(judgement.reasons[1:])
    seen = places_item(case(BEFORE))
    assert seen is not None
    reasons = judge_rows(CLEAN, [seen], CutClass.AC, None).reasons
    assert "WAL" not in "\n".join(reasons)


def test_places_on_one_volume_need_no_names() -> None:
    before = replace(BEFORE, facts=replace(HOST, volumes=(DATA,)), elsewhere=())
    depths = find_volume_depths(before, DONE, (), after(LEFT[Depth.DRIVE]))
    found = find_least_depth(depths, before.facts)
    assert found is not None
    assert found.reasons[0].startswith("10 writes that the drive had completed")
    assert find_volume_depths(before, None, (), after(KEPT)) == []
    assert find_least_depth([], before.facts) is None
    assert find_shallowest([]) is None


def test_every_place_is_named_with_its_drives() -> None:
    item = places_item(case(BEFORE))
    assert item is not None
    assert item.status is Status.PRESENT
    assert item.reason == "xfs: data, undo (sda); xfs: WAL (sdb)"


def test_the_places_name_a_container_and_its_data_on_the_host() -> None:
    inner = Container(4711, f"/system.slice/docker-{'0123456789abcdef' * 4}.scope")
    facts = replace(TWO, data_directory="/volumes/pg", container=inner)
    item = places_item(case(replace(BEFORE, facts=facts)))
    assert item is not None
    assert item.status is Status.PRESENT
    assert item.reason.endswith(
        "; the server runs in a container (0123456789ab), and its data directory is "
        "/volumes/pg on the host"
    )


def changed(**values: Any) -> TargetFacts:
    return replace(TWO, volumes=(DATA, replace(WAL, **values)))


@pytest.mark.parametrize(
    ("now", "status", "said"),
    [
        (TWO, Status.PRESENT, "drives of data, filesystem of WAL, drives of WAL"),
        (changed(filesystem_uuid="u9"), Status.CONTRADICTED, "filesystem of WAL"),
        (changed(places={"WAL": "/w2"}), Status.CONTRADICTED, "path of WAL was /wal"),
        (changed(drives=()), Status.PRESENT, "filesystem of WAL"),
        (
            replace(
                TWO, volumes=(replace(DATA, places={**DATA.places, "WAL": "/wal"}),)
            ),
            Status.CONTRADICTED,
            "filesystem of WAL was u2 and is u1",
        ),
        (
            replace(TWO, volumes=(DATA,), unseen={"WAL": "/wal: No such file"}),
            Status.NOT_OBSERVABLE,
            "WAL cannot be inspected again: /wal: No such file",
        ),
    ],
)
def test_storage_is_compared_for_every_place(
    now: TargetFacts, status: Status, said: str
) -> None:
    item = judge_same_storage(case(BEFORE, after(KEPT, KEPT, facts=now)))
    assert item is not None
    assert (item.status, item.required) == (status, True)
    assert said in item.reason


def counted(*counts: int | None) -> TargetFacts:
    drives = tuple(
        replace(VOLUME.drives[0], name=f"sd{n}", serial=f"s{n}", unsafe_shutdowns=count)
        for n, count in enumerate(counts)
    )
    return replace(TWO, volumes=(replace(DATA, drives=drives[:2]), WAL))


@pytest.mark.parametrize(
    ("then", "now", "status", "said"),
    [
        ((7, 7), (8, 9), Status.PRESENT, "sd0 1, sd1 2"),
        ((7, 7), (8, 7), Status.ABSENT, "sd0 1, sd1 0"),
        ((7, None), (8, 9), Status.PRESENT, "sd0 1; sd1"),
        ((None, 7), (8, 7), Status.ABSENT, "sd1 0"),
    ],
)
def test_every_drive_of_an_array_counts(
    then: Any, now: Any, status: Status, said: str
) -> None:
    array = replace(TWO, volumes=counted(*then).volumes[:1])
    before = replace(BEFORE, facts=array, elsewhere=())
    item = judge_unsafe_shutdowns(case(before, after(KEPT, facts=counted(*now))))
    assert item is not None
    assert item.status is status
    assert said in item.reason


def test_a_drive_whose_name_changed_is_known_by_its_serial() -> None:
    first, second = counted(7, 7).volumes[0].drives
    swapped = (replace(first, name="sd1"), replace(second, name="sd0"))
    now = replace(TWO, volumes=(replace(DATA, drives=swapped), WAL))
    item = judge_unsafe_shutdowns(
        case(replace(BEFORE, facts=counted(6, 7)), after(KEPT, KEPT, facts=now))
    )
    assert item is not None
    assert item.reason == "counted since: sd0 1, sd1 0, sdb 0"


HOST_FULL = HostError("no room", id=ErrorId.HOST_DISK_FULL)


class Writing:
    """Canaries in one folder."""

    def __init__(self, folder: str) -> None:
        self.folder, self.nonce = folder, f"nonce of {folder}"
        self.stopped = False

    def completed(self, until_us: int | None = None) -> Completed:
        return DONE

    def stop(self) -> None:
        self.stopped = True


class Known:
    """A server whose own files name its data."""

    def mark_data(self) -> str:
        return ""


class TwoVolumes:
    """A host with two volumes; refuses canaries beside some paths, with an error."""

    def __init__(
        self, refused: Sequence[str] = (), error: BaseException = HOST_FULL
    ) -> None:
        self.asked: list[Place] = []
        self.running: list[Writing] = []
        self.removed: list[str] = []
        self._refused, self._error = refused, error

    def reach(self) -> None:
        pass

    def facts(
        self, data_directory: str, places: Sequence[Place] = (), process: int = 0
    ) -> TargetFacts:
        self.asked = list(places)
        return TWO

    def find_data(self, data_directory: str) -> list[FoundData]:
        assert data_directory == "/d"
        return [FoundData(0, DataNames(False, "", 0, "", frozenset(), {}))]

    def find_log(self, path: str, process: int) -> str:
        raise AssertionError(path)

    def mark_log(self, path: str) -> LogMarks:
        raise AssertionError(path)

    def read_log(self, path: str, marks: LogMarks) -> LogTail:
        raise AssertionError(path)

    def start_canaries(self, data_directory: str) -> Writing:
        if data_directory in self._refused:
            raise self._error
        self.running.append(Writing(f"{data_directory}/c"))
        return self.running[-1]

    def read_canaries(self, folder: str, nonce: str) -> Remains:
        assert nonce == f"nonce of {folder}"
        return KEPT if folder == "/d/c" else GONE

    def shutdown_record(self, boot_id: str, since_us: int) -> str:
        return ""

    def remove_canaries(self, folder: str) -> None:
        self.removed.append(folder)

    def close(self) -> None:
        pass


ASKED = (Place("data", "/d"), Place("WAL", "/wal"))
SERVER: ServerFacts = replace(FACTS, identity={"data_directory": "/d"})


def test_each_volume_has_canaries_that_are_asked_for_and_removed() -> None:
    host = TwoVolumes()
    node, listener = node_of(Known(), host), RecordingListener()
    before, canaries = inspect_host(node, listener, SERVER, ASKED)
    assert before is not None
    assert canaries is not None
    assert before.canary_folders == ("/d/c", "/wal/c")
    assert canaries.completed(host_kept=False)[1:] == (DONE,)
    end_canaries(SingleServer(node), {ONLY_NODE: canaries})
    assert [each.stopped for each in host.running] == [True, True]
    found = inspect_host_again(
        node, listener, replace(MANIFEST.writer, host=before, places=ASKED)
    )
    assert found is not None
    assert (found.remains, found.remains_elsewhere) == (KEPT, (GONE,))
    assert host.asked == list(ASKED)
    assert host.removed == ["/d/c", "/wal/c"]


def test_a_volume_that_lets_nobody_write_is_noted() -> None:
    host = TwoVolumes(refused=["/wal"])
    node, listener = node_of(Known(), host), RecordingListener()
    before, canaries = inspect_host(node, listener, SERVER, ASKED)
    assert before is not None
    assert canaries is not None
    assert before.elsewhere == (VolumeCanaries("", "", "no room"),)
    assert canaries.completed(host_kept=False)[1:] == (None,)
    found = inspect_host_again(
        node, listener, replace(MANIFEST.writer, host=before, places=ASKED)
    )
    assert found is not None
    assert (found.remains_elsewhere, found.failure) == ((None,), "")
    assert host.removed == ["/d/c"]


@pytest.mark.parametrize(
    ("refused", "error"), [("/d", HOST_FULL), ("/wal", KeyboardInterrupt("no room"))]
)
def test_no_canaries_are_left_if_the_host_cannot_be_described(
    refused: str, error: BaseException
) -> None:
    host = TwoVolumes(refused=[refused], error=error)
    node, listener = node_of(Known(), host), RecordingListener()
    with pytest.raises(type(error), match="no room"):
        inspect_host(node, listener, SERVER, ASKED)
    assert all(each.stopped for each in host.running)
    assert host.removed == [each.folder for each in host.running]


def test_a_stored_run_is_judged_with_all_of_its_places(tmp_path: Path) -> None:
    """As by whoever has only what the witness holds."""
    known = read_manifest(stored.to_bytes(manifest()), "here")
    assert known.writer.places == manifest().writer.places
    assert stored.to_bytes(known) == stored.to_bytes(manifest())
    run = stored_run(RunFolder.create(tmp_path, known))
    outcome = judge_run(run, FrameLogReader())
    assert outcome.case.depth is not None
    assert " on data (sda); " in outcome.case.depth.reasons[0]
    assert " on WAL (sda)" in outcome.case.depth.reasons[0]
    assert json.loads((run.path / "verdict.json").read_text())["depth"]["reasons"]


KEPT_ALL = Remains("", ((1, 9),), 1, (Ring(((1, 9),)),), 18)


@pytest.mark.parametrize(
    ("data", "wal", "unseen", "verdict"),
    [
        (KEPT_ALL, KEPT_ALL, {}, Verdict.INCONCLUSIVE),
        (KEPT_ALL, KEPT_ALL, {"undo": "no such folder"}, Verdict.INCONCLUSIVE),
        (replace(KEPT_ALL, buffered=()), KEPT_ALL, {}, Verdict.FAIL),
        (KEPT_ALL, replace(KEPT_ALL, buffered=()), {}, Verdict.FAIL),
        (KEPT_ALL, replace(KEPT_ALL, missing="gone"), {}, Verdict.FAIL),
    ],
)
def test_a_table_is_gone_by_the_cut_if_any_page_cache_went(
    data: Remains,
    wal: Remains,
    unseen: dict[str, str],
    verdict: Verdict,
    tmp_path: Path,
) -> None:
    """One volume's canaries may have been written out by chance."""
    made = manifest()
    assert made.writer.host is not None
    facts = replace(made.writer.host.facts, unseen=unseen)
    made = having(made, host=replace(made.writer.host, facts=facts))
    run = stored_run(RunFolder.create(tmp_path, made))
    found = run.after()
    host = replace(host_after(found), remains=data, remains_elsewhere=(wal,))
    run.write_after(having(found, failure="no table", missing=True, host=host))
    outcome = judge_run(run, FrameLogReader())
    assert outcome.verdict is verdict, outcome.judgement.reasons
    spared = json.loads((run.path / "verdict.json").read_text())["page_cache_kept"]
    assert spared is (verdict is Verdict.INCONCLUSIVE)


def test_without_a_host_the_report_names_what_is_on_other_paths(tmp_path: Path) -> None:
    places = (Place("data", "/d"), Place("binary log", "/l"))
    blind = having(manifest(), host=None, places=places)
    outcome = judge_run(stored_run(RunFolder.create(tmp_path, blind)), FrameLogReader())
    (item,) = (i for i in outcome.judgement.items if i.id is ItemId.PLACES)
    assert item.status is Status.NOT_OBSERVABLE
    assert "binary log (/l)" in item.reason


# What the server found at the path of its log, before the load or after the recovery.
OTHERWISE: dict[str, Any] = {
    "seen_otherwise": {"WAL": "process 9 finds another file at /wal: tmpfs"}
}


@pytest.mark.parametrize("at", ["before", "after"])
def test_a_place_that_the_server_finds_otherwise_takes_depth_and_pass_away(
    at: str, tmp_path: Path
) -> None:
    made = manifest()
    assert made.writer.host is not None
    facts = replace(made.writer.host.facts, **(OTHERWISE if at == "before" else {}))
    made = having(made, host=replace(made.writer.host, facts=facts))
    run = stored_run(RunFolder.create(tmp_path, made))
    found = run.after()
    host = host_after(found)
    assert host.facts is not None
    if at == "after":
        host = replace(host, facts=replace(host.facts, **OTHERWISE))
    run.write_after(having(found, host=host))
    outcome = judge_run(run, FrameLogReader())
    (item,) = (i for i in outcome.judgement.items if i.id is ItemId.PLACES)
    assert item.status is Status.CONTRADICTED
    assert "WAL: process 9 finds another file at /wal" in item.reason
    assert outcome.verdict is Verdict.INCONCLUSIVE
    assert outcome.result.depth is None or outcome.result.depth.depth is None


@pytest.mark.parametrize("why", ["", "no process of the server can be seen there"])
def test_a_view_that_is_not_known_is_assumed(why: str) -> None:
    """Also of a record that says nothing of it: see model.host.TargetFacts."""
    before = replace(BEFORE, facts=replace(TWO, view_unread=why))
    item = places_item(case(before=before))
    assert item is not None
    assert item.status is (Status.ASSUMED if why else Status.PRESENT)
    assert why in item.reason
