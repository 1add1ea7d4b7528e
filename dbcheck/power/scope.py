"""Validated settings of drive-only power cuts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import PowerError, UsageError
from dbcheck.hosts.drives import Survey
from dbcheck.model.cut import CutClass, SwitchKind
from dbcheck.power.kinds.command import format_command
from dbcheck.power.kinds.config import SwitchConfig

SCOPE = "dbcheck_power_scope"
CLASSES = (CutClass.AC, CutClass.DC_RAIL)  # cuts that take a drive's own power
_DEVICE_OPTIONS = ("logdev=", "rtdev=")  # options of XFS (xfs(5)) that name devices
_CLASS_NAMES = " or ".join(f"'{cut_class.value}'" for cut_class in CLASSES)


@dataclass(frozen=True, slots=True)
class DriveScope:
    """The drives that lose their power, and how their server is ended and started.

    drives: the serials of the drives.
    kill:   commands run on the host, before the server's processes are killed.
    start:  the command that starts the server.
    """

    drives: tuple[str, ...]
    kill: tuple[tuple[str, ...], ...]
    start: tuple[str, ...]

    def describe(self) -> str:
        """Return the steps around the cut in words, to come after "dbcheck would"."""
        kill = ", ".join(f"`{format_command(command)}`" for command in self.kill)
        first = f"run {kill} and " if kill else ""
        return (
            f"cut the drives {', '.join(self.drives)} alone. Before it gives their "
            f"power back, dbcheck would {first}kill the server's processes, and force "
            "the filesystems of these drives off; after that check and mount them and "
            f"run `{format_command(self.start)}`"
        )


def make_unit_scope(
    drives: Sequence[str],
    unit: str,
    kill: tuple[str, ...] = (),
    start: tuple[str, ...] = (),
) -> DriveScope:
    """Return the scope of a server that is a systemd unit; *kill*, *start* override.

    systemd would start a killed server again (Restart=), so the unit is stopped.
    """
    kills: tuple[tuple[str, ...], ...] = (kill,) if kill else ()
    if unit and not kill:
        kills = (
            ("systemctl", "kill", "--signal=SIGKILL", unit),
            ("systemctl", "stop", unit),
        )
    return DriveScope(
        tuple(drives), kills, start or ("systemctl", "start", "--no-block", unit)
    )


def require_power_cut(config: SwitchConfig) -> None:
    """Raise UsageError unless the switch can cut the power of drives alone.

    A disabled link or a reset leaves a drive its power, and so its cache.
    """
    if config.kind is SwitchKind.LAB:
        return
    if config.attended:
        raise UsageError(
            "nothing dates a cut of the drives alone that is made by hand",
            id=ErrorId.DRIVES_CUT_BY_HAND,
            hint="Use a switch that dbcheck runs: dbcheck_power: exec or fence.",
        )
    cut_class = config.cut_class
    if cut_class is CutClass.UNKNOWN:
        raise UsageError(
            "what the switch takes the power from is not declared; to disable a link "
            "or to reset a drive cuts no power",
            id=ErrorId.POWER_CLASS_MISSING,
            hint=f"If it cuts the supply of the drives, set dbcheck_power_class to "
            f"{_CLASS_NAMES}.",
        )
    if cut_class not in CLASSES:
        raise UsageError(
            f"a cut of class {cut_class.value!r} does not take the power from the "
            "drives alone",
            id=ErrorId.POWER_CLASS_NOT_OF_DRIVES,
            hint="Use a switch of their supply (a relay, a module between drive and "
            f"slot, the outlet of a drive shelf), whose class is {_CLASS_NAMES}.",
        )
    if not config.shows_state:
        raise UsageError(
            "nothing shows whether the drives have power",
            id=ErrorId.STATE_COMMAND_MISSING,
            hint="Give the command that prints it: dbcheck_power_state.",
        )
    if config.returns_by_itself:
        raise UsageError(
            "the power of this switch comes back by itself, perhaps before the old "
            "filesystem is forced off",
            id=ErrorId.SWITCH_RESTORES_BY_ITSELF,
            hint="Give the command that restores it: dbcheck_power_restore.",
        )


def require_fit(scope: DriveScope, seen: Survey) -> None:
    """Raise PowerError unless the server can be taken off these drives and put back.

    Each filesystem on the drives must hold one of the server's directories.
    """
    if not seen.root:
        raise PowerError(
            "the user who logs in to the target's host is not root, and cannot unmount "
            "a filesystem",
            id=ErrorId.ROOT_NEEDED_ON_HOST,
            hint="Set ansible_user to root.",
        )
    if absent := [serial for serial, names in seen.drives.items() if not names]:
        raise PowerError(
            f"the target's host has no drive with the serial {', '.join(absent)}",
            id=ErrorId.DRIVE_UNKNOWN,
            hint="Set dbcheck_power_drives to what `lsblk -d -o NAME,SERIAL` prints "
            "there.",
        )
    if seen.twins:
        raise PowerError(
            f"{'; '.join(seen.twins)}, so which of them is the server's is not known",
            id=ErrorId.DRIVE_AMBIGUOUS,
            hint="Remove the other drive, or cut the host.",
        )
    if seen.busy:
        raise PowerError(
            f"the drives are used otherwise than by a filesystem on them: "
            f"{'; '.join(seen.busy)}",
            id=ErrorId.DRIVE_USED_OTHERWISE,
            hint="A cut of drives alone needs the filesystem on the drive itself or on "
            "its partition, without LVM, RAID or encryption between, and with nothing "
            "of another device mounted on or below it; else cut the host.",
        )
    if not seen.on_them:
        raise PowerError(
            f"the data directory {seen.directory} is not on the drives "
            f"{', '.join(scope.drives)}",
            id=ErrorId.DATA_NOT_ON_DRIVES,
            hint="Name the drives that it is on in dbcheck_power_drives.",
        )
    if seen.notes_on_them:
        raise PowerError(
            f"{seen.notes_on_them} is on these drives as well, and what has to be put "
            "back after the cut is noted there",
            id=ErrorId.CUT_NOTE_ON_CUT_DRIVE,
            hint="Mount a filesystem of another drive there, or cut the host.",
        )
    _require_private(seen)
    _require_mounts(seen)


def _require_private(seen: Survey) -> None:
    """Raise PowerError if another account could exchange a path that root uses."""
    if seen.exposed:
        raise PowerError(
            "; ".join(seen.exposed),
            id=ErrorId.HOST_FOLDER_OF_OTHERS,
            hint="As root, dbcheck uses these paths around the cut: to mount, to "
            "unmount, and to note what it does. Make each folder on the way root's "
            "alone (chown root, chmod go-w; the server's account needs no more than "
            "what is mounted), or mount the drive in one that is, as /srv.",
        )


def _require_mounts(seen: Survey) -> None:
    places = seen.places
    for mount in seen.mounts:
        if mount.inner != "/":
            raise PowerError(
                f"{mount.point} is a bind mount of {mount.inner} on the drive "
                f"{mount.name}",
                id=ErrorId.DRIVE_USED_OTHERWISE,
                hint="Unmount it: only whole filesystems are put back.",
            )
        devices = [o for o in mount.options.split(",") if o.startswith(_DEVICE_OPTIONS)]
        if devices:
            raise PowerError(
                f"{mount.point} has a part of its own on another device ({devices[0]})",
                id=ErrorId.DRIVE_USED_OTHERWISE,
                hint="A cut of drives alone needs the whole filesystem on one drive.",
            )
        if not mount.shown:
            raise PowerError(
                f"the kernel does not show whether it holds {mount.point} "
                f"({mount.type}) in memory",
                id=ErrorId.FILESYSTEM_NOT_SUPPORTED,
                hint="A cut of drives alone needs XFS or ext4: an old filesystem in "
                "memory could write over the drive that came back.",
            )
        if mount.point == "/" or not any(
            _is_below(mount.point, place) for place in places
        ):
            objection = "the host itself runs from it"
            if mount.point != "/":
                objection = "it holds none of the server's directories"
            raise PowerError(
                f"{mount.point} is on the drive {mount.name} as well, and {objection}",
                id=ErrorId.DRIVE_USED_OTHERWISE,
                hint="It would lose its power, too: unmount it, move it to another "
                "drive, or cut the host instead.",
            )


def _is_below(point: str, path: str) -> bool:
    return path == point or path.startswith(f"{point.rstrip('/')}/")
