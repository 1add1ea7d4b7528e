"""What a result says of the host, the drives and the time until the server was back."""

from __future__ import annotations

import dataclasses
import os
import pwd
from pathlib import Path

import pytest

from dbcheck.base.owners import find_user_name
from dbcheck.cycle.judging import judge_run
from dbcheck.judge.result import RunResult
from dbcheck.model.cluster import ONLY_NODE
from dbcheck.model.records import Manifest, RestoreRecord
from dbcheck.runs.folder import RunFolder
from dbcheck.witness.log import FrameLogReader
from tests.kit.client_clocks import LATER
from tests.kit.stored_run import load_record, manifest, stored_run

CUT_US = 10**6 + 800  # when the switch reported that it had cut


def judged(
    folder: Path, off_s: float | None, stored: Manifest | None = None
) -> RunResult:
    """Return the result of a run whose switch kept the power off for *off_s*."""
    run = stored_run(RunFolder.create(folder, stored or manifest()))
    run.write_load(dataclasses.replace(load_record(), switched_us=CUT_US))
    (run.path / "restore.json").unlink()  # the first that is written counts
    run.write_restore(RestoreRecord({ONLY_NODE: off_s}))
    return judge_run(run, FrameLogReader()).result


def test_the_time_until_the_server_is_back_begins_when_the_power_returns(
    tmp_path: Path,
) -> None:
    passed = (LATER.clock_us - CUT_US) / 1e6
    assert judged(tmp_path, 15.25).recovery_s == pytest.approx(passed - 15.25, abs=0.1)


def test_a_time_off_that_was_not_measured_leaves_it_unknown(tmp_path: Path) -> None:
    assert judged(tmp_path, None).recovery_s is None


def test_a_result_names_the_host_the_drives_and_the_user(tmp_path: Path) -> None:
    stored = dataclasses.replace(manifest(), user="dba")
    checked = judged(tmp_path, 15.25, stored).checked
    host = stored.writer.host
    assert host is not None
    assert (checked.begun, checked.user) == (stored.created, "dba")
    assert checked.host == host.facts.hostname
    known = {drive.name for volume in host.facts.volumes for drive in volume.drives}
    assert {drive.name for drive in checked.drives} == known


def test_the_user_is_who_called_sudo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    known = next(entry for entry in pwd.getpwall() if entry.pw_uid > 0)
    monkeypatch.setenv("SUDO_UID", str(known.pw_uid))
    assert find_user_name() == pwd.getpwuid(known.pw_uid).pw_name
    monkeypatch.setenv("SUDO_UID", "4242424")  # without an account here
    assert find_user_name() == "4242424"
    monkeypatch.delenv("SUDO_UID")
    assert find_user_name() == pwd.getpwuid(0).pw_name
