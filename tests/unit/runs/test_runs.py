from __future__ import annotations

import errno
import hashlib
import json
import math
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import DbcheckError, RunFormatError, RunWriteError, UsageError
from dbcheck.cycle.recovery.reading import store_nothing_read
from dbcheck.model.cluster import ONLY_NODE
from dbcheck.model.records import (
    LOGS_MAX,
    AfterRecord,
    CutAsked,
    PreparedRecord,
    RestoreRecord,
    StoredRows,
)
from dbcheck.model.server import Refill
from dbcheck.rows.prepared import Decisions, Name
from dbcheck.runs import stored
from dbcheck.runs.folder import RunFolder, new_run_id, require_run_id
from dbcheck.runs.records import read_manifest
from tests.kit.cycles import record, records_of
from tests.kit.nodes import after_of
from tests.kit.refusals import refused
from tests.kit.samples import FACTS, LOAD, MANIFEST
from tests.kit.stored_run import manifest

TABLE = "ledger"
PREPARED = PreparedRecord(
    (Name(MANIFEST.epoch, 1, 5), Name(MANIFEST.epoch, 2, 8)),
    ONLY_NODE,
    {TABLE: StoredRows(1, "")},
    (0,),
    {"side": "cannot be opened"},
    Decisions(1, 2),
    canary=False,
    refill=Refill("was cloned", "Cut again", replaces=True),
)


def ledger_of(run: RunFolder) -> list[Any]:
    """Return the rows of the ledger that the run stored."""
    batches = run.survivors(TABLE, run.after().stored_rows(TABLE))
    return [row for batch in batches for row in batch.tolist()]


def test_everything_stored_is_read_back(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "runs", MANIFEST)
    assert run.load() is None
    run.write_load(LOAD)
    stored = run.write_survivors(TABLE, [records_of([record(1, 1)]), records_of([])])
    after = after_of(FACTS, survivors={TABLE: stored}, canary=False)
    run.write_after(after)
    again = RunFolder.open(run.path)
    assert again.manifest() == MANIFEST
    assert again.load() == LOAD
    assert again.after() == after
    assert ledger_of(again) == [record(1, 1)]
    assert not list(run.path.glob("*.part"))


def test_what_was_read_before_any_decision_outlives_a_reading_that_broke_off(
    tmp_path: Path,
) -> None:
    run = RunFolder.create(tmp_path, MANIFEST)
    assert run.prepared() is None
    rows = run.write_survivors(TABLE, [records_of([record(1, 1)])])
    run.write_prepared(replace(PREPARED, survivors={TABLE: rows}))
    again = RunFolder.open(run.path)
    assert again.prepared() == replace(PREPARED, survivors={TABLE: rows})
    assert store_nothing_read(again, MANIFEST) == {TABLE: rows}
    again.write_after(after_of(FACTS, survivors={TABLE: rows}))
    assert ledger_of(again) == [record(1, 1)]
    again.forget_survivors()
    assert again.prepared() is None


FAILED = after_of(None, failure="no filesystem")


