"""Bundles that somebody changed and sealed again, with every digest right."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import BundleRefused, RunFormatError, UsageError
from dbcheck.campaign.folder import CampaignFolder
from dbcheck.campaign.totals import make_result as campaign_result
from dbcheck.evidence.archive import Index
from dbcheck.evidence.bundle import make_campaign_page
from dbcheck.evidence.verify import VerifyResult, verify
from dbcheck.model.verdict import CycleVerdict, Verdict
from dbcheck.runs import stored
from dbcheck.runs.folder import RunFolder
from dbcheck.witness.log import FrameLogReader
from tests.kit.bundles import bundle_of, campaign_of, forged, resealed, stored_copy
from tests.kit.refusals import refused

CONTROL, PASSED = "postgresql-control", "postgresql-pass"
LYING = "postgresql-lying"
Forgery = Callable[[Path, Index], Index]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of a run that lost rows."""
    folder = tmp_path_factory.mktemp("run")
    bundle_of(stored_copy(LYING, folder), folder / "b.tar")
    return folder / "b.tar"


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of a control, a cycle that passed and one that lost rows."""
    folder = tmp_path_factory.mktemp("campaign")
    made = campaign_of(folder, (CONTROL, PASSED, LYING))
    bundle_of(made.path, folder / "b.tar")
    return folder / "b.tar"


def verified(source: Path, target: Path, forgery: Forgery) -> VerifyResult:
    """Return what verify shows of *source* with a forgery in it, in *target*."""
    forged(
        source, target, lambda folder, index: resealed(folder, forgery(folder, index))
    )
    return verify(target, FrameLogReader())


def only_run(folder: Path) -> Path:
    (found,) = (folder / "runs").iterdir()
    return found


def written(name: str, content: bytes) -> Forgery:
    """Return a forgery that writes a file; {run} in its name is the run's folder."""

    def forgery(folder: Path, index: Index) -> Index:
        path = folder / name.format(run=f"runs/{index.name}")
        path.write_bytes(content)
        return index

    return forgery


def without_rows(folder: Path, index: Index) -> Index:
    for path in only_run(folder).glob("survivors*"):
        path.unlink()
    return index


def with_a_claim(folder: Path, index: Index) -> Index:
    path = only_run(folder) / "verdict.json"
    values = json.loads(path.read_text())
    values = {k: v for k, v in values.items() if k not in ("format", "sha256")}
    path.write_bytes(stored.to_bytes({**values, "approved": True}))
    return index


OF_A_RUN: dict[str, tuple[Forgery, str]] = {
    "another page": (written("report.html", b"<h1>PASS</h1>"), "report.html is not"),
    "a file more": (
        written("README.txt", b"PASS"),
        "README.txt does not belong",
    ),
    "a file of the run more": (
        written("{run}/a.html", b"PASS"),
        "a.html does not belong",
    ),
    "a log more": (
        written("{run}/acks-1.log", b"x"),
        "acks-1.log does not belong",
    ),
    "a claim in the verdict": (with_a_claim, "is not the verdict alone"),
    "the server's log": (written("{run}/server.log", b"x"), "server.log is not what"),
    "the rows of a FAIL": (without_rows, "is FAIL, and its rows are missing"),
}


@pytest.mark.parametrize("name", OF_A_RUN)
def test_what_was_changed_in_a_run_is_seen(
    name: str, run: Path, tmp_path: Path
) -> None:
    forgery, why = OF_A_RUN[name]
    found = verified(run, tmp_path / "f.tar", forgery)
    assert not found.same
    assert any(why in text for text in found.differences), found.differences


def test_the_report_of_another_version_is_not_compared(
    run: Path, tmp_path: Path
) -> None:
    assert verify(run, FrameLogReader()).report_compared

    def forgery(folder: Path, index: Index) -> Index:
        (folder / "report.html").write_text("as version 0.0.9 wrote it")
        return replace(index, dbcheck="0.0.9")

    found = verified(run, tmp_path / "f.tar", forgery)
    assert found.same
    assert not found.report_compared


def of_cycle(which: int, /, **changed: Any) -> Forgery:
    """Return a forgery that changes the record of a cycle."""

    def forgery(folder: Path, index: Index) -> Index:
        made = CampaignFolder.open(folder)
        (cycle,) = (one for one in made.cycles() if one.number == which)
        (folder / "cycles" / made.file_of(cycle)).unlink()
        made.add(replace(cycle, **changed))
        return counted(folder, index)

    return forgery


