"""`dbcheck lab fetch`: what it does where there is a server, and where not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError, UsageError
from dbcheck.cli import lab
from dbcheck.cli.root import root
from dbcheck.lab import programs
from dbcheck.lab.fetch import (
    GALERA,
    KEYRING,
    MYROCKS,
    Part,
    fetch_part,
    make_source_list,
    parse_library_packages,
)
from tests.kit.refusals import refused


def fetch(server: str = "mysql") -> str:
    """Run the command; raise what it raises."""
    done = CliRunner().invoke(root, ["lab", "fetch", server], catch_exceptions=False)
    assert done.exit_code == 0
    return done.output


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders that a server was fetched into; the machine has no other server."""
    folders: list[Path] = []
    monkeypatch.delenv(programs.MYSQLD_VARIABLE, raising=False)
    monkeypatch.setattr(programs, "mysql_folder", lambda: Path("/caches/mysql"))
    monkeypatch.setattr(
        programs, "find_mysqld", lambda: folders[-1] / "mysqld" if folders else None
    )
    monkeypatch.setattr(lab, "fetch_into", folders.append)
    return folders


def test_a_server_is_fetched_once(fetched: list[Path]) -> None:
    first = fetch()
    assert "(60 MB) into /caches/mysql" in first
    assert first.endswith("mysql: /caches/mysql/mysqld\n")
    assert fetch() == "mysql: /caches/mysql/mysqld\n"
    assert fetched == [Path("/caches/mysql")]


def test_a_server_that_was_named_and_is_not_there_is_not_replaced(
    fetched: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(programs.MYSQLD_VARIABLE, "/nowhere/mysqld")
    with refused(
        ErrorId.PROGRAM_VARIABLE_WRONG,
        UsageError,
        naming=("DBCHECK_MYSQLD", "/nowhere/mysqld"),
    ):
        fetch()
    assert not fetched


@pytest.mark.parametrize(
    ("name", "part", "title", "shown"),
    [
        ("myrocks", MYROCKS, "MyRocks (3 MB)", programs.ROCKSDB),
        ("galera", GALERA, "Galera (7 MB)", programs.GALERA),
    ],
)
def test_a_part_of_mariadb_is_fetched_once(
    name: str,
    part: Part,
    title: str,
    shown: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    def put(wanted: Part, folder: Path) -> None:
        folder.mkdir()
        for file in wanted.files:
            (folder / file).touch(mode=0o755)

    for place in ("_MARIADB_PLUGINS", "_GALERA_LIBRARIES"):
        monkeypatch.setattr(programs, place, tmp_path / "none")
    monkeypatch.setattr(programs, f"{name}_folder", lambda: tmp_path / name)
    monkeypatch.setattr(programs, "require", Path)
    monkeypatch.setattr(lab, "fetch_part", put)
    assert f"fetching MariaDB's {title}" in fetch(name)
    assert fetch(name) == f"{name}: {tmp_path / name / shown}\n"
    assert sorted(part.files) == sorted(os.listdir(tmp_path / name))


def test_a_part_that_lacks_a_file_is_fetched_anew(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As one that was fetched before the part had that file."""
    folder = tmp_path / "galera"
    folder.mkdir()
    for file in GALERA.files:
        (folder / file).touch()
    fetch_part(GALERA, folder)  # what is whole is left alone

    def begun() -> None:
        raise LabError("it begins", id=ErrorId.FETCH_FAILED)

    monkeypatch.setattr("dbcheck.lab.fetch.require_debian", begun)
    (folder / "stunnel").unlink()
    with refused(ErrorId.FETCH_FAILED, LabError, naming="it begins"):
        fetch_part(GALERA, folder)


def test_the_libraries_of_a_package_are_found_among_all_that_it_needs() -> None:
    described = (
        "Package: stunnel4\n"
        "Pre-Depends: adduser\n"
        "Depends: libc6 (>= 2.34), libsystemd0 | libelogind0, perl:any, libwrap0\n"
        "Suggests: libfoo1\n"
    )
    assert parse_library_packages(described) == ["libc6", "libsystemd0", "libwrap0"]
    assert parse_library_packages("Package: nothing\n") == []


def test_the_archives_of_debian_are_taken_with_its_keys() -> None:
    targets = (
        "http://mirror.invalid/debian/ bookworm main\n"
        "http://mirror.invalid/debian/ bookworm contrib\n"
        "http://mirror.invalid/debian-security/ bookworm-security main\n"
        "http://packages.invalid/other/ stable main\n"
    )
    assert make_source_list(targets).splitlines() == [
        f"deb [signed-by={KEYRING}] http://mirror.invalid/debian/ bookworm main",
        f"deb [signed-by={KEYRING}] http://mirror.invalid/debian-security/"
        " bookworm-security main",
    ]
    with refused(ErrorId.APT_WITHOUT_MIRROR, LabError):
        make_source_list("http://packages.invalid/other/ stable main\n")
