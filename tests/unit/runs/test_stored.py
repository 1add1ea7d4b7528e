"""Run folders in places where others can write, and who may read what is in them."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import RunWriteError
from dbcheck.campaign.folder import CampaignFolder, CampaignPlan
from dbcheck.cli import root
from dbcheck.config.workload_file import load
from dbcheck.cycle.judging import judge_run
from dbcheck.judge.result import to_values
from dbcheck.lab.drive.control import copy_drive
from dbcheck.model.verdict import Verdict
from dbcheck.runner import campaign_run
from dbcheck.runs import stored
from dbcheck.runs.folder import RunFolder
from dbcheck.witness.log import FrameLogReader
from tests.kit.files import STRANGER, give_away
from tests.kit.refusals import refused
from tests.kit.stored_run import manifest, stored_run

PRECIOUS = b"root:x:0:0:root:/root:/bin/sh\n"


@pytest.fixture
def open_umask() -> Iterator[None]:
    """Have files made for everyone, unless somebody says otherwise."""
    old = os.umask(0)
    yield
    os.umask(old)


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """Give a file that no link may lead to."""
    path = tmp_path / "passwd"
    path.write_bytes(PRECIOUS)
    return path


def modes(folder: Path) -> set[tuple[bool, int]]:
    """Return which modes there are: (of a folder?, mode)."""
    found = [folder, *folder.rglob("*")]
    return {(path.is_dir(), stat.S_IMODE(path.stat().st_mode)) for path in found}


def campaign(folder: Path) -> CampaignFolder:
    plan = ("t", "0", "n", "url", 1, load("insert"), 3, 9, None, False, True)
    return CampaignFolder.create(folder, CampaignPlan(*plan))


@pytest.mark.usefixtures("open_umask")
def test_what_is_stored_is_for_its_user_alone(tmp_path: Path) -> None:
    runs = tmp_path / "some" / "runs"
    judge_run(run := stored_run(RunFolder.create(runs, manifest())), FrameLogReader())
    with run.locked():
        assert (run.path / "lock").exists()
    with (tmp_path / "drive").open("w+b") as drive:
        drive.write(b"x")
        drive.flush()
        copy_drive(drive.fileno(), 1, run.image_path)
    campaign(tmp_path / "campaigns" / "one").write_lines()
    for made in (tmp_path / "some", tmp_path / "campaigns"):
        assert modes(made) == {(True, 0o700), (False, 0o600)}


@pytest.mark.usefixtures("open_umask")
def test_an_inventory_is_for_its_user_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "inventory.yml"
    monkeypatch.setattr(sys, "argv", ["dbcheck", "init", str(file)])
    assert root.run() == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_link_in_place_of_a_file_is_replaced(tmp_path: Path, precious: Path) -> None:
    (tmp_path / "load.json.part").symlink_to(precious)
    stored.write_file(tmp_path / "load.json", [b"new"])
    assert precious.read_bytes() == PRECIOUS
    assert (tmp_path / "load.json").read_bytes() == b"new"
    assert not (tmp_path / "load.json").is_symlink()


def test_a_lock_that_is_a_link_is_refused(tmp_path: Path, precious: Path) -> None:
    (tmp_path / "lock").symlink_to(precious)
    with (
        refused(ErrorId.FOLDER_NOT_WRITABLE, RunWriteError, naming="symbolic links"),
        stored.lock_folder(tmp_path),
    ):
        pass
    assert precious.read_bytes() == PRECIOUS


def test_a_lock_that_is_another_file_keeps_its_content(
    tmp_path: Path, precious: Path
) -> None:
    (tmp_path / "lock").hardlink_to(precious)
    with stored.lock_folder(tmp_path):
        assert precious.read_bytes() == PRECIOUS


@pytest.mark.timeout(20)
def test_a_lock_that_is_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "lock")
    with (
        refused(ErrorId.FOLDER_NOT_WRITABLE, RunWriteError),
        stored.lock_folder(tmp_path),
    ):
        pass


@pytest.mark.parametrize("linked", [False, True])
def test_the_runs_of_another_user_take_no_run(
    linked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a working directory where somebody else was quicker."""
    runs = tmp_path / "runs"
    if linked:
        runs.symlink_to("/")
    else:
        runs.mkdir()
    give_away(runs, monkeypatch)
    for create in (lambda: RunFolder.create(runs, manifest()), lambda: campaign(runs)):
        with refused(ErrorId.FOLDER_OF_OTHER_USER, RunWriteError) as caught:
            create()
        assert "your own" in caught.value.hint


