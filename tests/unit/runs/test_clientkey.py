"""The client's key to a run: who may read it, and what it recognises."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import RunFormatError, RunWriteError, WitnessError
from dbcheck.cycle.preflight.before_load import _new_run
from dbcheck.runs import client_key, stored
from dbcheck.runs.client_key import ClientKey
from dbcheck.runs.folder import RunFolder
from dbcheck.runs.records import Recalled
from tests.kit.partial_rig import RecordingListener, rig_of
from tests.kit.refusals import refused
from tests.kit.samples import LOAD, MANIFEST

RUN = MANIFEST.run_id
RECORD = stored.to_bytes(LOAD)


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which keys are kept, which does not exist yet."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "dbcheck" / "runs"


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path / "runs", MANIFEST)


def key_of(run: RunFolder) -> ClientKey:
    key = run.key()
    assert key is not None
    return key


def test_a_key_is_kept_for_its_user_alone(run: RunFolder, state: Path) -> None:
    old = os.umask(0)
    try:
        client_key.remember(key_of(run))
    finally:
        os.umask(old)
    assert state.stat().st_mode & 0o777 == 0o700
    for path in (run.path / "client.key", state / f"{RUN}.json"):
        assert path.stat().st_mode & 0o777 == 0o600
        assert ClientKey.read(path) == key_of(run)
    assert RunFolder.open(run.path).key() == client_key.recall(RUN) == key_of(run)
    assert key_of(run).secret not in repr(key_of(run))
    client_key.forget(RUN)
    client_key.forget(RUN)
    assert client_key.recall(RUN) is None


def link(path: Path) -> None:
    path.rename(path.with_name("other"))
    path.symlink_to("other")


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def give_away(path: Path) -> None:
    if os.geteuid():
        pytest.skip("needs root, to give a file away")
    os.chown(path, 12345, 12345)


def damage(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"secret": "', b'"secret": "0'))


@pytest.mark.parametrize(
    "change", [lambda p: p.chmod(0o604), link, fifo, damage, give_away]
)
def test_a_key_that_others_may_have_written_is_refused(
    run: RunFolder, change: Callable[[Path], None]
) -> None:
    change(run.path / "client.key")
    with pytest.raises(RunFormatError, match=r"client\.key"):
        RunFolder.open(run.path).key()


def test_each_run_has_a_key_of_its_own(run: RunFolder, tmp_path: Path) -> None:
    other = key_of(RunFolder.create(tmp_path / "others", MANIFEST))
    assert other.secret != key_of(run).secret
    assert not other.fits(RECORD, key_of(run).seal(RECORD))


def test_where_no_key_can_be_kept_the_user_hears_of_it(
    tmp_path: Path, state: Path
) -> None:
    listener = RecordingListener()
    rig = replace(rig_of(listener), runs=tmp_path / "first")
    run = _new_run(rig, MANIFEST)
    assert not listener.phases
    assert client_key.recall(RUN) == key_of(run)
    lab = replace(MANIFEST, run_id=f"{RUN[:-1]}0")
    of_lab = _new_run(replace(rig, runs=tmp_path / "lab", lab={"cut": "drive"}), lab)
    assert RunFolder.open(of_lab.path).is_own()
    client_key.forget(lab.run_id)
    with refused(ErrorId.FOLDER_NOT_WRITABLE, RunWriteError, naming="File exists"):
        client_key.remember(key_of(run))
    client_key.forget(RUN)
    state.rmdir()
    state.write_bytes(b"")
    _new_run(replace(rig, runs=tmp_path / "second"), MANIFEST)
    ((_, said),) = listener.phases
    assert said.startswith("the key of this run is stored only in its folder: ")


@pytest.mark.parametrize("known", [True, False])
def test_a_manifest_is_compared_with_what_was_stored(
    run: RunFolder, tmp_path: Path, known: bool
) -> None:
    key = key_of(run) if known else None
    content = stored.to_bytes(MANIFEST)
    again = RunFolder.recall(tmp_path / "again", RUN, content, key, "w")
    assert again.manifest() == MANIFEST
    assert RunFolder.open(again.path).key() == key
    assert again.recalled() == Recalled(manifest=not known)
    if known:
        with refused(ErrorId.WITNESS_COPY_CHANGED, WitnessError, naming="manifest"):
            RunFolder.recall(tmp_path / "more", RUN, content + b" ", key, "w")
        assert not (tmp_path / "more").exists()
    other = f"{RUN[:-1]}0"
    with refused(
        ErrorId.WITNESS_COPY_CHANGED, RunFormatError, naming=f"w is that of run {RUN}"
    ):
        RunFolder.recall(tmp_path / "more", other, content, key, "w")


@pytest.mark.parametrize("seal", [None, 7, "", "\ud800", "0" * 64])
def test_a_record_without_the_clients_seal_is_refused(
    run: RunFolder, seal: object
) -> None:
    with refused(
        ErrorId.WITNESS_COPY_CHANGED, WitnessError, naming="record of the load"
    ):
        run.recall_load(RECORD, seal, "w")
    assert run.load() is None
    run.recall_load(RECORD, key_of(run).seal(RECORD), "w")
    assert run.load() == LOAD
    assert run.recalled() == Recalled()


def test_a_run_that_was_made_without_a_key_can_be_read(run: RunFolder) -> None:
    (run.path / "client.key").unlink()
    old = RunFolder.open(run.path)
    old.write_load(LOAD)
    assert old.load() == LOAD
    assert old.recalled() == Recalled()
    old.recall_load(RECORD, None, "w")
    assert old.recalled() == Recalled(load=True)


def test_a_disk_that_is_full_leaves_no_half_of_a_key(
    run: RunFolder, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with refused(ErrorId.FOLDER_NOT_WRITABLE, RunWriteError, naming="No space"):
        client_key.remember(key_of(run))
    assert list(state.iterdir()) == []


def test_a_folder_of_keys_that_is_not_ours_holds_none(
    run: RunFolder, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As root may have made it in the home of another user."""
    client_key.remember(key_of(run))
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != state)
    assert client_key.recall(RUN) is None
    client_key.forget(RUN)
    monkeypatch.undo()
    assert (state / f"{RUN}.json").exists()


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"{", "not JSON"), (b'{"format": 1, "secret": ""}', "checksum mismatch")],
)
def test_a_key_that_is_damaged_says_what_can_be_done(
    content: bytes, says: str, run: RunFolder, state: Path
) -> None:
    client_key.remember(key_of(run))
    (state / f"{RUN}.json").write_bytes(content)
    with refused(ErrorId.RECORD_DAMAGED, RunFormatError, naming=says) as caught:
        client_key.recall(RUN)
    assert f"Without {state / RUN}.json the run can be judged" in caught.value.hint
