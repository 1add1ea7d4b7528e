"""No path that a user gives ends in a traceback, and ~ is a home wherever it stands."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dbcheck.cli import MEANS, USAGE
from tests.kit.every_path import STORED_RUN, UNUSABLE

# Permissions count for a root that may not override them, as they do for others.
AS_OTHERS = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search")


def test_no_path_of_a_user_gives_a_traceback(tmp_path: Path) -> None:
    """Each path of each command, as one that is closed, missing or of another kind."""
    before = AS_OTHERS if os.geteuid() == 0 else ()
    done = subprocess.run(
        [*before, sys.executable, "-m", "tests.kit.every_path", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    calls = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(calls) > 300
    for call in calls:
        assert call["code"] in MEANS, call
        assert "Traceback" not in call["output"], call
        if call["kind"] in UNUSABLE:
            assert call["code"] == USAGE, call


def test_a_home_is_a_home_where_no_shell_expands_it(tmp_path: Path) -> None:
    """As in --runs=~/x and file:~/x; nothing called ~ is made."""
    here, home = tmp_path / "here", tmp_path / "home"
    here.mkdir()
    home.mkdir()

    def dbcheck(*words: str) -> int:
        return subprocess.run(
            [sys.executable, "-m", "dbcheck", *words],
            cwd=here,
            env=os.environ | {"HOME": str(home)},
            stdin=subprocess.DEVNULL,
            check=False,
        ).returncode

    assert dbcheck("init", "~/hosts.yml") == 0
    assert (home / "hosts.yml").is_file()
    # On a disk it is used, and in memory it is refused once it is made.
    dbcheck("witness", "check", "--witness", "file:~/acks")
    assert (home / "acks").is_dir()
    for unknown in ("file:~no-such-user/acks", "file:~no-such-user"):
        assert dbcheck("witness", "check", "--witness", unknown) == USAGE
    assert not list(here.iterdir())


@pytest.mark.parametrize("words", [["power", "state", "db1"], ["bundle", "RUN"]])
def test_a_machine_without_a_folder_for_temporary_files_is_told(
    tmp_path: Path, words: list[str]
) -> None:
    """As a container whose filesystem is read-only, or a full disk."""
    shutil.copytree(STORED_RUN, tmp_path / "RUN")
    script = (
        "import tempfile; tempfile._candidate_tempdir_list = lambda: ['/nonexistent'];"
        "from dbcheck.cli import main; main()"
    )
    text = "all: {hosts: {'db[1:2]': }}\n"  # a range, which Ansible reads
    (tmp_path / "inventory.yml").write_text(text)
    done = subprocess.run(
        [sys.executable, "-c", script, *words],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in MEANS
    assert "Traceback" not in done.stderr
    assert "TMPDIR" in done.stderr