def test_the_run_of_another_user_is_judged_and_not_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = stored_run(RunFolder.create(tmp_path, manifest()))
    before = {path.name for path in run.path.iterdir()}
    give_away(run.path, monkeypatch)
    assert judge_run(run, FrameLogReader()).verdict is Verdict.PASS
    with refused(ErrorId.FOLDER_OF_OTHER_USER, RunWriteError), run.locked():
        pass
    with refused(ErrorId.FOLDER_OF_OTHER_USER, RunWriteError):
        run.write_verdict({})
    assert {path.name for path in run.path.iterdir()} == before


def test_a_run_put_in_the_place_of_ours_gets_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder where others may rename what is ours."""
    theirs = tmp_path / "theirs"
    run = RunFolder.create(tmp_path / "runs", manifest())
    run.path.rename(theirs)
    run.path.symlink_to(theirs)
    give_away(run.path, monkeypatch)
    with refused(ErrorId.FOLDER_OF_OTHER_USER, RunWriteError):
        run.write_verdict({})
    assert not (theirs / "verdict.json").exists()


@pytest.mark.parametrize(
    ("mode", "is_refused"), [(0o777, True), (0o1777, False), (0o775, False)]
)
def test_where_everyone_can_put_a_file_there_is_no_run(
    mode: int, is_refused: bool, tmp_path: Path
) -> None:
    """0775 is what many systems give a folder that only its user can write to."""
    runs = tmp_path / "runs"
    runs.mkdir()
    runs.chmod(mode)
    if is_refused:
        with refused(ErrorId.FOLDER_OPEN_TO_OTHERS, RunWriteError) as caught:
            RunFolder.create(runs, manifest())
        assert caught.value.hint.startswith(f"Run chmod o-w {runs}, or ")
    else:
        assert RunFolder.create(runs, manifest()).manifest().run_id


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a folder away")
def test_root_works_in_the_folders_of_the_user_who_called_sudo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_away(tmp_path, monkeypatch)
    monkeypatch.setenv("SUDO_UID", str(STRANGER + 1))
    with refused(ErrorId.FOLDER_OF_OTHER_USER, RunWriteError):
        RunFolder.create(tmp_path, manifest())
    monkeypatch.setenv("SUDO_UID", str(STRANGER))
    run = RunFolder.create(tmp_path / "new", manifest())
    run.write_verdict({})
    with run.locked():
        pass
    made = [tmp_path / "new", run.path, *run.path.iterdir()]
    assert {path.name for path in made} > {"verdict.json", "lock", "client.key"}
    assert {path.stat().st_uid for path in made} == {STRANGER}


def test_a_run_that_everyone_may_write_to_is_judged(tmp_path: Path) -> None:
    """As on filesystems without owners, which show 0777 whatever one does."""
    run = stored_run(RunFolder.create(tmp_path, manifest()))
    run.path.chmod(0o777)
    outcome = judge_run(run, FrameLogReader())
    assert outcome.verdict is Verdict.PASS
    assert to_values(outcome.result)["stored"] is False
    assert not (run.path / "verdict.json").exists()


@pytest.mark.parametrize("planted", ["the folder", "one in it"])
def test_a_campaign_that_another_user_put_there_is_not_resumed(
    planted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its plan names an inventory, and that one programs."""
    root = tmp_path / "campaigns"
    mine, theirs = campaign(root / "1"), campaign(root / "0")
    if planted == "the folder":
        give_away(mine.path, monkeypatch)
        root = mine.path
    else:
        give_away(theirs.path, monkeypatch)
    with refused(ErrorId.FOLDER_OF_OTHER_USER, RunWriteError):
        campaign_run.list_stored_campaigns(root)
