"""What makes bytes durable, where fsync(2) leaves them in the drive's cache."""

from __future__ import annotations

import errno
import fcntl
import importlib
import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from dbcheck.base import system

_FULL_FSYNC = 51  # of macOS; Linux has no such command


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Record what is asked of fcntl(2)."""
    calls: list[tuple[int, int]] = []
    monkeypatch.setattr(fcntl, "fcntl", lambda fd, what: calls.append((fd, what)))
    return calls


@pytest.fixture
def on_macos(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module as a system with F_FULLFSYNC, and without fdatasync, imports it."""
    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "F_FULLFSYNC", _FULL_FSYNC, raising=False)
        patch.delattr(os, "fdatasync")
        patch.setattr(os, "fsync", lambda _: pytest.fail("fsync is not enough there"))
        yield importlib.reload(system)
    importlib.reload(system)


@pytest.mark.parametrize("name", ["sync", "sync_data"])
def test_where_there_is_a_full_sync_nothing_less_is_done(
    asked: list[tuple[int, int]], on_macos: ModuleType, name: str
) -> None:
    getattr(on_macos, name)(7)
    assert asked == [(7, _FULL_FSYNC)]


def test_a_full_sync_that_is_refused_is_an_error(
    monkeypatch: pytest.MonkeyPatch, on_macos: ModuleType
) -> None:
    def refuse(_fd: int, _what: int) -> None:
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr(fcntl, "fcntl", refuse)
    with pytest.raises(OSError, match="not supported"):
        on_macos.sync_data(7)


def test_a_system_without_fdatasync_syncs_all(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    synced: list[int] = []
    monkeypatch.delattr(os, "fdatasync")
    monkeypatch.setattr(os, "fsync", synced.append)
    system.sync_data(7)
    assert synced == [7]
