"""Files of a server that lie on another filesystem than the folder they are in."""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest

from dbcheck.agent.host import data as host_files
from dbcheck.agent.host import serve
from dbcheck.agent.host.facts import collect_facts, read_mounts_and_caches
from dbcheck.base.decoding import convert
from dbcheck.engines.mysql import places as mysql_places
from dbcheck.engines.postgresql import places as postgresql_places
from dbcheck.hosts.counting import Look
from dbcheck.model.host import TargetFacts
from dbcheck.model.places import DATA, Place
from dbcheck.model.watched import (
    describe_location,
    list_folders_of_places,
    make_facts_of_places,
)
from dbcheck.remote.channel import Channel
from tests.kit.waiting import wait_until

T = TypeVar("T")

SHARED_MEMORY = Path("/dev/shm")  # a filesystem of its own, for every user


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The data directory."""
    if tmp_path.stat().st_dev == SHARED_MEMORY.stat().st_dev:
        pytest.skip(f"{tmp_path} is on the filesystem of {SHARED_MEMORY}")
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """A folder on another filesystem."""
    folder = Path(tempfile.mkdtemp(prefix="dbcheck-", dir=SHARED_MEMORY))
    yield folder
    shutil.rmtree(folder)


def moved(file: Path, folder: Path) -> None:
    """Put an empty file in *folder*, and a link in its stead."""
    file.parent.mkdir(parents=True, exist_ok=True)
    (folder / file.name).touch()
    file.symlink_to(folder / file.name)


def of_mariadb(data: Path, **more: str) -> Sequence[Place]:
    variables = {
        "datadir": f"{data}/",
        "innodb_log_group_home_dir": "./",
        "innodb_undo_directory": "./",
        "innodb_doublewrite": "ON",
        "innodb_data_file_path": "ibdata1:12M:autoextend",
        "log_bin": "ON",
        "log_bin_basename": f"{data}/bin",
        **more,
    }
    return mysql_places.places(variables, "dbcheck", statement="", undo_files=None)


def of_mysql(data: Path) -> Sequence[Place]:
    return of_mariadb(
        data,
        innodb_redo_log_capacity="1",
        innodb_doublewrite_dir="",
        innodb_data_home_dir="",
    )


def of_postgresql(data: Path) -> Sequence[Place]:
    relations = dict.fromkeys(("table", "index", "database"), ("", "base/5/9"))
    return postgresql_places.places(str(data), relations)


def facts_of(places: Sequence[Place]) -> TargetFacts:
    for place in places:
        Path(place.path).mkdir(parents=True, exist_ok=True)
    asked = [(place.name, place.path, list(place.files)) for place in places]
    return convert(collect_facts(asked), TargetFacts)


def lying_now(places: Sequence[Place]) -> dict[str, str]:
    """Return where places lie, by name, as a look through the load shows it."""
    asked = [(place.name, place.path, list(place.files)) for place in places]
    found = read_mounts_and_caches([], [], asked, 0)["places"]
    return {name: describe_location(tuple(lies)) for name, lies in found.items()}


MOVED = [
    (of_mariadb, "ib_logfile0", "redo log files"),
    (of_mariadb, "ibdata1", "system tablespace files"),
    (of_mariadb, "undo001", "undo files"),
    (of_mariadb, "bin.000002", "binary log files"),
    (of_mariadb, "dbcheck/ledger.ibd", "database files"),
    (of_mariadb, "aria_log_control", "data files"),
    (of_mysql, "#innodb_redo/#ib_redo7", "redo log files"),
    (of_mysql, "#ib_16384_0.dblwr", "doublewrite files"),
    (of_mysql, "undo_001", "undo files"),
    (of_mysql, "mysql.ibd", "data files"),
    (of_postgresql, "global/pg_control", "global files"),
    (of_postgresql, "pg_multixact/members", "multixacts files"),
    (of_postgresql, "pg_xact/0000", "commit status files"),
    (of_postgresql, "pg_wal/000000010000000000000001", "WAL files"),
    (of_postgresql, "base/5/16390", "index files"),
]


each_moved = pytest.mark.parametrize(
    ("places", "name", "label"), MOVED, ids=[case[1] for case in MOVED]
)


@each_moved
def test_a_file_that_is_a_link_has_a_volume_of_its_own(
    places: Callable[[Path], Sequence[Place]],
    name: str,
    label: str,
    data: Path,
    elsewhere: Path,
) -> None:
    moved(data / name, elsewhere)
    facts = facts_of(places(data))
    assert len(facts.volumes) == 2
    assert facts.volumes[1].filesystem == "tmpfs"
    assert facts.volumes[1].places[label] == str(elsewhere)
    assert label not in facts.data.places
    assert not facts.unseen


@each_moved
def test_a_look_shows_a_file_that_became_a_link_and_no_other_change(
    places: Callable[[Path], Sequence[Place]],
    name: str,
    label: str,
    data: Path,
    elsewhere: Path,
) -> None:
    asked, place = places(data), label.removesuffix(" files")
    before = facts_of(asked)
    names = {each.name for each in asked}
    known = {f.of: text for f, text in make_facts_of_places(before, names).items()}
    assert lying_now(asked) == known
    moved(data / name, elsewhere)
    assert "tmpfs" in lying_now(asked)[place]
    facts = facts_of(asked)
    known = {f.of: text for f, text in make_facts_of_places(facts, names).items()}
    assert lying_now(asked) == known
    (data / name).unlink()
    assert "tmpfs" not in lying_now(asked)[place]


@pytest.mark.parametrize("name", ["global", "pg_multixact", "base/5"])
def test_a_folder_of_postgresql_that_is_a_link_has_a_volume_of_its_own(
    name: str, data: Path, elsewhere: Path
) -> None:
    (data / name).parent.mkdir(exist_ok=True)
    (data / name).symlink_to(elsewhere)
    facts = facts_of(of_postgresql(data))
    assert len(facts.volumes) == 2
    assert str(elsewhere) in facts.volumes[1].places.values()


@pytest.mark.parametrize(
    ("places", "name"),
    [(of_mariadb, "ib_buffer_pool"), (of_postgresql, "postgresql.conf")],
)
def test_a_link_that_no_commit_depends_on_does_not_count(
    places: Callable[[Path], Sequence[Place]], name: str, data: Path, elsewhere: Path
) -> None:
    moved(data / name, elsewhere)
    assert len(facts_of(places(data)).volumes) == 1


def test_links_to_one_filesystem_are_named_once(data: Path, elsewhere: Path) -> None:
    for number in range(30):
        moved(data / f"ib_logfile{number}", elsewhere)
    (data / "near").touch()
    (data / "ib_logfile30").symlink_to(data / "near")
    facts = facts_of(of_mariadb(data))
    assert dict(facts.volumes[1].places) == {"redo log files": str(elsewhere)}


@pytest.mark.parametrize("target", ["nowhere", "/dev/null"])
def test_a_link_to_no_file_is_named_as_unseen(target: str, data: Path) -> None:
    (data / "ibdata1").symlink_to(target)
    facts = facts_of(of_mariadb(data))
    assert facts.unseen.keys() == {"system tablespace files"}


def test_a_folder_with_too_much_in_it_is_named_as_unseen(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        (data / f"bin.{number}").symlink_to(data)
    assert not host_files.OutlyingFiles(str(data), ["bin.*"]).unseen
    monkeypatch.setattr(host_files, "LINKS_MAX", 3)
    assert "more than 3 links" in host_files.OutlyingFiles(str(data), ["bin.*"]).unseen
    assert not host_files.OutlyingFiles(str(data), ["*.ibd"]).unseen
    monkeypatch.setattr(host_files, "ENTRIES_MAX", 3)
    assert "more than 3 files" in host_files.OutlyingFiles(str(data), ["*.ibd"]).unseen


def looked(facts: TargetFacts, places: Sequence[Place]) -> dict[str, str]:
    """Return where places lie, by name, as a look shows it that follows *facts*."""
    asked = [(place.name, place.path, list(place.files)) for place in places]

    class Here:
        """A channel to an agent of this very process."""

        def answer(self, kind: type[T], verb: int, **question: Any) -> T:
            assert verb == serve.MOUNTS_AND_CACHES
            return convert(read_mounts_and_caches(**question), kind)

        def close(self) -> None:
            pass

    known = list_folders_of_places(facts, [place.name for place in places])
    found = Look(cast(Channel, Here()), facts, asked, known).read()
    return {fact.of: text for fact, text in found.items()}


def test_a_file_that_cannot_be_seen_any_more_did_not_move(
    data: Path, elsewhere: Path
) -> None:
    asked = of_mariadb(data)
    moved(data / "ib_logfile0", elsewhere)
    facts = facts_of(asked)
    before = looked(facts, asked)
    assert "tmpfs" in before["redo log"]
    (elsewhere / "ib_logfile0").unlink()
    assert facts_of(asked).unseen.keys() == {"redo log files"}
    assert looked(facts, asked) == before
    moved(data / "ibdata1", elsewhere)
    now = looked(facts, asked)
    assert {name for name in now if now[name] != before[name]} == {"system tablespace"}


def test_a_file_that_could_not_be_seen_before_did_not_move_once_it_can(
    data: Path, elsewhere: Path
) -> None:
    asked = of_mariadb(data)
    (data / "ib_logfile0").symlink_to(elsewhere / "ib_logfile0")
    facts = facts_of(asked)
    names = {each.name for each in asked}
    known = make_facts_of_places(facts, names)
    assert names - {fact.of for fact in known} == {"redo log"}
    (elsewhere / "ib_logfile0").touch()
    assert looked(facts, asked).items() > {(f.of, text) for f, text in known.items()}


@pytest.mark.parametrize("known", [True, False])
def test_a_place_that_cannot_be_seen_is_where_it_was(
    known: bool, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = of_mariadb(data, innodb_undo_directory="./undo")
    facts = facts_of(asked)
    if not known:
        own = {DATA: facts.data.places[DATA]}
        facts = replace(facts, volumes=(replace(facts.data, places=own),))
    before = looked(facts, asked)
    found = os.stat

    def refused(path: Any, **how: Any) -> os.stat_result:
        if str(path) == str(data / "undo"):
            raise PermissionError(errno.EACCES, "no")
        return found(path, **how)

    monkeypatch.setattr(os, "stat", refused)
    now = looked(facts, asked)
    if not known:
        del before["undo"]
    assert now == before


def test_a_place_that_is_gone_moved(data: Path) -> None:
    asked = of_mariadb(data, innodb_undo_directory="./undo")
    facts = facts_of(asked)
    (data / "undo").rename(data / "undo-was")
    assert looked(facts, asked)["undo"] == ""


def test_a_folder_of_files_that_is_removed_meanwhile_hides_no_other_place(
    data: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = of_mariadb(data)
    facts = facts_of(asked)
    before = looked(facts, asked)
    monkeypatch.setattr(
        host_files.OutlyingFiles, "away", {str(elsewhere / "gone"): 1}, raising=False
    )
    monkeypatch.setattr(host_files.OutlyingFiles, "__init__", lambda *_: None)
    assert looked(facts, asked) == before


def changed(folder: Path) -> tuple[int, int]:
    """Return when a folder was changed, as far as its filesystem shows that."""
    status = folder.stat()
    return status.st_mtime_ns, status.st_ctime_ns


def linked(folder: Path, name: str, target: Path) -> None:
    """Put a link where a file, or another link, is."""
    (folder / "new").symlink_to(target)
    (folder / "new").rename(folder / name)


def test_a_link_is_found_whose_folder_has_the_time_of_before(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_files, "SETTLED_NS", -(10**12))  # it counts as old
    wanted = re.compile("a")
    (data / "a").touch()
    assert host_files.find_links_in(str(data), wanted) == ()
    before = data.stat()

    def link_hidden() -> bool:
        linked(data, "a", data)
        os.utime(data, ns=(before.st_atime_ns, before.st_mtime_ns))
        return changed(data) != (before.st_mtime_ns, before.st_ctime_ns)

    wait_until(link_hidden, "a tick of the kernel's clock")
    assert data.stat().st_mtime_ns == before.st_mtime_ns
    assert host_files.find_links_in(str(data), wanted) == (str(data / "a"),)


def test_a_link_is_found_in_another_folder_that_has_the_times_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_files, "SETTLED_NS", -(10**12))  # it counts as old
    here, other = tmp_path / "here", tmp_path / "other"
    for folder in (here, other):
        (folder / "data").mkdir(parents=True)
    linked(other / "data", "a", tmp_path)

    def have_one_time() -> bool:
        for folder in (here, other):
            os.utime(folder / "data", ns=(0, 0))
        return changed(here / "data") == changed(other / "data")

    wait_until(have_one_time, "both within a tick of the kernel's clock")
    data, wanted = here / "data", re.compile("a")
    assert host_files.find_links_in(str(data), wanted) == ()
    here.rename(tmp_path / "was")
    other.rename(here)
    assert host_files.find_links_in(str(data), wanted) == (str(data / "a"),)


def test_a_folder_that_was_not_changed_for_long_is_listed_once(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists: Counter[str] = Counter()
    scandir = os.scandir

    def counted(folder: str) -> Any:
        lists.update([folder])
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", counted)
    wanted = re.compile("a")
    for settled_ns, times in ((10**12, 2), (-(10**12), 1)):
        monkeypatch.setattr(host_files, "SETTLED_NS", settled_ns)
        lists.clear()
        for _ in range(2):
            host_files.find_links_in(str(data), wanted)
        assert lists.total() == times
