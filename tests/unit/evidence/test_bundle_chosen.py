"""Bundles of several runs of one server, and forged ones."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dbcheck.evidence.archive import Index
from dbcheck.evidence.staging import ATTESTATION_FILE, CHOSEN_FILE, read_chosen
from dbcheck.evidence.verify import verify
from dbcheck.model.verdict import Verdict
from dbcheck.runs import stored
from dbcheck.runs.folder import RunFolder
from dbcheck.witness.log import FrameLogReader
from tests.kit.bundles import bundle_of, contents, forged, resealed
from tests.kit.chosen_runs import manifest_of, run_of


@pytest.mark.parametrize("redact", [False, True])
def test_it_is_judged_again_as_it_was(redact: bool, tmp_path: Path) -> None:
    made = [run_of(tmp_path / "runs", number) for number in (1, 2, 3)]
    file = tmp_path / "b.tar"
    index = bundle_of(made[1], file, made[0], made[2], redact=redact)
    shutil.rmtree(tmp_path / "runs")
    found = verify(file, FrameLogReader())
    assert (found.differences, found.same) == ((), True)
    assert (found.judged_again, found.not_judged_again) == (3, 0)
    assert (found.kind, found.name) == ("runs", f"{made[0].name}-and-2-more")
    assert found.verdict is index.verdict is Verdict.PASS
    assert {ATTESTATION_FILE, CHOSEN_FILE} <= {name for name, _ in contents(file)}


def test_a_loss_that_was_left_out_stays_named_in_it(tmp_path: Path) -> None:
    made = [run_of(tmp_path / "runs", number) for number in (1, 2)]
    lost = run_of(tmp_path / "runs", 3, lost=1)
    file = tmp_path / "b.tar"
    assert bundle_of(made[0], file, made[1]).verdict is Verdict.INCONCLUSIVE
    kept = dict(contents(file))
    assert lost.name in kept["report.html"].decode()
    assert ATTESTATION_FILE not in kept
    assert str(tmp_path) not in kept[CHOSEN_FILE].decode()
    assert verify(file, FrameLogReader()).same


@pytest.mark.parametrize("redact", [False, True])
def test_one_beside_it_that_cannot_be_read_stays_named(
    redact: bool, tmp_path: Path
) -> None:
    made = [run_of(tmp_path / "runs", number) for number in (1, 2)]
    lost = run_of(tmp_path / "runs", 3, lost=1)
    (lost / "manifest.json").write_bytes(b"{}")
    file = tmp_path / "b.tar"
    index = bundle_of(made[0], file, made[1], redact=redact)
    assert index.verdict is Verdict.INCONCLUSIVE
    kept = dict(contents(file))[CHOSEN_FILE].decode()
    assert lost.name in kept
    assert "dbhost7" not in kept
    assert str(tmp_path) not in kept
    assert verify(file, FrameLogReader()).same


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of two runs that passed, beside one that was left out and failed."""
    folder = tmp_path_factory.mktemp("sealed")
    made = [run_of(folder / "runs", number) for number in (1, 2)]
    run_of(folder / "runs", 3, lost=1)
    bundle_of(made[0], folder / "b.tar", made[1])
    return folder / "b.tar"


def say_that_it_passed(folder: Path, index: Index) -> Index:
    return resealed(folder, replace(index, verdict=Verdict.PASS))


def forget_what_was_left_out(folder: Path, index: Index) -> Index:
    said = read_chosen(folder)
    (folder / CHOSEN_FILE).write_bytes(stored.to_bytes(replace(said, beside=())))
    return resealed(folder, index)


def count_one_twice(folder: Path, index: Index) -> Index:
    """Give a copy of a run another id, and the witness's log as well."""
    first, second = sorted((folder / "runs").iterdir())
    manifest = RunFolder.open(first).manifest()
    changed = replace(manifest_of(2), seed=manifest.seed, epoch=manifest.epoch)
    (second / "manifest.json").write_bytes(stored.to_bytes(changed))
    return resealed(folder, index)


def take_another_server(folder: Path, index: Index) -> Index:
    _, second = sorted((folder / "runs").iterdir())
    manifest = RunFolder.open(second).manifest()
    (name,) = manifest.nodes
    facts = replace(manifest.writer.facts, identity={"system_identifier": "2"})
    nodes = {name: replace(manifest.writer, facts=facts)}
    (second / "manifest.json").write_bytes(
        stored.to_bytes(replace(manifest, nodes=nodes))
    )
    return resealed(folder, index)


def name_it_otherwise(folder: Path, index: Index) -> Index:
    return resealed(folder, replace(index, name="20260101-000000-aaaaaa-and-9-more"))


def add_a_file(folder: Path, index: Index) -> Index:
    (folder / "cycles.jsonl").write_text("{}\n")
    return resealed(folder, index)


def leave_one_open(folder: Path, index: Index) -> Index:
    """Let the server of a run be not back yet."""
    run = RunFolder(sorted((folder / "runs").iterdir())[1])
    run.write_after(replace(run.after(), unanswered="it does not answer"))
    return resealed(folder, index)


def test_a_run_without_a_final_verdict_is_found_out(
    sealed: Path, tmp_path: Path
) -> None:
    forged(sealed, tmp_path / "forged.tar", leave_one_open)
    found = verify(tmp_path / "forged.tar", FrameLogReader())
    assert any("has no final verdict" in text for text in found.differences)


@pytest.mark.parametrize(
    "changed",
    [
        say_that_it_passed,
        forget_what_was_left_out,
        count_one_twice,
        take_another_server,
        name_it_otherwise,
        add_a_file,
    ],
)
def test_a_forged_one_is_found_out(
    changed: Callable[[Path, Index], Index], sealed: Path, tmp_path: Path
) -> None:
    file = tmp_path / "forged.tar"
    forged(sealed, file, changed)
    found = verify(file, FrameLogReader())
    assert not found.same
    assert found.differences
