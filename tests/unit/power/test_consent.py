"""What counts as a user's word that a switch may cut a host, and what does not."""

from __future__ import annotations

import contextlib
import shutil
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import RunWriteError, UsageError
from dbcheck.config.secret import Secret
from dbcheck.inventory.entry import Entry
from dbcheck.model.cut import CutClass
from dbcheck.model.depth import Reached
from dbcheck.model.host import Expected
from dbcheck.power import consent
from dbcheck.power.kinds.config import SwitchConfig
from dbcheck.power.kinds.exec import ExecConfig
from dbcheck.power.kinds.fence import FenceConfig
from dbcheck.power.kinds.lab import LabConfig
from dbcheck.power.kinds.manual import ManualConfig
from dbcheck.power.switched_host import (
    find_note_path,
    recall_measured_depth,
    remember_measured_depth,
)
from dbcheck.report.progress import PlainProgress
from dbcheck.runner import assemble
from dbcheck.witness.window import WindowLimits
from tests.kit.files import give_away
from tests.kit.refusals import refused

PLAN = ExecConfig(cut=("pdu", "off"), restore=("pdu", "on"), state=("pdu", "state"))
ENTRY = Entry("db1", "postgresql://db1/x", host="ssh://db1", power=PLAN)
SEEN = Reached("2026-01-02T03:04:05+00:00", "m1", ())

