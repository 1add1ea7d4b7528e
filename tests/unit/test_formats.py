"""Records of older and newer formats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dbcheck import formats, stored
from dbcheck.campaign.folder import Cycle, Plan
from dbcheck.campaign.known import Known
from dbcheck.core.control import ControlFacts, ControlOutcome
from dbcheck.core.records import AfterRecord, LoadRecord, Manifest
from dbcheck.core.verdict import CycleVerdict
from dbcheck.errors import RunFormatError
from dbcheck.formats import FORMAT
from dbcheck.runs import Recalled, RunFolder, read_manifest
from tests.kit.nodes import at_the_cut
from tests.kit.samples import MANIFEST, PLAN
from tests.runs import make

OLD = Path(make.__file__).parent / "format-2" / "postgresql-pass"


def rewritten(values: dict[str, Any], tmp_path: Path) -> bytes:
    """Return a record with a digest that fits."""
    make.write(tmp_path / "record.json", values)
    return (tmp_path / "record.json").read_bytes()


@pytest.mark.parametrize("number", range(2, FORMAT))
@pytest.mark.parametrize(("record", "name"), [("load", "cut"), ("after", "facts")])
def test_what_every_format_holds_is_not_left_out(
    number: int, record: str, name: str, tmp_path: Path
) -> None:
    """It would read as if there had been no cut, or as if no server were back."""
    kind, steps = {
        "load": (LoadRecord, formats.LOAD),
        "after": (AfterRecord, formats.AFTER),
    }[record]
    place = OLD.parents[1] / f"format-{number}" / OLD.name / f"{record}.json"
    values = make.read(place)
    del values[name]
    with pytest.raises(RunFormatError, match=f"here is damaged:.*{name}"):
        stored.from_bytes(rewritten(values, tmp_path), kind, "here", steps)


@pytest.mark.parametrize("number", [1, FORMAT + 1, 99])
def test_a_format_that_is_not_known_is_refused(number: int, tmp_path: Path) -> None:
    values = {**make.read(OLD / "manifest.json"), "format": number}
    with pytest.raises(RunFormatError, match=f"is of format {number}; ") as caught:
        read_manifest(rewritten(values, tmp_path), "here")
    known = ", ".join(map(str, range(2, FORMAT + 1)))
    assert f"reads format {known}" in str(caught.value)
    assert ("or a newer one" in caught.value.hint) is (number > FORMAT)


@pytest.mark.parametrize("number", [None, True, 3.0, "3", [3]])
def test_what_names_no_format_is_no_record(number: object) -> None:
    content = json.dumps({"format": number}).encode()
    with pytest.raises(RunFormatError, match="names no format"):
        read_manifest(content, "here")


def test_a_kind_of_record_that_format_2_did_not_have_is_refused(tmp_path: Path) -> None:
    content = rewritten({"format": 2, "manifest": True}, tmp_path)
    with pytest.raises(RunFormatError, match=f"this dbcheck reads format {FORMAT}$"):
        stored.from_bytes(content, Recalled, "here")


@pytest.mark.parametrize(
    ("record", "change"),
    [
        ("manifest.json", {"lab": 7}),
        ("manifest.json", {"lab": [1]}),
        ("manifest.json", {"lab": {"rung": []}}),
        ("manifest.json", {"host": 7}),
        ("manifest.json", {"host": {"facts": None}}),
        ("manifest.json", {"host": {"facts": {"layers": 1}}}),
        ("after.json", {"host": "x"}),
        ("after.json", {"host": {"facts": {}}}),
    ],
)
def test_what_no_format_2_held_is_refused(
    record: str, change: dict[str, Any], tmp_path: Path
) -> None:
    """A witness may send anything, with a digest that fits."""
    values = {**make.read(OLD / record), **change}
    (tmp_path / "manifest.json").write_bytes((OLD / "manifest.json").read_bytes())
    (tmp_path / record).write_bytes(rewritten(values, tmp_path))
    run = RunFolder.open(tmp_path)
    with pytest.raises(RunFormatError, match=f"{record} is damaged"):
        run.manifest() if record == "manifest.json" else run.after()


def test_what_a_witness_holds_of_format_2_is_read(tmp_path: Path) -> None:
    content = (OLD / "manifest.json").read_bytes()
    run_id = json.loads(content)["run_id"]
    run = RunFolder.recall(tmp_path, run_id, content, None, "there")
    run.recall_load((OLD / "load.json").read_bytes(), None, "there")
    assert run.manifest().sizes_by_epoch
    load = run.load()
    assert load is not None
    assert at_the_cut(load).host_lived is None
    assert json.loads((run.path / "load.json").read_bytes())["format"] == FORMAT


def test_an_upgraded_record_is_stored_in_the_newest_format() -> None:
    run = RunFolder.open(OLD)
    for record, kind in (
        (run.manifest(), Manifest),
        (run.load(), LoadRecord),
        (run.after(), AfterRecord),
    ):
        assert stored.from_bytes(stored.to_bytes(record), kind, "here") == record


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("postgresql-pass", ""),
        ("mariadb-pass", "leaves none on such a server"),
        ("mysql-pass", "leaves none on such a server"),
    ],
)
def test_a_canary_that_format_2_never_left_is_not_looked_for(
    name: str, says: str
) -> None:
    """That none is found would look as if recovery from a crash had removed it."""
    no_canary = RunFolder.open(OLD.parent / name).manifest().no_canary
    assert no_canary.endswith(says)
    assert bool(no_canary) is bool(says)


def of_format_4(values: dict[str, Any]) -> bytes:
    """Return a record as format 4 stored it."""
    kept = {k: v for k, v in values.items() if k not in ("format", "sha256")}
    stamped = json.loads(stored.to_bytes(kept))
    return json.dumps({**stamped, "format": 4}).encode()


def test_what_format_5_did_not_change_is_read_as_format_4_stored_it(
    tmp_path: Path,
) -> None:
    """Else a campaign could not be resumed, nor a run be reconciled that it left."""
    for value, kind in ((PLAN, Plan), (Known({"a": "b"}, "r"), Known)):
        content = of_format_4(json.loads(stored.to_bytes(value)))
        assert stored.from_bytes(content, kind, "here", formats.SINCE_4) == value
    run = RunFolder.create(tmp_path, MANIFEST)
    key = run.path / "client.key"
    key.write_bytes(of_format_4(json.loads(key.read_bytes())))
    assert RunFolder.open(run.path).key() is not None


@pytest.mark.parametrize(
    ("verdict", "reason", "outcome"),
    [
        ("PASS", "control lost 2 rows, as it must", ControlOutcome.LOST),
        ("FAIL", "unrecoverable", ControlOutcome.FAILED),
        ("INCONCLUSIVE", "control lost nothing", ControlOutcome.BLIND),
        ("INCONCLUSIVE", "control lost nothing, but idle", ControlOutcome.UNFAIR),
    ],
)
def test_what_a_control_of_format_4_showed(
    verdict: str, reason: str, outcome: ControlOutcome
) -> None:
    cycle = Cycle(0, "r", "", 0.0, CycleVerdict(verdict), reason, "")
    values = json.loads(stored.to_bytes(cycle))
    values["control"] = {"run_id": "r", "verdict": verdict, "reason": reason}
    read = stored.from_bytes(of_format_4(values), Cycle, "here", formats.CYCLE)
    assert read.control == ControlFacts("r", outcome, reason)


def test_only_sets_are_sorted_as_they_are_stored() -> None:
    value = {"z": 1, "a": frozenset({"c", "b"}), "m": [{"y": 0, "x": frozenset("ba")}]}
    values = json.loads(stored.to_bytes(value))
    assert list(values) == ["format", "sha256", "z", "a", "m"]
    assert (values["a"], values["m"]) == (["b", "c"], [{"y": 0, "x": ["a", "b"]}])
    assert list(values["m"][0]) == ["y", "x"]


@pytest.mark.parametrize("run", ["postgresql-pass", "mariadb-pass"])
def test_whether_a_host_lived_is_unknown_where_a_record_lacks_it(
    run: str, tmp_path: Path
) -> None:
    """Never "no": that would date the cut."""
    folder = OLD.parents[1] / "format-5" / run
    values = make.read(folder / "load.json")
    del values["host_lived"]
    (tmp_path / "manifest.json").write_bytes((folder / "manifest.json").read_bytes())
    (tmp_path / "load.json").write_bytes(rewritten(values, tmp_path))
    load = RunFolder.open(tmp_path).load()
    assert load is not None
    assert at_the_cut(load).host_lived is None