def counted(folder: Path, index: Index) -> Index:
    """Let the index and the report say what the changed cycles show.

    They stay as they are if dbcheck itself refuses to count such cycles.
    """
    try:
        shown = campaign_result(CampaignFolder.open(folder))
    except RunFormatError:
        return index
    (folder / "report.html").write_text(make_campaign_page(shown), "utf-8")
    return replace(index, verdict=shown.verdict)


def more_cycles(run: str | None) -> Forgery:
    """Return a forgery that adds many cycles that passed, of *run*, or of the same."""

    def forgery(folder: Path, index: Index) -> Index:
        made = CampaignFolder.open(folder)
        cycle = made.cycles()[1]
        name = cycle.run if run is None else run
        for number in range(3, 30):
            made.add(replace(cycle, number=number, run=name))
        return counted(folder, index)

    return forgery


def without_cycle(number: int, *, rows: bool = True) -> Forgery:
    """Return a forgery that leaves a cycle out; rows: but not its run."""

    def forgery(folder: Path, index: Index) -> Index:
        made = CampaignFolder.open(folder)
        (cycle,) = (one for one in made.cycles() if one.number == number)
        (folder / "cycles" / made.file_of(cycle)).unlink()
        made.write_lines()
        if not rows:
            shutil.rmtree(folder / "runs" / cycle.run)
        return counted(folder, index)

    return forgery


def planned(**changed: Any) -> Forgery:
    def forgery(folder: Path, index: Index) -> Index:
        plan = replace(CampaignFolder.open(folder).plan(), **changed)
        (folder / "campaign.json").write_bytes(stored.to_bytes(plan))
        return counted(folder, index)

    return forgery


def moved(folder: Path, index: Index) -> Index:
    (folder / "cycles" / "0001.json").rename(folder / "cycles" / "9.json")
    return index


OF_A_CAMPAIGN: dict[str, tuple[Forgery, str]] = {
    "its name": (lambda _, index: replace(index, name="production"), "its plan db1"),
    "cycles without a run": (more_cycles(""), "is not in the bundle"),
    "one run many times": (more_cycles(None), "is counted 28 times"),
    "a loss left out": (without_cycle(2), "is in no cycle"),
    "a loss left out, and its run": (without_cycle(2, rows=False), "the last whose"),
    "a pass left out": (without_cycle(1, rows=False), "lacks cycle 1"),
    "a loss as an error": (
        of_cycle(2, verdict=CycleVerdict.ERROR, run=""),
        "is in no cycle",
    ),
    "a loss as a control": (of_cycle(2, number=0), "number 0, and its run shows 2"),
    "a control as a pass": (of_cycle(0, number=3), "number 3, and its run shows 0"),
    "a loss as a pass": (of_cycle(2, verdict=CycleVerdict.PASS), "verdict PASS"),
    "a depth": (of_cycle(1, depth="DRIVE"), "depth DRIVE, and its run shows OS"),
    "a class": (of_cycle(1, cut_class="AC"), "class of the cut AC"),
    "a rate": (of_cycle(1, acks_per_s=1e6), "acks/s 1000000.0"),
    "losses of earlier cycles": (of_cycle(2, earlier_lost=7), "earlier cycles 7"),
    "a count of commits": (of_cycle(1, confirmed=10**6), "commits 1000000"),
    "a count of losses": (of_cycle(2, lost=0), "lost rows 0"),
    "a reason": (of_cycle(2, reason="nothing"), "reason nothing"),
    "the target": (planned(target="postgresql://u@x/d"), "is of the target"),
    "the lines": (written("cycles.jsonl", b"{}\n"), "cycles.jsonl is not what"),
    "a file of a cycle": (moved, "cycles/9.json does not belong"),
}


@pytest.mark.parametrize("name", OF_A_CAMPAIGN)
def test_what_was_changed_in_a_campaign_is_seen(
    name: str, campaign: Path, tmp_path: Path
) -> None:
    forgery, why = OF_A_CAMPAIGN[name]
    found = verified(campaign, tmp_path / "f.tar", forgery)
    assert not found.same
    assert any(why in text for text in found.differences), found.differences


def test_a_campaign_that_nobody_changed_is_the_same(campaign: Path) -> None:
    found = verify(campaign, FrameLogReader())
    assert found.differences == ()
    assert found.report_compared