OTHERS = {
    "name": replace(ENTRY, name="db2"),
    "target": replace(ENTRY, target="postgresql://db2/x"),
    "host": replace(ENTRY, host="ssh://db2"),
    "expected": replace(ENTRY, expected=Expected(serial="S2")),
    "kind": replace(ENTRY, power=FenceConfig("pdu off")),
    "state": replace(ENTRY, power=replace(PLAN, state=("pdu", "reboot"))),
    "cut": replace(ENTRY, power=replace(PLAN, cut=("pdu off",))),
    "restore": replace(ENTRY, power=replace(PLAN, restore=("pdu", "off"))),
    "off_s": replace(ENTRY, power=replace(PLAN, off_s=9.0)),
}


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep notes in an empty folder."""
    folder = tmp_path / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    return folder


def is_agreed(entry: Entry) -> bool:
    try:
        consent.require_consent(entry.switched_host, yes=False)
    except UsageError as error:
        assert "nothing was cut" in str(error)
        return False
    return True


def agree(entry: Entry) -> Path:
    """Let a first cut come, and return the note on it."""
    consent.require_consent(entry.switched_host, yes=True)
    consent.remember_consent(entry.switched_host)
    assert is_agreed(entry)
    return find_note_path(entry.switched_host, "power")


@pytest.mark.parametrize("name", OTHERS)
def test_whatever_acts_or_decides_is_asked_for_again(name: str) -> None:
    agree(ENTRY)
    remember_measured_depth(ENTRY.switched_host, SEEN)
    assert recall_measured_depth(ENTRY.switched_host) == SEEN
    assert not is_agreed(OTHERS[name])
    assert recall_measured_depth(OTHERS[name].switched_host) is None


def test_what_does_not_change_the_cut_is_not_asked_for_again() -> None:
    agree(ENTRY)
    slower = replace(PLAN, timeout_s=90.0, declared=CutClass.AC)
    assert is_agreed(replace(ENTRY, power=slower))


def test_a_yes_is_not_remembered_until_the_cut_is_due() -> None:
    consent.require_consent(ENTRY.switched_host, yes=True)
    assert not is_agreed(ENTRY)


def empty(path: Path, _: pytest.MonkeyPatch) -> None:
    path.write_bytes(b"")


def unfinished(path: Path, _: pytest.MonkeyPatch) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def changed(path: Path, _: pytest.MonkeyPatch) -> None:
    text = path.read_text()
    assert "pdu" in text or "m1" in text
    path.write_text(text.replace("pdu", "xxx").replace("m1", "m2"))


def of_another_switch(path: Path, _: pytest.MonkeyPatch) -> None:
    other = OTHERS["cut"]
    agree(other)
    remember_measured_depth(other.switched_host, SEEN)
    shutil.copyfile(find_note_path(other.switched_host, path.parent.name), path)


def of_another_user(path: Path, patch: pytest.MonkeyPatch) -> None:
    give_away(path, patch)


def for_its_group(path: Path, _: pytest.MonkeyPatch) -> None:
    path.chmod(0o660)


def for_everyone(path: Path, _: pytest.MonkeyPatch) -> None:
    path.chmod(0o606)


def behind_a_link(path: Path, _: pytest.MonkeyPatch) -> None:
    path.symlink_to(path.rename(path.with_name("elsewhere")))


@pytest.mark.parametrize(
    "forge",
    [
        *(empty, unfinished, changed, of_another_switch, of_another_user),
        *(for_its_group, for_everyone, behind_a_link),
    ],
)
def test_a_note_that_is_not_the_users_own_word_does_not_count(
    forge: Callable[[Path, pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in (agree(ENTRY), remember_measured_depth(ENTRY.switched_host, SEEN)):
        forge(path, monkeypatch)
    assert not is_agreed(ENTRY)
    assert recall_measured_depth(ENTRY.switched_host) is None


def test_a_note_is_for_its_user_alone(state: Path) -> None:
    note = agree(ENTRY)
    assert stat.S_IMODE(note.stat().st_mode) == 0o600
    for folder in (note.parent, note.parent.parent, state):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_no_yes_is_taken_that_could_not_be_remembered(state: Path) -> None:
    state.write_text("a file")
    with refused(ErrorId.FOLDER_NOT_WRITABLE, RunWriteError):
        consent.require_consent(ENTRY.switched_host, yes=True)


@pytest.mark.parametrize("config", [ManualConfig(), LabConfig("one")])
def test_where_no_consent_is_needed_none_is_remembered(
    config: SwitchConfig, state: Path
) -> None:
    consent.remember_consent(replace(ENTRY, power=config).switched_host)
    assert not state.exists()


def test_the_description_names_each_program_and_no_secret(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PDU", "geheim")
    with refused(ErrorId.FIRST_CUT_NEEDS_CONSENT, UsageError) as caught:
        consent.require_consent(ENTRY.switched_host, yes=False)
    assert str(caught.value) == (
        "nothing was cut. No earlier cut of db1 by this switch is on record. dbcheck "
        "would run `pdu off`, wait at least 15 s, then run `pdu on`; `pdu state` would "
        "report whether the power is on. The target: host db1, server "
        "postgresql://db1/x, reached at ssh://db1"
    )
    assert caught.value.hint == "If this is correct, repeat the command with --yes."
    secret = Secret("password", "env", ("PDU",))
    fence = FenceConfig("fence_apc", {"plug": "7"}, {"password": secret})
    entry = replace(ENTRY, power=fence)
    with refused(ErrorId.FIRST_CUT_NEEDS_CONSENT, UsageError) as caught:
        consent.require_consent(entry.switched_host, yes=False)
    told = "run fence_apc (plug=7, password from the variable PDU) with action=off, "
    assert told + "wait at least 15 s, then run it with action=on" in str(caught.value)
    assert "geheim" not in str(caught.value) + agree(entry).read_text()


def test_a_rig_remembers_it_once_the_preflight_has_passed(tmp_path: Path) -> None:
    entry = replace(ENTRY, host="", witness=f"file:{tmp_path}/acks")
    progress, window = PlainProgress(Console(quiet=True)), WindowLimits()
    with contextlib.closing(assemble.make_witness(entry, window)) as witness:
        made = assemble.make_rig(entry, witness, progress, tmp_path, window)
    assert not is_agreed(entry)
    made.before_load()
    assert is_agreed(entry)


def test_another_wording_of_the_description_forgets_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agree(ENTRY)
    remember_measured_depth(ENTRY.switched_host, SEEN)
    monkeypatch.setattr(ExecConfig, "describe", lambda *_: "in other words")
    assert is_agreed(ENTRY)
    assert recall_measured_depth(ENTRY.switched_host) == SEEN
