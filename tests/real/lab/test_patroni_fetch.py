"""Patroni 4 for labs: the very release that dbcheck names, and no other file."""

from __future__ import annotations

import hashlib
import sys
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError
from dbcheck.lab import fetch, programs
from tests.kit.refusals import refused

pytestmark = pytest.mark.skipif(
    find_spec("pip") is None, reason=f"{sys.executable} has no pip"
)
RELEASE = fetch._PATRONI_4[0]
WHEEL = f"{RELEASE.replace('==', '-')}-py3-none-any.whl"


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give a file with the name of the wheel, the only one that pip finds."""
    name, version = RELEASE.split("==")
    about = f"{name}-{version}.dist-info"
    folder = tmp_path / "wheels"
    folder.mkdir()
    with zipfile.ZipFile(folder / WHEEL, "w") as archive:
        archive.writestr(f"{name}/__main__.py", "print('here')\n")
        archive.writestr(
            f"{about}/METADATA",
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        )
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    yield folder / WHEEL


def test_another_file_of_that_name_is_refused(tmp_path: Path, wheel: Path) -> None:
    folder = tmp_path / "cache" / "patroni-4"
    with refused(ErrorId.FETCH_FAILED, LabError, naming="Expected sha256"):
        fetch.fetch_patroni_4(folder)
    assert [path.name for path in folder.parent.iterdir()] == ["patroni-4.lock"]


def test_it_is_fetched_whole_and_once(
    tmp_path: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    monkeypatch.setattr(fetch, "_PATRONI_4", (RELEASE, digest))
    monkeypatch.setattr(programs, "_cache_folder", lambda: tmp_path / "cache")
    assert programs.find_patroni(programs.PATRONI_4) is None
    for _ in range(2):  # the second time there is nothing to fetch
        fetch.fetch_patroni_4(programs.patroni_4_folder())
        wheel.unlink(missing_ok=True)
    found = programs.find_patroni(programs.PATRONI_4)
    assert found is not None
    (module,) = found.iterdir()
    assert module.read_text() == "print('here')\n"
    assert not found.stat().st_mode & 0o022
    names = {path.name for path in (tmp_path / "cache").iterdir()}
    assert names == {"patroni-4", "patroni-4.lock"}
