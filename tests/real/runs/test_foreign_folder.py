"""Stored folders that somebody else made, as one that was unpacked from an archive."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import DbcheckError, RunFormatError
from dbcheck.campaign.folder import CampaignFolder
from dbcheck.campaign.totals import ERROR_FILE, read_ending
from dbcheck.cli.report import read_result
from dbcheck.cycle.judging import judge_run
from dbcheck.rows.table import LEDGER
from dbcheck.runs import client_key, stored
from dbcheck.runs.client_key import ClientKey
from dbcheck.runs.folder import RunFolder
from dbcheck.runs.records import read_manifest
from dbcheck.witness.log import FrameLogReader
from tests.kit.hostile import CLEARTEXT, asks, hostile
from tests.kit.nodes import having
from tests.kit.refusals import refused
from tests.kit.samples import MANIFEST, PLAN
from tests.kit.stored_run import campaign_files, run_files
from tests.kit.users import PLANTED, run_dbcheck
from tests.kit.witness_logs import LogMaker

RUN = MANIFEST.run_id


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's state folder, which does not exist yet."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "dbcheck"


# ------------------------------------------------------------------------------- a run


@pytest.fixture
def asking() -> Iterator[tuple[int, list[bytes]]]:
    """A PostgreSQL server's port that asks for the password in clear; what it heard."""
    heard: list[bytes] = []
    with hostile(asks(CLEARTEXT, heard)) as port:
        yield port, heard


def url_of(port: int) -> str:
    return f"postgresql://u@127.0.0.1:{port}/d?sslmode=disable&require_auth=password"


def stranger(folder: Path, port: int) -> RunFolder:
    """Return a run of another client's, which is on the witness that it names.

    Its folder has a key of its own, as such a folder may have.
    """
    first = replace(MANIFEST, witness=f"file:{folder}/witness")
    run = RunFolder.create(folder / "there", having(first, target=url_of(port)))
    on_witness = folder / "witness" / RUN
    on_witness.mkdir(parents=True, mode=0o700)
    (on_witness / "manifest.json").write_bytes(stored.to_bytes(run.manifest()))
    (on_witness / "acks.log").write_bytes(LogMaker(RUN).data())
    return run


def test_a_run_of_a_stranger_does_not_choose_who_is_sent_the_password(
    tmp_path: Path, asking: tuple[int, list[bytes]]
) -> None:
    port, heard = asking
    run = stranger(tmp_path, port)
    code, said = run_dbcheck(tmp_path, "reconcile", run.path, "--wait", "1")
    assert not heard
    assert code == 2
    assert (
        "needs --target and --witness: nothing shows that it is a run of yours" in said
    )
    command = f"dbcheck reconcile {run.path} --target URL --witness URL"
    assert command in " ".join(said.split())


@pytest.mark.parametrize("forged", ["manifest", "run_id"])
def test_a_key_counts_for_its_own_manifest_alone(
    tmp_path: Path, state: Path, asking: tuple[int, list[bytes]], forged: str
) -> None:
    """A stranger knows the id of a run of ours, or names its own key as the state's."""
    port, heard = asking
    run = stranger(tmp_path, port)
    if forged == "manifest":
        client_key.remember(ClientKey.draw(RUN, stored.to_bytes(MANIFEST)))
    else:
        (state / "runs").mkdir(parents=True)
        given = run.path / "given.json"
        path = os.path.relpath(given.with_suffix(""), state / "runs")
        content = stored.to_bytes(replace(run.manifest(), run_id=path))
        (run.path / "manifest.json").write_bytes(content)
        ClientKey.draw(path, content).write(given)
    code, said = run_dbcheck(tmp_path, "reconcile", run.path, "--wait", "1")
    assert (code, heard) == (2 if forged == "manifest" else 4, []), said


def test_the_users_own_run_is_reconciled_with_the_options_of_its_url(
    tmp_path: Path, asking: tuple[int, list[bytes]]
) -> None:
    """Its very bytes are known: nobody else wrote these options."""
    port, heard = asking
    run = stranger(tmp_path, port)
    key = run.key()
    assert key is not None
    client_key.remember(key)
    (run.path / client_key.FILE).unlink()
    _, said = run_dbcheck(tmp_path, "reconcile", run.path, "--wait", "1")
    assert PLANTED.encode() + b"\0" in heard, said


@pytest.mark.parametrize("name", ["a/b", "..", "a\0b", "a\ud800", "a" * 300, ""])
def test_a_run_id_that_no_folder_can_have_is_refused(name: str) -> None:
    """It names the user's key to the run."""
    with refused(ErrorId.RECORD_DAMAGED, naming="the manifest"):
        read_manifest(stored.to_bytes(replace(MANIFEST, run_id=name)), "the manifest")


