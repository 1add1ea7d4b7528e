"""Which folders root's agent takes for its own (agent/host/mounts.py)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from dbcheck.agent.host import mounts
from dbcheck.agent.host.mounts import Mounted, read_mount_id, read_mounts
from dbcheck.agent.wire import Refusal, find_covering_mount
from tests.kit.files import ACCOUNT, AS_ROOT

FUSE = "{id} 1 0:99 / {point} rw - fuse.sshfs /dev/sda rw,user_id={user},group_id=0"


@pytest.fixture
def above(tmp_path: Path) -> Path:
    """A folder of this user's, with the folder of a mount point in it."""
    folder = tmp_path / "above"
    (folder / "parent" / "point").mkdir(parents=True)
    return folder


def why_exposed(above: Path) -> str:
    return mounts.explain_exposure(str(above / "parent" / "point"))


def test_folders_of_ones_own_expose_nothing(above: Path) -> None:
    assert why_exposed(above) == ""
    above.chmod(0o1777)  # as /tmp: nobody can rename what lies in it
    assert why_exposed(above) == ""
    assert mounts.explain_exposure("/") == ""


def _owned(above: Path) -> str:
    os.chown(above, ACCOUNT, ACCOUNT)
    return f"{above} belongs to user {ACCOUNT}, who could put something else"


def _of_group(above: Path) -> str:
    above.chmod(0o770)
    return f"{above} can be written by others than root, who could"


def _of_all(above: Path) -> str:
    (above / "parent").chmod(0o1777)  # who owns the mount point below does not show
    return f"{above}/parent can be written by others"


def _entry_of_account(above: Path) -> str:
    above.chmod(0o1777)
    os.chown(above / "parent", ACCOUNT, -1)
    return f"{above}/parent belongs to user {ACCOUNT}"


def _link(above: Path) -> str:
    (above / "parent").rename(above / "elsewhere")
    (above / "parent").symlink_to("elsewhere")
    return f"{above}/parent is a link, or not a folder"


def _missing(above: Path) -> str:
    above.rename(above.with_name("aside"))
    return f"{above}: No such file"


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(_owned, marks=AS_ROOT),
        _of_group,
        _of_all,
        pytest.param(_entry_of_account, marks=AS_ROOT),
        _link,
        _missing,
    ],
)
def test_a_folder_that_others_can_exchange_is_named(
    above: Path, changed: Callable[[Path], str]
) -> None:
    said = changed(above)
    assert why_exposed(above).startswith(said)


def test_a_mount_in_a_folder_of_all_hides_whose_it_is_mounted_on(
    above: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    above.chmod(0o1777)

    def mount_of(folder: int) -> int:
        is_parent = os.path.samestat(os.fstat(folder), (above / "parent").stat())
        return 1 if is_parent else read_mount_id(folder)

    monkeypatch.setattr(mounts, "read_mount_id", mount_of)
    assert why_exposed(above).startswith(f"{above} can be written by others")


@pytest.mark.parametrize("user", [0, ACCOUNT])
def test_owners_that_a_users_program_names_count_for_nothing(
    user: int, above: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = mounts.open_folder_above(str(above / "parent"))
    mount = read_mount_id(folder)
    os.close(folder)
    served = Mounted(FUSE.format(id=mount, point=above, user=user))
    monkeypatch.setattr(mounts, "read_mounts", lambda: [*read_mounts(), served])
    served_by_user = " is served by a program of another user, who could"
    assert (served_by_user in why_exposed(above)) == bool(user)


def test_a_folder_on_a_drive_without_power_was_looked_at_before(above: Path) -> None:
    """It may answer nothing any more; all others are looked at again."""
    point = str(above / "parent" / "point")
    mount = read_mount_id(folder := mounts.open_folder_above(point))
    os.close(folder)
    above.chmod(0o777)
    with pytest.raises(Refusal, match="can be written by others"):
        mounts.open_folder_above(point, [mount + 1])
    os.close(mounts.open_folder_above(point, [mount]))


@pytest.mark.parametrize(
    ("point", "source"), [("/m/a", ""), ("/m/b\u00a0c", "x"), ("/m/d\re", "y")]
)
def test_a_mount_with_an_odd_name_or_no_source_is_read(
    point: str, source: str, tmp_path: Path
) -> None:
    """As a container may have one among its mounts."""
    table = tmp_path / "mountinfo"
    line = f"2 1 0:9 / {point} rw - tmpfs {source} rw\n"
    table.write_bytes(line.encode())
    (mount,) = read_mounts(str(table))
    assert (mount.point, mount.source, mount.options) == (point, source, "rw")
    found = find_covering_mount(point, str(table))
    assert (found["point"], found["source"]) == (point, source)