@pytest.mark.parametrize("failed", [None, FAILED], ids=["none", "failed"])
def test_rows_that_prove_nothing_are_forgotten_before_their_record(
    tmp_path: Path, failed: AfterRecord | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client may end between the two: the next reading would take them."""

    def end(*_: object) -> None:
        raise KeyboardInterrupt

    run = RunFolder.create(tmp_path, MANIFEST)
    run.write_after(after_of(FACTS))
    run.write_prepared(PREPARED)
    with monkeypatch.context() as patched:
        patched.setattr(RunFolder, "write_after", end)
        patched.setattr(Path, "unlink", _first_then(Path.unlink, end))
        with pytest.raises(KeyboardInterrupt):
            run.forget_survivors(failed)
    assert run.prepared() is None
    assert run.after() == after_of(FACTS)
    run.forget_survivors(failed)
    assert (run.path / "after.json").exists() is (failed is not None)
    assert run.read_certain_failure() == failed


def _first_then(real: Callable[..., Any], later: Callable[..., Any]) -> Any:
    """Return what does *real* once, and then *later*."""
    steps = [later, real]
    return lambda *args, **named: (steps.pop() if steps else later)(*args, **named)


def test_the_rows_of_the_failure_that_stands_again_are_kept(tmp_path: Path) -> None:
    """What they show is not in the tables any more; those of a later reading go."""
    run = RunFolder.create(tmp_path, MANIFEST)
    run.write_prepared(PREPARED)
    failed = replace(FAILED, survivors=PREPARED.survivors)
    run.write_after(after_of(FACTS))
    run.forget_survivors(failed)
    assert (run.prepared(), run.after()) == (PREPARED, failed)
    run.forget_survivors(FAILED)
    assert (run.prepared(), run.after()) == (None, FAILED)


@pytest.mark.parametrize(
    ("then", "now", "is_taken"),
    [((4,), 4, True), ((4,), 5, False), ((), 1, False), ((5,), 4, True)],
)
def test_rows_that_are_older_than_an_ack_are_not_taken(
    tmp_path: Path, then: tuple[int, ...], now: int, is_taken: bool
) -> None:
    run = RunFolder.create(tmp_path, MANIFEST)
    run.write_prepared(replace(PREPARED, log_bytes=then))
    run.write_acks(0, [b"a" * now])
    assert (run.prepared() is not None) is is_taken


def test_the_first_time_without_power_counts(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, MANIFEST)
    assert run.restore() is None
    for off_s in (3.5, 15.25):
        run.write_restore(RestoreRecord({ONLY_NODE: off_s}))
    assert run.restore() == RestoreRecord({ONLY_NODE: 3.5})
    other = RunFolder.create(tmp_path, replace(MANIFEST, run_id=f"{MANIFEST.run_id}0"))
    other.write_restore(RestoreRecord({ONLY_NODE: None}))
    assert other.restore() == RestoreRecord({ONLY_NODE: None})
    for off_s in (-1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="no power is off"):
            RestoreRecord({ONLY_NODE: off_s})


def test_a_server_that_did_not_come_back_is_stored(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, MANIFEST)
    run.write_after(after_of(None, failure="no filesystem"))
    assert run.after() == after_of(None, failure="no filesystem")


def test_a_run_is_never_written_over(tmp_path: Path) -> None:
    RunFolder.create(tmp_path, MANIFEST)
    with refused(ErrorId.FOLDER_NOT_WRITABLE, RunWriteError, naming="File exists"):
        RunFolder.create(tmp_path, MANIFEST)


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with refused(ErrorId.NOT_A_RUN_FOLDER, UsageError):
        RunFolder.open(tmp_path)
    run = RunFolder.create(tmp_path, MANIFEST)
    with refused(ErrorId.SURVIVORS_NOT_READ, UsageError):
        run.after()
    run.write_after(after_of(FACTS, survivors={TABLE: StoredRows(1, "")}))
    with refused(
        ErrorId.STORED_ROWS_MISSING, RunFormatError, naming="survivors-ledger.bin"
    ):
        ledger_of(run)


def test_a_run_has_a_log() -> None:
    with pytest.raises(ValueError, match="0 logs"):
        replace(MANIFEST, logs=0)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("seed",), -1),
        (("seed",), 2**63),
        (("epoch",), 0),
        (("epoch",), 10**30),
        (("workload", "payload_bytes"), [10**12]),
        (("workload", "payload_bytes"), [200, 0]),
    ],
)
def test_a_manifest_of_rows_that_no_run_has_is_refused(
    path: tuple[str, ...], value: Any
) -> None:
    """A witness may have written it; such rows would take all memory, or crash."""
    values = json.loads(stored.to_bytes(MANIFEST))
    _change(values, path, value)
    _sign(values)
    with refused(ErrorId.RECORD_DAMAGED, RunFormatError, naming="w is damaged: "):
        read_manifest(json.dumps(values).encode(), "w")


def test_run_ids() -> None:
    run_id = new_run_id("20260102-030405")
    assert require_run_id(run_id) == run_id
    for wrong in ("", "../etc", "20260102-030405-xyzxyz", run_id + "\n"):
        with refused(ErrorId.RUN_ID_INVALID, UsageError):
            require_run_id(wrong)


def _spots(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    if isinstance(value, dict):
        for key, inner in value.items():
            found += _spots(inner, (*path, key))
    return found


def _change(values: Any, path: tuple[Any, ...], to: Any) -> None:
    for key in path[:-1]:
        values = values[key]
    if to is None:
        del values[path[-1]]
    else:
        values[path[-1]] = to


def _sign(values: dict[str, Any]) -> None:
    """Have the digest fit, as if another program had written it."""
    rest = {k: v for k, v in values.items() if k not in ("format", "sha256")}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    values["sha256"] = hashlib.sha256(text.encode()).hexdigest()


def _stored(tmp: Path) -> dict[str, Any]:
    run = RunFolder.create(tmp, MANIFEST)
    run.write_load(LOAD)
    run.write_after(after_of(FACTS, survivors={TABLE: StoredRows(1, "")}))
    run.write_restore(RestoreRecord({ONLY_NODE: 15.25}))
    run.write_cut_asked(CutAsked(7))
    run.write_prepared(PREPARED)
    names = ("manifest", "load", "cut", "restore", "prepared", "after")
    files = [f"{name}.json" for name in names]
    return {name: json.loads((run.path / name).read_bytes()) for name in files}


with tempfile.TemporaryDirectory() as folder:
    STORED = _stored(Path(folder))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.sampled_from(sorted(STORED)), st.data())
def test_damage_is_told_or_harmless(
    tmp_path: Path, name: str, data: st.DataObject
) -> None:
    """A value left out or of another kind gives a clear error, never a traceback."""
    values = json.loads(json.dumps(STORED[name]))
    path = data.draw(st.sampled_from(_spots(values)))
    odd: st.SearchStrategy[Any] = st.sampled_from([None, "x", -1, [], {}, [1], True])
    _change(values, path, data.draw(odd))
    if "sha256" in values and data.draw(st.booleans()):
        _sign(values)
    manifest_too = json.dumps(STORED["manifest.json"])  # names the run's nodes
    (tmp_path / "manifest.json").write_text(manifest_too)
    (tmp_path / name).write_text(json.dumps(values))
    run = RunFolder(tmp_path)
    read = {
        "manifest.json": run.manifest,
        "load.json": run.load,
        "cut.json": run.cut_asked,
        "restore.json": run.restore,
        "prepared.json": run.prepared,
        "after.json": run.after,
    }
    try:
        read[name]()
    except DbcheckError as error:
        assert name in str(error)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("manifest.json", {"lab": 7}),
        ("manifest.json", {"lab": [1]}),
        ("manifest.json", {"lab": {"cut": []}}),
        ("manifest.json", {"nodes": 7}),
        ("manifest.json", {"nodes": {ONLY_NODE: {"facts": None}}}),
        ("load.json", {"nodes": {ONLY_NODE: {}}}),
        ("prepared.json", {"names": []}),
        ("prepared.json", {"reader_name": "stranger"}),
        ("after.json", {"nodes": {ONLY_NODE: {}}}),
        ("after.json", {"nodes": {ONLY_NODE: {"facts": None, "host": "x"}}}),
    ],
)
def test_what_no_record_holds_is_refused(
    name: str, change: dict[str, Any], tmp_path: Path
) -> None:
    """A witness may send anything, with a digest that fits.

    A record without its cut or its server would read as if there had been none.
    """
    values = STORED[name] | change
    _sign(values)
    manifest_too = json.dumps(STORED["manifest.json"])
    (tmp_path / "manifest.json").write_text(manifest_too)
    (tmp_path / name).write_text(json.dumps(values))
    run = RunFolder.open(tmp_path)
    with refused(ErrorId.RECORD_DAMAGED, RunFormatError, naming=name):
        {
            "manifest.json": run.manifest,
            "load.json": run.load,
            "prepared.json": run.prepared,
            "after.json": run.after,
        }[name]()


@pytest.mark.parametrize("number", [0, 2, 6, 99])
def test_a_record_of_another_format_is_refused(number: int) -> None:
    content = json.dumps(STORED["manifest.json"] | {"format": number}).encode()
    with refused(
        ErrorId.RECORD_OF_ANOTHER_VERSION, RunFormatError, naming=f"format {number};"
    ) as caught:
        read_manifest(content, "here")
    assert caught.value.id is ErrorId.RECORD_OF_ANOTHER_VERSION


@pytest.mark.parametrize("number", [None, True, 1.0, "1", [1]])
def test_what_names_no_format_is_no_record(number: object) -> None:
    content = json.dumps({"format": number}).encode()
    with refused(ErrorId.RECORD_DAMAGED, RunFormatError, naming="names no format"):
        read_manifest(content, "here")


def test_only_sets_are_sorted_as_they_are_stored() -> None:
    value = {"z": 1, "a": frozenset({"c", "b"}), "m": [{"y": 0, "x": frozenset("ba")}]}
    values = json.loads(stored.to_bytes(value))
    assert list(values) == ["format", "sha256", "z", "a", "m"]
    assert (values["a"], values["m"]) == (["b", "c"], [{"y": 0, "x": ["a", "b"]}])
    assert list(values["m"][0]) == ["y", "x"]


@pytest.mark.parametrize("name", sorted(STORED))
def test_a_torn_file_is_told(tmp_path: Path, name: str) -> None:
    whole = json.dumps(STORED[name]).encode()
    run = RunFolder(tmp_path)
    read = {
        "manifest.json": run.manifest,
        "load.json": run.load,
        "cut.json": run.cut_asked,
        "restore.json": run.restore,
        "prepared.json": run.prepared,
        "after.json": run.after,
    }
    for length in range(0, len(whole), 7):
        (tmp_path / name).write_bytes(whole[:length])
        with refused(ErrorId.RECORD_DAMAGED, RunFormatError, naming=name):
            read[name]()


def test_one_rotten_bit_is_told(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, MANIFEST)
    stored = run.write_survivors(
        TABLE, [records_of([record(1, n) for n in range(1, 9)])]
    )
    run.write_after(after_of(FACTS, survivors={TABLE: stored}))
    path = run.path / "survivors-ledger.bin"
    whole = path.read_bytes()
    for place in range(0, len(whole), 11):
        rotten = bytearray(whole)
        rotten[place] ^= 4
        path.write_bytes(rotten)
        with refused(
            ErrorId.STORED_ROWS_DAMAGED, RunFormatError, naming="survivors-ledger.bin"
        ):
            ledger_of(run)
    manifest = run.path / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"epoch": 2', '"epoch": 3'))
    with refused(
        ErrorId.RECORD_DAMAGED, RunFormatError, naming="checksum mismatch"
    ) as caught:
        RunFolder.open(run.path).manifest()
    assert "move that folder away" in caught.value.hint  # else --run is refused
    assert caught.value.hint.endswith("a campaign's own file, begin a new campaign.")


def test_the_remedy_for_an_unreadable_record_depends_on_why(tmp_path: Path) -> None:
    for error, remedy in (
        (PermissionError(errno.EACCES, "no"), "Work as the user who made the run."),
        (FileNotFoundError(errno.ENOENT, "no"), ""),
    ):
        assert stored.unreadable_record_error(tmp_path, error).hint == remedy


def test_one_dbcheck_at_a_time(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, MANIFEST)
    busy = refused(ErrorId.FOLDER_IN_USE, RunWriteError)
    with run.locked(), busy, run.locked():
        raise AssertionError("two of them")
    with run.locked():
        pass


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, MANIFEST)
    (run.path / "losses.csv").mkdir()
    with refused(ErrorId.FOLDER_NOT_WRITABLE, RunWriteError):
        run.write_lines("losses.csv", ["x"])
    assert not list(run.path.glob("*.part"))


@pytest.mark.parametrize("logs", [0, LOGS_MAX + 1, 10**12])
def test_a_run_has_no_more_logs_than_a_load_has_processes(logs: int) -> None:
    content = stored.to_bytes(manifest()).replace(b'"logs": 2', b'"logs": %d' % logs)
    with refused(ErrorId.RECORD_DAMAGED, RunFormatError, naming="here is damaged"):
        read_manifest(content, "here")
    with pytest.raises(ValueError, match="cannot have"):
        replace(manifest(), logs=logs)


@pytest.mark.parametrize(
    "changed",
    [
        {"family": "oracle"},
        {"workload": replace(MANIFEST.workload, rate=math.nan)},
        {"workload": replace(MANIFEST.workload, sessions=10**6)},
    ],
)
def test_what_could_not_be_read_back_is_not_begun(
    changed: dict[str, Any], tmp_path: Path
) -> None:
    with refused(ErrorId.RECORD_DAMAGED, RunFormatError, naming="manifest"):
        RunFolder.create(tmp_path / "runs", replace(MANIFEST, **changed))
    assert not (tmp_path / "runs").exists()
