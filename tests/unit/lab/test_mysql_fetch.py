"""What the fetching of MySQL takes from the machine, and what it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError
from dbcheck.lab import programs
from dbcheck.lab.fetch import find_mirror, make_apt_configuration
from tests.kit.refusals import refused


def test_the_machine_s_own_mirror_is_taken() -> None:
    targets = (
        "https://packages.invalid/apt/ main\n"
        "https://packages.invalid/linux/debian/ stable\n"
        "http://mirror.invalid/debian-security/ main\n"
        "http://mirror.invalid/debian/ contrib\n"
        "http://mirror.invalid/debian/ main\n"
    )
    assert find_mirror(targets) == "http://mirror.invalid/debian/"
    with refused(ErrorId.APT_WITHOUT_MIRROR, LabError) as caught:
        find_mirror("https://packages.invalid/linux/debian/ stable\n")
    assert "DBCHECK_MYSQLD" in caught.value.hint


def test_the_way_to_the_mirror_is_taken_and_no_hook() -> None:
    host = (
        'Acquire::http::Proxy "http://proxy.invalid:3128";\n'
        'Acquire::IndexTargets::deb::DEP-11 "";\n'
        'DPkg::Post-Invoke:: "rm -f x";\n'
        'Acquire::AllowInsecureRepositories "1";\n'
    )
    text = make_apt_configuration(Path("/tree"), host)
    assert "proxy.invalid" in text
    for word in ("DEP-11", "Invoke", "Insecure"):
        assert word not in text


def test_a_mysqld_is_found_where_it_was_named_or_put(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def program(path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
        path.chmod(0o755)
        return path

    monkeypatch.delenv(programs.MYSQLD_VARIABLE, raising=False)
    monkeypatch.setattr(programs, "_SYSTEM_FOLDERS", ())
    monkeypatch.setattr(programs, "mysql_folder", lambda: tmp_path / "cache")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert programs.find_mysqld() is None
    fetched = program(tmp_path / "cache/usr/sbin/mysqld")
    assert programs.find_mysqld() == fetched
    mariadb = program(tmp_path / "bin/mariadbd")
    (tmp_path / "bin/mysqld").symlink_to(mariadb)
    assert programs.find_mysqld() == fetched
    (tmp_path / "bin/mysqld").unlink()
    assert programs.find_mysqld() == fetched
    own = program(tmp_path / "bin/mysqld")
    assert programs.find_mysqld() == own
    named = program(tmp_path / "opt/mysqld-debug")
    monkeypatch.setenv(programs.MYSQLD_VARIABLE, str(named))
    assert programs.find_mysqld() == named
    monkeypatch.setenv(programs.MYSQLD_VARIABLE, "/nowhere/mysqld")
    assert programs.find_mysqld() is None


def test_an_ordinary_user_has_a_cache_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert programs.mysql_folder() == Path("/caches/dbcheck/mysql")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/eve")
    assert programs.mysql_folder() == Path("/home/eve/.cache/dbcheck/mysql")
