"""A MySQL server that is fetched is there whole or not at all."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError
from dbcheck.lab.fetch import KEYRING, fetch
from tests.kit.refusals import refused

NOWHERE = "http://127.0.0.1:9/debian/"

pytestmark = pytest.mark.skipif(
    shutil.which("apt-get") is None or not KEYRING.exists(), reason="needs Debian's apt"
)


def test_a_mirror_that_does_not_answer_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "caches/mysql"
    left = folder.parent / "mysql.killed"  # by one whose process was killed
    left.mkdir(parents=True)
    with refused(
        ErrorId.FETCH_FAILED, LabError, naming=("apt-get update", "127.0.0.1")
    ) as caught:
        fetch(folder, NOWHERE)
    assert "network" in caught.value.hint
    assert [path.name for path in folder.parent.iterdir()] == ["mysql.lock"]


def test_one_that_is_there_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "mysql"
    folder.mkdir()
    fetch(folder, NOWHERE)
    assert list(folder.iterdir()) == []
