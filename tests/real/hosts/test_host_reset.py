"""The agent that resets its host, on a stand-in for /proc/sysrq-trigger."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dbcheck.agent.host import serve
from dbcheck.agent.wire import Refusal

SUDO = """#!/bin/sh
[ "$1" = -n ] || exit 1
shift
echo "$@" >> {note}
[ "$1" = -l ] && exit {allowed}
exec "$@" > /dev/null
"""


@pytest.fixture
def trigger(tmp_path: Path) -> Path:
    path = tmp_path / "trigger"
    path.touch()
    return path


def sudo_stand_in(
    trigger: Path, monkeypatch: pytest.MonkeyPatch, *, allowed: bool
) -> Path:
    """Put a program called sudo first in the path; return where it notes its words."""
    note = trigger.with_name("note")
    sudo = trigger.with_name("sudo")
    sudo.write_text(SUDO.format(note=note, allowed=0 if allowed else 1))
    sudo.chmod(0o755)
    monkeypatch.setenv("PATH", str(trigger.parent), prepend=":")
    return note


def test_root_writes_the_one_letter(
    trigger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    held = serve.Trigger(str(trigger))
    assert trigger.read_text() == ""
    held.pull()
    held.close()
    assert trigger.read_text() == "b"


def test_what_is_let_go_resets_nothing(
    trigger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for euid in (0, 1000):
        monkeypatch.setattr(os, "geteuid", lambda euid=euid: euid)
        sudo_stand_in(trigger, monkeypatch, allowed=True)
        serve.Trigger(str(trigger)).close()
        assert trigger.read_text() == ""


@pytest.mark.parametrize("allowed", [True, False])
def test_others_need_sudo_without_a_password(
    trigger: Path, monkeypatch: pytest.MonkeyPatch, allowed: bool
) -> None:
    note = sudo_stand_in(trigger, monkeypatch, allowed=allowed)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    if not allowed:
        with pytest.raises(Refusal, match="does not allow this user to run tee"):
            serve.Trigger(str(trigger))
        assert trigger.read_text() == ""
        return
    held = serve.Trigger(str(trigger))
    held.pull()
    held.close()
    assert trigger.read_text() == "b"
    assert note.read_text() == f"-l tee {trigger}\ntee {trigger}\n"


def test_what_cannot_be_written_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(Refusal, match="cannot write to"):
        serve.Trigger(str(tmp_path / "no" / "trigger"))