def test_the_manifest_that_was_checked_is_the_one_that_is_used(
    tmp_path: Path, asking: tuple[int, list[bytes]]
) -> None:
    """Others of a folder's group may change the file between the two."""
    mine = stranger(tmp_path, asking[0])
    mine.remember()
    run = RunFolder.open(mine.path)
    assert run.is_own()
    (run.path / "manifest.json").write_bytes(stored.to_bytes(MANIFEST))
    assert run.manifest() == mine.manifest() != RunFolder.open(run.path).manifest()
    assert not RunFolder.open(run.path).is_own()


# -------------------------------------------------------------------------- a campaign


def inventory(folder: Path) -> Path:
    """Return an inventory that is a program, and notes that it was run."""
    path = folder / "hosts"
    path.write_text(f"#!/bin/sh\ntouch {folder}/ran\necho '{{}}'\n")
    path.chmod(0o755)
    return path


def test_a_campaign_of_a_stranger_does_not_choose_the_inventory(tmp_path: Path) -> None:
    hosts = inventory(tmp_path)
    plan = replace(PLAN, name="db1", inventory=str(hosts))
    folder = CampaignFolder.create(tmp_path / "campaign", plan)
    resumed = ("campaign", "--resume", folder.path)
    code, said = run_dbcheck(tmp_path, *resumed)
    assert not (tmp_path / "ran").exists()
    assert code == 2
    command = f"dbcheck campaign --resume {folder.path} --inventory FILE"
    assert command in " ".join(said.split())
    assert "has no host db1" in run_dbcheck(tmp_path, *resumed, "--inventory", hosts)[1]
    folder.remember()
    (tmp_path / "ran").unlink()
    assert "has no host db1" in run_dbcheck(tmp_path, *resumed)[1]
    assert (tmp_path / "ran").exists()


def test_so_is_the_plan(tmp_path: Path) -> None:
    folder = CampaignFolder.create(tmp_path / "campaign", PLAN)
    folder.remember()
    again = CampaignFolder.open(folder.path)
    assert again.is_own()
    other = stored.to_bytes(replace(PLAN, inventory="/another"))
    (folder.path / "campaign.json").write_bytes(other)
    assert again.plan() == PLAN
    assert not CampaignFolder.open(folder.path).is_own()


def test_a_cycle_names_no_folder_outside_of_its_campaign(tmp_path: Path) -> None:
    folder = CampaignFolder.create(tmp_path / "campaign", PLAN)
    content = campaign_files()["cycles/0001.json"].replace(RUN.encode(), b"../../ours")
    values = json.loads(content)
    del values["format"], values["sha256"]
    (folder.path / "cycles" / "0001.json").write_bytes(stored.to_bytes(values))
    with refused(ErrorId.RECORD_DAMAGED, naming="../../ours"):
        folder.cycles()


# --------------------------------------------------------------- what is in a folder

FILES = {
    "run": ("acks.log", "survivors-ledger.bin", "different-ledger.jsonl", "load.json"),
    "campaign": ("cycles/0001.json",),
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", ["fifo", "zeros"])
@pytest.mark.parametrize(("of", "name"), [(of, n) for of in FILES for n in FILES[of]])
def test_what_is_no_file_in_a_folder_is_refused_at_once(
    tmp_path: Path, of: str, name: str, kind: str
) -> None:
    for each, content in (run_files() if of == "run" else campaign_files()).items():
        (tmp_path / each).parent.mkdir(exist_ok=True)
        (tmp_path / each).write_bytes(content)
    path = tmp_path / name
    path.unlink(missing_ok=True)
    if kind == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(DbcheckError, match=f"{path}.*not a regular file"):
        if of == "run":
            run = RunFolder.open(tmp_path)
            run.different_ids(LEDGER.name)
            judge_run(run, FrameLogReader())
        read_result(tmp_path)


def test_no_text_of_another_file_gets_into_a_report(tmp_path: Path) -> None:
    folder = CampaignFolder.create(tmp_path / "campaign", PLAN)
    (tmp_path / "passwords").write_text(PLANTED)
    (folder.path / ERROR_FILE).symlink_to(tmp_path / "passwords")
    assert read_ending(folder) == ("", "")


def test_the_text_of_an_error_is_no_longer_than_a_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else one of many GiB would be held in memory."""
    folder = CampaignFolder.create(tmp_path / "campaign", PLAN)
    (folder.path / ERROR_FILE).write_text("it broke\n")
    assert read_ending(folder) == ("it broke", "")
    monkeypatch.setattr(stored, "_RECORD_BYTES_MAX", 4)
    with refused(ErrorId.RECORD_UNREADABLE, RunFormatError, naming=ERROR_FILE):
        read_ending(folder)
