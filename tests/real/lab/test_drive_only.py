"""Cuts of the drive alone, under a server and a host that keep running."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import PowerError, UsageError
from dbcheck.cli.lab import describe_as_host
from dbcheck.cycle.cycle import finish_cycle
from dbcheck.cycle.host import describe_drive_server
from dbcheck.cycle.outcome import Outcome
from dbcheck.cycle.preflight.before_load import run_preflight
from dbcheck.hosts.host import TargetHost
from dbcheck.judge.case import Case
from dbcheck.judge.item import ItemId, Status, doubt_of
from dbcheck.judge.judge import judge
from dbcheck.lab.lab import list_missing
from dbcheck.lab.spec import DriveSpec, LabSpec
from dbcheck.lab.switch import start_server
from dbcheck.model.cluster import ONLY_NODE
from dbcheck.model.cut import DriveCut, PowerScope, PowerState
from dbcheck.model.verdict import Verdict
from dbcheck.power.driveonly import DriveOnlySwitch
from dbcheck.power.scope import DriveScope
from tests.kit.refusals import refused
from tests.kit.rigs import SEED, Bench, bench, quick
from tests.kit.waiting import wait_until

OWN = (
    ItemId.DRIVES_GONE,
    ItemId.SERVER_KILLED,
    ItemId.MOUNTED_ANEW,
    ItemId.PLACES_CUT,
)


def spec(engine: str, filesystem: str = "xfs", **changed: Any) -> LabSpec:
    """Return a lab whose drive is cut alone; skip where it cannot be built."""
    drive = DriveSpec(**changed)
    wanted = LabSpec(engine, filesystem=filesystem, drive=drive, power_scope="drive")
    if lacking := list_missing(wanted):
        pytest.skip("; ".join(lacking))
    return wanted


def cycle(rig: Bench) -> Outcome:
    return finish_cycle(rig.rig, run_preflight(rig.rig, quick(), SEED))


def seen_of(outcome: Outcome) -> DriveCut:
    found = outcome.case.drive_cut
    assert found is not None
    return found


# A fact of the cut made false, and the item that must report it.
PLANTED = {
    "gone": ItemId.DRIVES_GONE,
    "serial": ItemId.DRIVES_GONE,
    "left": ItemId.SERVER_KILLED,
    "off": ItemId.MOUNTED_ANEW,
    "places": ItemId.PLACES_CUT,
}


def planted(case: Case, what: str) -> Case:
    """Return the case with one fact of the cut that is not so."""
    seen = case.drive_cut
    assert seen is not None
    assert case.restore is not None
    ((serial, drive),) = seen.drives.items()
    (mount,) = seen.mounts
    wrong = {
        "gone": {"drives": {serial: replace(drive, gone=False)}},
        "serial": {"drives": {serial: replace(drive, names_after=())}},
        "left": {"left": (1,)},
        "off": {"mounts": (replace(mount, taken_off=False),)},
        "places": {"drives": {serial: replace(drive, names=("sdz",))}},
    }
    changed: Any = wrong[what]
    drives = {ONLY_NODE: replace(seen, **changed)}
    return replace(case, restore=replace(case.restore, drives=drives))


@pytest.mark.wide_with("postgresql", "mysql")
@pytest.mark.root
@pytest.mark.parametrize(
    ("engine", "filesystem"),
    [("postgresql", "xfs"), ("mariadb", "ext4"), ("mysql", "xfs")],
)
def test_an_honest_drive_passes_on_its_own_evidence(
    engine: str, filesystem: str, tmp_path: Path
) -> None:
    with bench(spec(engine, filesystem), tmp_path) as rig:
        outcome = cycle(rig)
    assert outcome.verdict is Verdict.PASS, outcome.judgement.reasons
    items = {item.id: item for item in outcome.judgement.items}
    assert {items[name].status for name in OWN} == {Status.PRESENT}
    assert ItemId.HOST_DOWN not in items
    assert "the virtual drive alone" in outcome.judgement.reasons[0]
    assert outcome.manifest.writer.scope is PowerScope.DRIVE
    for what, item in PLANTED.items():
        doubted = judge(planted(outcome.case, what))
        assert doubted.verdict is Verdict.INCONCLUSIVE, what
        (found,) = (one for one in doubted.items if one.id is item)
        assert doubt_of(found) in doubted.reasons, what
    gone = replace(outcome.case, restore=None)
    assert judge(gone).verdict is Verdict.INCONCLUSIVE


@pytest.mark.wide_with("postgresql", "mysql")
@pytest.mark.root
@pytest.mark.parametrize("engine", ["postgresql", "mariadb", "mysql"])
def test_a_lying_drive_fails(engine: str, tmp_path: Path) -> None:
    with bench(spec(engine, personality="lying"), tmp_path) as rig:
        outcome = cycle(rig)
    assert outcome.verdict is Verdict.FAIL


def stranger_in(folder: Path) -> subprocess.Popen[bytes]:
    """Start a process that works in a folder of a lab until its input is closed.

    The folder is seen only where the lab's server runs.
    """
    server = next(pid for pid in os.listdir("/proc") if str(folder) in _works_in(pid))
    inside = f"cd {folder.parent} && echo ready && exec cat"
    found = subprocess.Popen(
        ["nsenter", "-t", server, "-m", "-p", "sh", "-c", inside],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert found.stdout is not None
    assert found.stdout.readline() == b"ready\n"
    return found


def _works_in(pid: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return ""


def switch_of(rig: Bench) -> DriveOnlySwitch:
    """Return a switch of the lab's drive, as one process would hold it."""
    writer = rig.rig.site.writer
    return DriveOnlySwitch(
        rig.lab.switch(),
        cast(TargetHost, writer.host),
        DriveScope(rig.lab.drives, (), ()),
        describe_drive_server(writer.engine, partial(start_server, rig.lab.name)),
        gone_s=0,
        release_s=0.5,
        notes=str(rig.lab.folder),
    )


