"""What a server's process finds at a path, of a root that is not the agent's."""

from __future__ import annotations

from pathlib import Path

import pytest

from dbcheck.agent.host import data, view
from dbcheck.agent.host.container import OWN, View, open_below_root
from dbcheck.agent.host.facts import find_filesystem_of_place
from dbcheck.agent.host.process import NO_PROCESS


def linked(root: Path, links: dict[str, str]) -> None:
    for name, target in links.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(target)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/data/pg_wal/1", "/wal/1"),  # an absolute link leads below that root
        ("/data/up/1", "/wal/1"),
        ("/data/../../wal", "/wal"),  # nothing leads out of a root
        ("/data/none/1", "/data/none/1"),
        ("/data/broken", "/nowhere/1"),
        ("/", "/"),
        ("//data/./x/", "/data/x"),
    ],
)
def test_links_are_followed_below_the_root(
    path: str, found: str, tmp_path: Path
) -> None:
    (tmp_path / "wal").mkdir()
    links = {
        "data/pg_wal": "/wal",
        "data/up": "../../../wal",
        "data/broken": "/nowhere/1",
    }
    linked(tmp_path, links)
    with open_below_root(str(tmp_path), path) as (_, inner):
        assert inner == found


def test_links_in_a_circle_are_an_error(tmp_path: Path) -> None:
    linked(tmp_path, {"a": "b", "b": "/a"})
    with (
        pytest.raises(OSError, match="symbolic links"),
        open_below_root(str(tmp_path), "/a"),
    ):
        pass


def test_without_a_process_of_the_server_nothing_is_known(tmp_path: Path) -> None:
    found = view.compare_with_server_view([("data", str(tmp_path), [])])
    assert found["seen_otherwise"] == {}
    assert found["view_unread"]


@pytest.mark.parametrize("is_other", [True, False])
def test_files_are_compared_as_each_process_finds_them(
    is_other: bool, tmp_path: Path
) -> None:
    """A process's root may be a folder, as in a chroot."""
    process, log = tmp_path / "9", tmp_path / "log"
    inside = process / "root" / str(log).lstrip("/")
    inside.parent.mkdir(parents=True)
    log.touch()
    if is_other:
        inside.touch()
    else:
        inside.hardlink_to(log)
    (process / "mountinfo").write_text("1 0 8:1 / / rw - xfs /dev/sdx rw\n")
    found, unread = view.find_differences(str(process), [("redo log", str(log), [])])
    assert not unread
    assert found.keys() == ({"redo log"} if is_other else set())
    assert all("/dev/sdx" in text for text in found.values())


def test_what_differs_is_named_though_other_places_cannot_be_read(
    tmp_path: Path,
) -> None:
    process, log, data = tmp_path / "9", tmp_path / "log", tmp_path / "data"
    for path in (log, data):
        path.mkdir()
        (process / "root" / str(path).lstrip("/")).parent.mkdir(
            parents=True, exist_ok=True
        )
    linked(process / "root" / str(data.parent).lstrip("/"), {"data": "data"})
    places: list[tuple[str, str, list[str]]] = [
        ("data", str(data), []),
        ("redo log", str(log), []),
    ]
    found, unread = view.find_differences(str(process), places)
    assert found.keys() == {"redo log"}
    assert str(data) in unread


def of_server(process: Path, aria: bytes) -> str:
    """Make the folder in /proc of a process that works at MariaDB's data."""
    (process / "cwd").mkdir(parents=True)
    (process / "cwd/aria_log_control").write_bytes(bytes(4) + aria * 16)
    return str(process)


def test_a_process_that_may_be_the_servers_is_found_behind_one_of_another_server(
    tmp_path: Path,
) -> None:
    here = of_server(tmp_path / "1", b"a") + "/cwd"
    other = of_server(tmp_path / "7", b"b")
    assert data.read_server_names(here)
    claimed, why = view.find_server_elsewhere([other], here)
    assert not claimed
    assert " 7 " in why
    assert view.find_server_elsewhere([str(tmp_path / "ended")], here) == (
        "",
        NO_PROCESS,
    )
    assert view.find_server_elsewhere([str(tmp_path / "1")], here) == ("", NO_PROCESS)
    for name in (b"a", b""):  # a copy has the name; what has none may be anything
        one = of_server(tmp_path / f"9{name.decode()}" / "9", name)
        claimed, why = view.find_server_elsewhere([other, one], here)
        assert " 9 " in claimed
        assert not why


@pytest.mark.parametrize("reverse", [False, True])
def test_a_copy_may_have_lost_one_of_its_names(reverse: bool, tmp_path: Path) -> None:
    """MariaDB keeps the auto.cnf of the MySQL server that it took the place of."""
    here, copy = (of_server(tmp_path / name, b"a") for name in ("1", "9"))
    uuid = b"server-uuid=3e11fa47-71ca-11e1-9e33-c80aa9429562\n"
    (Path(copy if reverse else here) / "cwd/auto.cnf").write_bytes(uuid)
    claimed, why = view.find_server_elsewhere([copy], here + "/cwd")
    assert " 9 " in claimed
    assert not why


def test_where_a_place_lies_is_not_known_once_its_process_has_ended(
    tmp_path: Path,
) -> None:
    """That is no place that was removed: a container ends with the cut."""
    gone, ended = str(tmp_path / "gone"), View(str(tmp_path / "9"))
    assert find_filesystem_of_place(gone, [], OWN) == []
    assert find_filesystem_of_place(gone, [], ended) is None
    assert find_filesystem_of_place(str(tmp_path), [], ended) is None
