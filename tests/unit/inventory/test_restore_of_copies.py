"""dbcheck_restore: how a copy of a server is taken and restored, in an inventory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from dbcheck.base import limits
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.base.points import PointKind
from dbcheck.cli.snapshot import require_restore
from dbcheck.config.target import RestoreSettings
from dbcheck.hosts.volumes import VolumesOfHost
from dbcheck.inventory.entry import Entry
from dbcheck.inventory.load import make_inventory
from dbcheck.power.kinds.command import CopyByPrograms
from dbcheck.report.console import make_progress_console
from dbcheck.report.live import make_progress
from dbcheck.runner import assemble
from dbcheck.runner.guard import require_restorable
from dbcheck.witness.window import WindowLimits
from tests.kit.refusals import refused

TARGET = "postgresql+psycopg2://dbcheck@db1.example.net/dbcheck"
SPARE = "postgresql+psycopg2://dbcheck@spare.example.net/dbcheck"
GIVEN: Mapping[str, Any] = {
    "copy": ["true", "take"],
    "restore": ["true", "put"],
    "target": SPARE,
}


def entry_of(folder: Path, given: Any, **more: Any) -> Entry:
    """Return the entry of a host whose dbcheck_restore is *given*."""
    variables = {"dbcheck_target": TARGET, "dbcheck_restore": given, **more}
    text = yaml.safe_dump({"db1": variables})
    return make_inventory(folder / "hosts.yml", yaml.safe_load(text)).entry("db1")


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in GIVEN.items() if key != name}


def test_an_entry_has_its_programs_and_the_server_on_the_copy(tmp_path: Path) -> None:
    found = entry_of(tmp_path, GIVEN).copied_by
    assert found == RestoreSettings(("true", "put"), SPARE, ("true", "take"))
    assert found.remove == ()
    assert found.timeout_s == limits.COPY_S
    more = {**GIVEN, "remove": ["true"], "timeout_s": 90}
    changed = entry_of(tmp_path, more).copied_by
    assert changed == replace(found, remove=("true",), timeout_s=90)


def test_a_host_without_it_has_none(tmp_path: Path) -> None:
    variables = {"db1": {"dbcheck_target": TARGET}}
    entry = make_inventory(tmp_path / "hosts.yml", variables).entry("db1")
    assert entry.copied_by is None


@pytest.mark.parametrize(
    ("given", "id", "naming"),
    [
        (without("restore"), ErrorId.KEY_MISSING, "restore is missing"),
        (without("target"), ErrorId.KEY_MISSING, "target is missing"),
        ({**GIVEN, "copy": []}, ErrorId.VALUE_INVALID, "copy is []"),
        ({**GIVEN, "restore": "put it"}, ErrorId.VALUE_INVALID, "restore is 'put it'"),
        ({**GIVEN, "timeout_s": 0}, ErrorId.VALUE_INVALID, "timeout_s is 0"),
        ({**GIVEN, "rpo_s": -1}, ErrorId.VALUE_INVALID, "rpo_s is -1"),
        ({**GIVEN, "rpo_s": 0.01}, ErrorId.VALUE_INVALID, "rpo_s is 0.01, which"),
        ({**GIVEN, "rpo_s": 86_401}, ErrorId.VALUE_INVALID, "rpo_s is 86401"),
        ({**GIVEN, "rpo_s": "a minute"}, ErrorId.VALUE_INVALID, "rpo_s is 'a minute'"),
        ({**GIVEN, "until": "noon"}, ErrorId.VALUE_INVALID, "until is 'noon'"),
        (
            {**GIVEN, "until": "lsn"},
            ErrorId.OPTIONS_CONFLICT,
            "cannot be used with copy",
        ),
        (
            {
                **without("copy"),
                "until": "lsn",
                "volumes": [{"target": "/a", "restored": "/b"}],
            },
            ErrorId.OPTIONS_CONFLICT,
            "cannot be used with volumes",
        ),
        (
            {**without("copy"), "until": "gtid", "rpo_s": 0},
            ErrorId.OPTIONS_CONFLICT,
            "cannot be used with rpo_s",
        ),
        ({**GIVEN, "target": "spare"}, ErrorId.TARGET_URL_INVALID, "target is not"),
        ([1], ErrorId.VALUE_INVALID, "is [1]"),
        (
            {**GIVEN, "volumes": [{"target": "/data"}]},
            ErrorId.VALUE_INVALID,
            "volumes is [{'target': '/data'}]",
        ),
        (
            {**GIVEN, "volumes": [{"target": "data", "restored": "/copy"}]},
            ErrorId.VALUE_INVALID,
            "'data'",
        ),
        (
            {
                **GIVEN,
                "volumes": [
                    {"target": "/data", "restored": "/copy/data"},
                    {"target": "/log", "restored": "/copy/data/"},
                ],
            },
            ErrorId.NAME_GIVEN_TWICE,
            "one folder twice as restored",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_place(
    given: Any, id: ErrorId, naming: str, tmp_path: Path
) -> None:
    with refused(id, UsageError, naming=("db1: dbcheck_restore", naming)):
        entry_of(tmp_path, given)


@pytest.mark.parametrize("kind", PointKind)
def test_a_point_takes_the_place_of_a_copy(kind: PointKind, tmp_path: Path) -> None:
    entry = entry_of(tmp_path, {**without("copy"), "until": kind.value})
    assert entry.copied_by is not None
    assert entry.copied_by.until is kind
    copying = assemble.make_copying(entry, after_loss=False)
    assert copying is not None
    assert (copying.until, copying.rpo_s) == (kind, None)


@pytest.mark.parametrize("given", [{"until": "lsn"}, {}])
def test_only_what_can_be_restored_is_asked_of_a_snapshot(
    given: dict[str, str], tmp_path: Path
) -> None:
    entry = entry_of(tmp_path, {**without("copy"), **given})
    if given:
        require_restore(entry)
        return
    with refused(ErrorId.RESTORE_NOT_SET_UP, UsageError, naming="dbcheck_restore"):
        require_restore(entry)


def test_a_point_is_not_restored_after_a_loss(tmp_path: Path) -> None:
    entry = entry_of(tmp_path, {**without("copy"), "until": "lsn"})
    with refused(ErrorId.RESTORE_NOT_SET_UP, UsageError, naming="rpo_s"):
        require_restorable(entry)


def test_an_unknown_key_is_answered_with_the_one_that_it_may_be(tmp_path: Path) -> None:
    given = {**GIVEN, "remov": ["true"]}
    with refused(ErrorId.KEY_UNKNOWN, UsageError, naming="'remov'") as found:
        entry_of(tmp_path, given)
    assert found.value.hint == "Is it remove?"


def test_a_password_in_the_url_is_refused_and_not_repeated(tmp_path: Path) -> None:
    secret = "hunter2"
    given = {**GIVEN, "target": SPARE.replace("dbcheck@", f"dbcheck:{secret}@")}
    with refused(ErrorId.URL_HOLDS_PASSWORD, UsageError) as found:
        entry_of(tmp_path, given)
    assert secret not in f"{found.value} {found.value.hint}"


@pytest.mark.parametrize("target", [TARGET, TARGET.replace("+psycopg2", "")])
def test_a_copy_at_the_servers_own_address_is_refused(
    target: str, tmp_path: Path
) -> None:
    entry = entry_of(tmp_path, {**GIVEN, "target": target})
    with refused(ErrorId.RESTORE_NOT_SET_UP, UsageError, naming="the server itself"):
        assemble.make_copying(entry, after_loss=False)


VOLUMES = [
    {"target": "/data", "restored": "/copies/{run}/data"},
    {"target": "/log", "restored": "/copies/{run}/log"},
]


def test_volumes_are_watched_on_the_targets_host_and_only_beside_a_load(
    tmp_path: Path,
) -> None:
    given = {**GIVEN, "volumes": VOLUMES, "rpo_s": 60}
    entry = entry_of(tmp_path, given, ansible_host="db1.example.net")
    taken = assemble.make_copying(entry, after_loss=False)
    lost = assemble.make_copying(entry, after_loss=True)
    none = assemble.make_copying(entry_of(tmp_path, GIVEN), after_loss=False)
    assert taken is not None and isinstance(taken.volumes, VolumesOfHost)
    assert lost is not None and lost.volumes is None
    assert none is not None and none.volumes is None


def test_volumes_need_a_host_that_writes_on_them(tmp_path: Path) -> None:
    entry = replace(entry_of(tmp_path, {**GIVEN, "volumes": VOLUMES}), host="")
    with refused(ErrorId.RESTORE_NOT_SET_UP, UsageError, naming="no host that could"):
        assemble.make_copying(entry, after_loss=False)


def test_the_host_of_restored_volumes_is_one_that_can_be_reached(
    tmp_path: Path,
) -> None:
    given = {**GIVEN, "volumes": VOLUMES, "restored_host": "ftp://spare"}
    entry = entry_of(tmp_path, given, ansible_host="db1.example.net")
    with refused(ErrorId.HOST_ADDRESS_INVALID, UsageError, naming="ftp"):
        assemble.make_copying(entry, after_loss=False)


def test_a_program_that_is_not_there_is_named_with_its_key() -> None:
    there, gone = ("true",), ("no-such-program",)
    for key, commands in (
        ("copy", (gone, there, there)),
        ("restore", (there, gone, there)),
        ("remove", (there, there, gone)),
    ):
        copy, restore, remove = commands
        lacking = CopyByPrograms(RestoreSettings(restore, SPARE, copy, remove))
        with refused(ErrorId.COPY_PROGRAM_MISSING, UsageError, naming=f"{key}:"):
            lacking.require_programs()
    CopyByPrograms(RestoreSettings(there, SPARE, there)).require_programs()


def test_a_missing_program_is_found_before_anything_is_copied(tmp_path: Path) -> None:
    entry = entry_of(tmp_path, {**GIVEN, "restore": ["no-such-program"]})
    with refused(ErrorId.COPY_PROGRAM_MISSING, UsageError):
        assemble.make_copying(entry, after_loss=False)


def test_a_host_that_can_be_copied_is_still_cut_by_a_run(tmp_path: Path) -> None:
    """The rig of a run copies nothing, so that its cut is judged as one."""
    entry = entry_of(tmp_path, GIVEN, dbcheck_witness=f"file:{tmp_path}/acks")
    window = WindowLimits()
    with (
        make_progress(make_progress_console(), live=False) as view,
        assemble.open_entry_witness(entry, window) as witness,
    ):
        rig = assemble.make_rig(entry, witness, view, tmp_path, window)
    assert rig.copying is None
    assert assemble.make_copying(entry, after_loss=False) is not None


ARCHIVE = {**without("copy"), "rpo_s": 60}


def test_an_archive_needs_no_program_that_copies(tmp_path: Path) -> None:
    entry = entry_of(tmp_path, ARCHIVE)
    require_restorable(entry)
    copying = assemble.make_copying(entry, after_loss=True)
    assert copying is not None
    assert copying.rpo_s == 60
    beside_load = assemble.make_copying(entry, after_loss=False)
    assert beside_load is not None
    assert beside_load.rpo_s is None


@pytest.mark.parametrize(
    ("given", "more", "id"),
    [
        pytest.param(GIVEN, {}, ErrorId.RESTORE_NOT_SET_UP, id="no objective"),
        pytest.param(
            ARCHIVE,
            {"dbcheck_power": "sysrq", "ansible_host": "db1"},
            ErrorId.SWITCH_RESTORES_BY_ITSELF,
            id="it comes back by itself",
        ),
    ],
)
def test_a_server_that_cannot_stay_off_for_its_restore_is_refused(
    given: Any, more: dict[str, Any], id: ErrorId, tmp_path: Path
) -> None:
    entry = entry_of(tmp_path, given, **more)
    with refused(id, UsageError):
        require_restorable(entry)
    lone = replace(entry_of(tmp_path, ARCHIVE), standbys=(entry,))
    with refused(ErrorId.ONE_HOST_NEEDED, UsageError):
        require_restorable(lone)
    drives = replace(lone, standbys=(), power_drives=("S1",), server_unit="db.service")
    with refused(ErrorId.OPTIONS_CONFLICT, UsageError):
        require_restorable(drives)
