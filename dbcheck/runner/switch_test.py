"""Cuts and restores an idle host once, and checks what its switch cut."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import PowerError
from dbcheck.inventory.entry import Entry
from dbcheck.model.depth import Depth
from dbcheck.ports.power import DriveScoped, PowerSwitch
from dbcheck.power import selftest, switched_host
from dbcheck.probe import idle_cut
from dbcheck.report.console import make_progress_console
from dbcheck.report.progress import PlainProgress
from dbcheck.rows.table import LEDGER
from dbcheck.runner import assemble

NOT_BACK = "its server did not come back: {}"


@dataclass(frozen=True, slots=True)
class SwitchTest:
    """What a test of a switch showed.

    depths: a sentence for each filesystem; () if the depth was not measured.
    depth:  the least depth of them, None if one of them is not known.
    drives: what the host showed of its drives, if they alone were cut.
    """

    seen: selftest.SelfTest
    depths: tuple[str, ...]
    depth: Depth | None
    drives: tuple[str, ...]


def run_switch_test(
    entry: Entry,
    switch: PowerSwitch,
    wait_s: float,
    note_cut: Callable[[], None] = lambda: None,
) -> SwitchTest:
    """Cut and restore the idle host of *entry*; raise PowerError if that failed.

    It also fails if something else lost its power.  wait_s: how long the host may take
    to answer over SSH again.  note_cut: called just before the switch is told to cut.
    """
    seen, depths, depth = _test_entry(entry, switch, wait_s, note_cut)
    require_back(entry.name, switch)
    drives = _require_right_target(entry.name, switch, seen)
    return SwitchTest(seen, tuple(depths), depth, tuple(drives))


def require_back(host: str, switch: PowerSwitch) -> None:
    """Raise PowerError if the power is on, and the target certainly not back."""
    if failure := switch.failure():
        raise PowerError(
            f"the power of {host} is restored, but {NOT_BACK.format(failure)}",
            id=ErrorId.SERVER_NOT_BACK,
            hint="That is what the cut left of it. Start a new lab; dbcheck run cuts "
            "one under load and judges what was lost.",
        )


def _require_right_target(
    host: str, switch: PowerSwitch, seen: selftest.SelfTest
) -> list[str]:
    """Raise PowerError if something else lost its power than was meant to.

    Return what the host showed of its drives, if they alone were cut.
    """
    if not isinstance(switch, DriveScoped):
        if seen.rebooted is False:
            raise PowerError(
                f"{host} stayed up while its switch was off (its boot id has not "
                "changed)",
                id=ErrorId.SWITCH_LEAVES_HOST_UP,
                hint="The switch controls another host, or this host has a second "
                "power supply.",
            )
        return []
    if seen.rebooted:
        raise PowerError(
            f"{host} was booted anew, and only its drives were to lose their power",
            id=ErrorId.SWITCH_CUTS_HOST_TOO,
            hint="The switch feeds the host as well, or the host runs from one of "
            "these drives.",
        )
    found = switch.seen()
    drives = found.drives if found else {}
    if kept := [serial for serial, drive in drives.items() if not drive.gone]:
        raise PowerError(
            f"{host} never saw the drive {', '.join(kept)} gone while its switch was "
            "off",
            id=ErrorId.SWITCH_LEAVES_DRIVE_ON,
            hint="The switch feeds another drive, or the slot does not notice a drive "
            "that goes; a run on it cannot pass.",
        )
    return [
        f"{serial}: {', '.join(drive.names)} was gone, and is {', '.join(back)}"
        for serial, drive in drives.items()
        if (back := drive.names_after)
    ]


def _test_entry(
    entry: Entry, switch: PowerSwitch, wait_s: float, note_cut: Callable[[], None]
) -> tuple[selftest.SelfTest, list[str], Depth | None]:
    """Cut and restore; return what was seen, and how deep it went.

    That is a sentence for each filesystem, and the least depth of them, None if one of
    them is not known.  It is measured where the host can be asked.  It is stored
    unless the host stayed up: then the switch cuts something else.
    """
    host, asked = assemble.make_power_host(entry), assemble.make_host(entry)
    # Canaries would hold the filesystems that a cut of drives alone forces off.
    if asked is None or isinstance(switch, DriveScoped):
        return selftest.run_self_test(switch, host, wait_s, note_cut), [], None
    engine = assemble.make_engine(entry.target, entry.password)
    seen, depths, found = idle_cut.cut_idle_host_and_measure_depth(
        asked,
        PlainProgress(make_progress_console()),
        engine.facts(),
        engine.places((LEDGER,)),
        engine.mark_data,
        lambda: selftest.run_self_test(switch, host, wait_s, note_cut),
        switch.cut_class,
    )
    if found is not None and seen.rebooted is not False:
        switched_host.remember_measured_depth(entry.switched_host, found)
    lines = [
        f"{each}: {each.finding.reasons[0] if each.finding else each.unmeasured}"
        for each in depths
    ]
    known = [each.depth for each in depths if each.depth is not None]
    is_known = known and len(known) == len(depths)
    return seen, lines, min(known, key=lambda one: one.rank) if is_known else None
