"""The client's disk has to have room for a run before anything is touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.lab import mounts, syscalls
from tests.kit.drive_mounts import own_mounts as own_mounts
from tests.kit.users import User, user_of
from tests.kit.users import user as user

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("own_mounts")]


@user_of("postgresql")
def test_a_run_is_refused_whose_folder_is_on_a_disk_that_is_nearly_full(
    user: User, tmp_path: Path
) -> None:
    small = tmp_path / "small"
    small.mkdir()
    syscalls.mount("dbcheck", str(small), "tmpfs", 0, "size=16m")
    try:
        client = user.start("run", *user.rig, "--runs", str(small / "runs"))
        out, err = client.communicate(timeout=120)
        assert client.returncode == 2, out + err
        assert f"[{ErrorId.RUNS_NEED_ROOM}]" in err and "16 MiB free" in err
        assert "--folder" in err  # a campaign has no --runs
        assert list(small.iterdir()) == []
    finally:
        mounts.umount(small)
    assert user.json("run", *user.rig, code=0)["verdict"] == "PASS"
