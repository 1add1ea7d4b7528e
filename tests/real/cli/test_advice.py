"""What dbcheck advises exists, and works where it says so."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.cli import FAILED, USAGE
from dbcheck.runs.client_key import remember
from dbcheck.runs.folder import RunFolder
from tests.kit.stored_run import manifest
from tests.kit.witnesses import running_sshd

NO_LAB = """\
all:
  hosts:
    db1:
      dbcheck_target: postgresql://u@127.0.0.1:1/d
      dbcheck_witness: file:acks
      dbcheck_power: lab
      dbcheck_power_lab: no-such-lab
"""
STRANGER = """\
all:
  hosts:
    db1:
      ansible_host: 127.0.0.1
      ansible_port: {port}
      dbcheck_target: postgresql://u@127.0.0.1:1/d
      dbcheck_witness: ssh://127.0.0.1:{port}/acks
      dbcheck_power: exec
      dbcheck_power_cut: ["false"]
"""


def dbcheck(folder: Path, *words: str, code: int, home: Path | None = None) -> str:
    """Run it in *folder*, which is the user's home, too; return what it says."""
    home = home or folder
    done = subprocess.run(
        (sys.executable, "-m", "dbcheck", *words),
        cwd=folder,
        env=os.environ | {"HOME": str(home), "XDG_STATE_HOME": str(home / "state")},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        pytest.param(("power", "cut", "db1", "--yes"), False, id="power cut"),
        pytest.param(("power", "test", "db1", "--yes"), False, id="power test"),
        pytest.param(("campaign", "db1", "--cuts", "1"), False, id="campaign"),
        pytest.param(("witness", "check", "db1"), True, id="witness check"),
    ],
)
def test_an_unknown_host_key_names_only_options_that_there_are(
    tmp_path: Path, words: tuple[str, ...], offered: bool
) -> None:
    with running_sshd(tmp_path / "sshd", "openssh") as sshd:
        (tmp_path / "inventory.yml").write_text(STRANGER.format(port=sshd.port))
        said = dbcheck(tmp_path, *words, code=FAILED)
    assert "is not known: ssh-ed25519" in said
    assert f"ssh-keyscan -p {sshd.port} 127.0.0.1" in said
    assert ("--accept-new-host-key" in said) is offered
    verb = words[:2] if words[0] != "campaign" else words[:1]
    shown = dbcheck(tmp_path, *verb, "--help", code=0)
    assert ("--accept-new-host-key" in shown) is offered


def test_a_run_that_was_made_by_name_is_reconciled_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only its inventory may know the witness, and no run folder names one."""
    with running_sshd(tmp_path / "sshd", "openssh") as sshd:
        witness = f"ssh://127.0.0.1:{sshd.port}/acks"
        first = replace(manifest(), witness=witness)
        run = RunFolder.create(tmp_path / "runs", first)
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        key = run.key()
        assert key is not None
        remember(key)
        said = dbcheck(tmp_path, "reconcile", str(run.path), code=FAILED)
    assert ErrorId.HOST_KEY_UNKNOWN.value in said
    shown = dbcheck(tmp_path, "reconcile", "--help", code=0)
    for option in ("--name", "--inventory", "--known-hosts"):
        assert option in said
        assert option in shown


def test_a_resumed_campaign_knows_its_inventory(tmp_path: Path) -> None:
    """It advises "dbcheck campaign --resume FOLDER", and nothing more."""
    inventory = tmp_path / "there" / "ours.yml"
    inventory.parent.mkdir()
    inventory.write_text(NO_LAB)
    ours = ("--inventory", "there/ours.yml")
    begun = ("campaign", "db1", "--cuts", "1", "--folder", str(tmp_path / "campaign"))
    said = dbcheck(tmp_path, *begun, *ours, code=FAILED)
    assert "no-such-lab" in said
    assert f"dbcheck campaign --resume {tmp_path}/campaign" in said
    resumed = ("campaign", "--resume", str(tmp_path / "campaign"))
    elsewhere = inventory.parent
    said = dbcheck(elsewhere, *resumed, code=FAILED, home=tmp_path)
    assert "no-such-lab" in said
    other = (*resumed, "--inventory", "none.yml")
    assert "the inventory none.yml does not exist" in dbcheck(
        elsewhere, *other, code=USAGE
    )
