"""The stored runs of tests/runs are judged as they were."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import RunFormatError
from dbcheck.cycle.judging import judge_run
from dbcheck.cycle.outcome import Outcome
from dbcheck.judge.result import to_values
from dbcheck.model.verdict import Verdict
from dbcheck.rows.loss import LossKind
from dbcheck.rows.schedule import Schedule, Sizes
from dbcheck.rows.table import LEDGER
from dbcheck.runs.folder import RunFolder
from dbcheck.witness.log import FrameLogReader
from tests.kit.refusals import refused
from tests.runs import make

ROOT = Path(make.__file__).parent
STORED = sorted(ROOT.glob("*.json"))
NAMES = {name for recipe in make.RECIPES for name in recipe.names} | {*make.DERIVED}
# The recipe of "unrecoverable" stops at a filesystem that cannot be mounted; here the
# filesystem was sound and the server found a damaged page.
OF_THE_SERVER = "unrecoverable-page"


def copied(place: Path, tmp_path: Path) -> RunFolder:
    """Return a copy of a stored run, to be judged."""
    return RunFolder.open(make.copied(place, tmp_path / "run"))


def judged(run: RunFolder) -> Outcome:
    return judge_run(run, FrameLogReader())


def test_every_run_of_the_recipes_is_stored() -> None:
    assert {path.stem for path in STORED} == NAMES | {OF_THE_SERVER}


@pytest.mark.parametrize("expected", STORED, ids=lambda path: path.stem)
def test_a_stored_run_is_judged_as_it_was(expected: Path, tmp_path: Path) -> None:
    """Or otherwise for a reason that is written down, and never a PASS by that."""
    wanted = json.loads(expected.read_text())
    then, today = wanted["then"], wanted.get("today", wanted["then"])
    run = copied(expected.with_suffix(""), tmp_path)
    assert make.shown(to_values(judged(run).result)) == today
    if "today" in wanted:
        assert wanted["why"].endswith(".")
        assert today != then
        assert today["verdict"] in (then["verdict"], "INCONCLUSIVE")


# By run: the one kind of loss that it shows, and what that looks like, best first.
DIAGNOSED = {
    "mariadb-lying": ("missing-tail", ["lost cache"]),
    "missing-row": ("missing-hole", ["reordered writes"]),
    "corrupt-row": ("corrupt", ["data pages"]),
    "duplicate-row": ("duplicate", ["repeats"]),
    "unexpected-row": ("unexpected", []),
    "stale-register": ("stale", ["data pages"]),
    "torn-register": ("torn", ["data pages"]),
    "resurrected-item": ("resurrected", ["data pages"]),
    "lost-after-its-commit": ("prepared", []),
    "broken-condition": ("inconsistent", ["data pages"]),
    "unstable-row": ("unstable", ["data pages"]),
    "diverged-row": ("diverged", ["replication"]),
    "index-mismatch": ("index-mismatch", ["data pages"]),
    "unrecoverable": ("unrecoverable", []),
    OF_THE_SERVER: ("unrecoverable", []),
}


@pytest.mark.parametrize("name", DIAGNOSED)
def test_a_run_shows_each_kind_of_loss(name: str, tmp_path: Path) -> None:
    kind, causes = DIAGNOSED[name]
    result = judged(copied(ROOT / name, tmp_path)).result
    assert result.verdict is Verdict.FAIL
    if kind == "unrecoverable":
        assert result.reasons[1].startswith("unrecoverable: ")
    else:
        assert set(result.losses or ()) == {kind}
    assert [one.cause.value for one in result.diagnosis] == causes


def test_every_kind_of_loss_has_its_run() -> None:
    assert {kind for kind, _ in DIAGNOSED.values()} == {kind.value for kind in LossKind}


def test_a_row_that_was_seen_and_is_gone_decides_nothing(tmp_path: Path) -> None:
    result = judged(copied(ROOT / "seen-then-lost", tmp_path)).result
    assert result.verdict is Verdict.PASS
    assert result.losses == {}
    assert result.seen is not None
    assert result.seen.rows > result.seen.lost > 0
    assert [row.id for row in result.seen.first] == sorted(
        row.id for row in result.seen.first
    )


@pytest.mark.parametrize("name", ["postgresql-pass", "mariadb-control", "lost-client"])
def test_what_is_no_fail_is_not_diagnosed(name: str, tmp_path: Path) -> None:
    result = judged(copied(ROOT / name, tmp_path)).result
    assert result.verdict is not Verdict.FAIL
    assert not result.diagnosis


@pytest.mark.parametrize("run", ["postgresql-pass", "mariadb-pass", "two-processes"])
def test_its_rows_are_those_that_its_seed_decides(run: str) -> None:
    """Else every row of a run that is still to be read would look corrupt."""
    folder = RunFolder.open(ROOT / run)
    manifest = folder.manifest()
    sizes = manifest.workload.payload_bytes
    schedule = Schedule(manifest.seed, manifest.epoch, sizes)
    records = np.concatenate(
        list(folder.survivors(LEDGER.name, folder.after().stored_rows(LEDGER.name)))
    )
    own = records[records["epoch"] == manifest.epoch]
    assert len(own) > 50
    keys = (own["session"].astype(np.int64), own["seq"].astype(np.int64))
    rows = [schedule.row(session, seq) for session, seq in zip(*keys, strict=True)]
    assert [row.checksum for row in rows] == own["checksum"].tolist()
    assert [len(row.payload) for row in rows] == Sizes(schedule).of(*keys).tolist()


# ------------------------------------------------------------------------ mutations


ROWS = "survivors-ledger.bin"


def an_altered_survivor(run: Path) -> None:
    path = make.survivors_of(run)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def a_survivor_less(run: Path) -> None:
    path = make.survivors_of(run)
    path.write_bytes(path.read_bytes()[: -make.RECORD_BYTES])


def a_changed_record(run: Path, record: str, name: str) -> None:
    values = make.read(run / record)
    assert name in values
    (run / record).write_text(json.dumps({**values, name: 77}))


@pytest.mark.parametrize(
    ("change", "name", "id"),
    [
        pytest.param(an_altered_survivor, ROWS, ErrorId.STORED_ROWS_DAMAGED, id="row"),
        pytest.param(a_survivor_less, ROWS, ErrorId.STORED_ROWS_DAMAGED, id="one less"),
        *(
            pytest.param(
                lambda run, of=of: a_changed_record(run, *of),
                of[0],
                ErrorId.RECORD_DAMAGED,
                id=of[0],
            )
            for of in (
                ("manifest.json", "epoch"),
                ("load.json", "in_flight"),
                ("after.json", "survivors"),
            )
        ),
    ],
)
def test_a_changed_file_is_refused(
    change: Callable[[Path], None], name: str, id: ErrorId, tmp_path: Path
) -> None:
    run = copied(ROOT / "postgresql-pass", tmp_path)
    change(run.path)
    with refused(id, RunFormatError, naming=name):
        judged(run)


def an_altered_ack(run: Path) -> None:
    path = run / "acks.log"
    content = bytearray(path.read_bytes())
    content[len(content) * 3 // 4] ^= 1
    path.write_bytes(content)


def acks_of_another_run(run: Path) -> None:
    make.write(
        run / "manifest.json",
        {**make.read(run / "manifest.json"), "run_id": "20260102-030405-a1b2c3"},
    )


def another_epoch(run: Path) -> None:
    manifest = make.read(run / "manifest.json")
    epoch = {"epoch": manifest["epoch"] + 1}
    make.write(run / "manifest.json", {**manifest, **epoch})


def lost_at_the_end(run: Path) -> None:
    content = make.survivors_of(run).read_bytes()
    make.write_survivors(run, content[: -9 * make.RECORD_BYTES])


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        (an_altered_ack, Verdict.INCONCLUSIVE),
        (acks_of_another_run, Verdict.INCONCLUSIVE),
        (another_epoch, Verdict.FAIL),
        (lost_at_the_end, Verdict.FAIL),
    ],
)
def test_what_changed_with_its_digest_changes_the_verdict(
    change: Callable[[Path], None], verdict: Verdict, tmp_path: Path
) -> None:
    run = copied(ROOT / "mariadb-pass", tmp_path)
    change(run.path)
    assert judged(run).verdict is verdict


# ------------------------------------------------------------ what a record may lack


def test_a_host_that_was_not_asked_may_have_lived_on(tmp_path: Path) -> None:
    """A record that lacks it says "unknown", never "no": that would date the cut."""
    run = copied(ROOT / "postgresql-pass", tmp_path)
    manifest, load, after = (
        make.read(run.path / f"{name}.json") for name in ("manifest", "load", "after")
    )
    make.of_node(manifest)["power"] = "exec"
    make.write(run.path / "manifest.json", {**manifest, "lab": {}})
    at_the_cut = make.of_node(load)
    del at_the_cut["host_lived"]
    at_the_cut["cut"]["exact_us"] = None
    make.write(run.path / "load.json", {**load, "gone": "silent"})
    make.of_node(after)["host"]["shut_down"] = None
    make.write(run.path / "after.json", after)
    outcome = judged(run)
    assert outcome.verdict is Verdict.INCONCLUSIVE
    said = "; ".join(outcome.judgement.reasons)
    assert "not checked whether the host still answered" in said
    assert "the host's records of a shutdown" in said