@pytest.mark.root
def test_a_filesystem_that_is_held_keeps_the_drive_without_power(
    tmp_path: Path,
) -> None:
    with bench(spec("postgresql"), tmp_path) as rig:
        engine = rig.rig.site.writer.engine
        power = switch_of(rig)
        folder = Path(engine.facts().identity["data_directory"])
        with stranger_in(folder) as stranger:
            power.cut()
            with refused(
                ErrorId.FILESYSTEM_STILL_IN_MEMORY,
                PowerError,
                naming=("process", "(cat, a file"),
            ):
                power.restore()
            assert power.state() is PowerState.OFF
            assert stranger.stdin is not None
            stranger.stdin.close()
        another = switch_of(rig)  # as dbcheck power restore has it
        another.restore()
        found = another.seen()
        assert found is not None
        assert found.mounts[0].taken_off
        assert another.failure() is None
        assert engine.ready() is None


@pytest.mark.wide
@pytest.mark.root
def test_its_switch_is_used_by_commands_of_their_own(tmp_path: Path) -> None:
    """The machine that restores the power is not the one that cut it."""
    with bench(spec("postgresql"), tmp_path) as rig:
        inventory = tmp_path / "hosts.yml"
        host = describe_as_host(rig.lab)
        assert host["dbcheck_power_scope"] == "drive"
        inventory.write_text(json.dumps({"all": {"hosts": {"db1": host}}}))

        def power(verb: str, client: str = "client") -> str:
            command = [sys.executable, "-m", "dbcheck", "power", verb, "db1"]
            return subprocess.run(
                [*command, "--inventory", str(inventory)],
                env={**os.environ, "XDG_STATE_HOME": str(tmp_path / client)},
                check=True,
                capture_output=True,
                text=True,
            ).stdout

        tested = power("test")
        assert f"drive    {rig.lab.drives[0]}: " in tested
        power("cut")
        assert power("state") == "off\n"
        (note,) = rig.lab.folder.glob("drives-*.json")
        left = note.read_bytes()
        power("restore", "another client")
        assert power("state") == "on\n"
        assert not note.exists()
        engine = rig.rig.site.writer.engine
        wait_until(lambda: engine.ready() is None, "server is back")
        started_us = engine.facts().started_us
        note.write_bytes(left)  # as if all was put back by hand
        assert power("state") == "unknown\n"
        power("restore")
        assert power("state") == "on\n"
        assert not note.exists()
        assert engine.facts().started_us == started_us, "it is left alone"


def test_a_killed_process_has_no_drive_to_cut() -> None:
    with refused(
        ErrorId.DRIVE_CUT_NEEDED,
        UsageError,
        naming="no virtual drive that could lose power",
    ):
        LabSpec("postgresql", cut="process", power_scope="drive")
