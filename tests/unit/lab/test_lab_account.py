"""Which user and group id a lab of root's draws for its server."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError
from dbcheck.lab import server_account
from tests.kit.refusals import refused

WHOLE = "         0          0 4294967295\n"
CONTAINER = "0 1000 1\n1 100000 65536\n"


def with_maps(monkeypatch: pytest.MonkeyPatch, folder: Path, *maps: str) -> None:
    files = [folder / name for name in ("uid_map", "gid_map")]
    for file, text in zip(files, maps, strict=True):
        file.write_text(text)
    monkeypatch.setattr(server_account, "_ID_MAPS", tuple(map(str, files)))


@pytest.mark.parametrize(
    ("users", "groups", "lowest", "highest"),
    [
        pytest.param(WHOLE, WHOLE, 2_000_200_001, 2_147_352_575, id="a machine"),
        pytest.param(CONTAINER, CONTAINER, 60_706, 61_183, id="a container"),
        pytest.param(WHOLE, CONTAINER, 60_706, 61_183, id="fewer groups than users"),
    ],
)
def test_it_is_one_that_nobody_hands_out(
    users: str,
    groups: str,
    lowest: int,
    highest: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_maps(monkeypatch, tmp_path, users, groups)
    assert lowest <= server_account.draw_id(()) <= highest


def test_without_one_that_a_process_can_have_there_is_no_lab(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_maps(monkeypatch, tmp_path, WHOLE, "0 1000 1\n")
    with refused(
        ErrorId.UNPRIVILEGED_ACCOUNT_MISSING, LabError, naming="no user id is free"
    ):
        server_account.draw_id(())


def test_one_that_anything_has_is_not_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another lab, a process, a user, a group, a range that a user hands out."""
    with_maps(monkeypatch, tmp_path, WHOLE, WHOLE)
    handed_out = tmp_path / "subuid"
    handed_out.write_text("# none\n\nsomebody:2000000100:50\nother:nonsense:5\n")
    monkeypatch.setattr(
        server_account, "_SUBORDINATE", (str(handed_out), "/no/such/file")
    )
    monkeypatch.setattr(server_account, "_list_used_ids", lambda: {2_000_000_098})
    known = {2_000_000_097, 0}
    monkeypatch.setattr(server_account, "_is_id_named", known.__contains__)
    monkeypatch.setattr(
        server_account, "_ID_RANGES", (range(2_000_000_096, 2_000_000_151),)
    )
    assert server_account.draw_id([2_000_000_096, 2_000_000_150]) == 2_000_000_099
    with refused(
        ErrorId.UNPRIVILEGED_ACCOUNT_MISSING, LabError, naming="no user id is free"
    ):
        server_account.draw_id([2_000_000_096, 2_000_000_150, 2_000_000_099])


def test_what_the_machine_knows_is_seen() -> None:
    assert server_account._is_id_named(0)
    assert os.getuid() in server_account._list_used_ids()