@pytest.mark.parametrize(
    ("file", "content", "why"),
    [
        ("verdict.json", b'{"format": 99}', "of format 99; this dbcheck reads"),
        ("verdict.json", b'{"format": 2}', "of format 2; this dbcheck reads"),
        ("after.json", b"[" * 200_000, "is not JSON"),
        ("manifest.json", b"\xff\xfe\0", "is not JSON"),
        ("load.json", b" " * (1 << 25) + b"{}", "too large"),
    ],
)
def test_a_record_that_cannot_be_read_is_refused_in_words(
    file: str, content: bytes, why: str, run: Path, tmp_path: Path
) -> None:
    def forgery(folder: Path, index: Index) -> Index:
        (only_run(folder) / file).write_bytes(content)
        return replace(index, dbcheck="0.0.9")

    target = tmp_path / "f.tar"
    forged(run, target, forgery)
    with refused(ErrorId.BUNDLE_NOT_JUDGED, BundleRefused, naming=why) as caught:
        verify(target, FrameLogReader())
    assert "dbcheck-bundle-" not in str(caught.value)
    assert caught.value.hint.startswith("dbcheck 0.0.9 made it")


def test_an_index_that_leads_out_of_the_bundle_is_refused(
    run: Path, tmp_path: Path
) -> None:
    target = tmp_path / "f.tar"
    forged(run, target, lambda _, index: replace(index, name="../../../x"))
    with refused(ErrorId.BUNDLE_NOT_JUDGED, BundleRefused, naming="is not a run id"):
        verify(target, FrameLogReader())


def test_a_class_of_cut_that_does_not_exist_is_refused(
    campaign: Path, tmp_path: Path
) -> None:
    def forgery(folder: Path, index: Index) -> Index:
        path = folder / "cycles" / "0001.json"
        values = json.loads(path.read_text())
        values = {k: v for k, v in values.items() if k not in ("format", "sha256")}
        path.write_bytes(stored.to_bytes({**values, "cut_class": "magic"}))
        return index

    target = tmp_path / "f.tar"
    forged(campaign, target, forgery)
    with refused(ErrorId.BUNDLE_NOT_JUDGED, BundleRefused, naming="magic"):
        verify(target, FrameLogReader())


def test_absurd_numbers_are_refused_in_words(tmp_path: Path) -> None:
    source, target = tmp_path / "b.tar", tmp_path / "f.tar"
    bundle_of(stored_copy("registers-lying", tmp_path), source)

    def forgery(folder: Path, index: Index) -> Index:
        made = RunFolder.open(only_run(folder))
        load = made.load()
        assert load is not None
        made.write_load(replace(load, sent={**load.sent, 2: 1 << 63}))
        return index

    forged(source, target, forgery)
    with refused(
        ErrorId.BUNDLE_NOT_JUDGED, BundleRefused, naming="hold what no run leaves"
    ):
        verify(target, FrameLogReader())


def test_a_run_that_no_cycle_counts_yet_makes_no_bundle(tmp_path: Path) -> None:
    made = campaign_of(tmp_path, (PASSED, LYING))
    (made.path / "cycles" / "0002.json").unlink()
    with refused(ErrorId.RUN_NOT_COUNTED, UsageError):
        bundle_of(made.path, tmp_path / "b.tar")


@pytest.mark.parametrize("file", ["acks.log", "server.log", "survivors-ledger.bin"])
def test_a_link_in_a_run_folder_is_not_followed(file: str, tmp_path: Path) -> None:
    """The folder may be another user's, and the bundle be made by root."""
    path = stored_copy(PASSED, tmp_path) / file
    path.unlink(missing_ok=True)
    run = RunFolder.open(path.parent)
    after = run.after()
    node = after.nodes[after.reader_name]
    assert node.host is not None
    nodes = {after.reader_name: replace(node, host=replace(node.host, log=None))}
    run.write_after(replace(after, nodes=nodes))
    (secret := tmp_path / "secret").write_text("a private file")
    path.symlink_to(secret)
    with refused(ErrorId.FILE_REPLACED, UsageError):
        bundle_of(path.parent, tmp_path / "b.tar")
    assert not (tmp_path / "b.tar").exists()


def test_verdicts_are_of_the_forgeries(campaign: Path, tmp_path: Path) -> None:
    """The forger's index says what the changed cycles show, so only they differ."""
    found = verified(campaign, tmp_path / "f.tar", without_cycle(2))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert not any("the bundle says" in text for text in found.differences)
