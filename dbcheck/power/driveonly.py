"""Cuts drives alone: the host keeps running, and is put back on its drives.

This switch also does the steps on the host before and after the drives get their power
back (agent/host/remount.py).  So no process restores the power while an old filesystem
is still in memory over a drive that came back.

If a client was lost, the note of the cut on the host and the mounts of the drives show
whether the host was put back.  A server that was started after the cut may be at work,
and must not be ended.
"""

from __future__ import annotations

import contextlib
import enum
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from dbcheck.base import interrupt, limits
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError, PowerError
from dbcheck.base.system import now_us
from dbcheck.hosts.drives import (
    DriveControl,
    DriveMount,
    EndedServer,
    Names,
    Noted,
    PutBack,
    Survey,
    TakenOff,
)
from dbcheck.hosts.host import TargetHost
from dbcheck.model.cut import Cut, CutDrive, DriveCut, PowerState, Remounted
from dbcheck.ports.power import PowerSwitch, Preparing
from dbcheck.power.scope import DriveScope, require_fit


class Back(enum.Enum):
    """The degree to which a host is back on its drives."""

    NO = "no"
    MOUNTED = "mounted"  # every filesystem is mounted anew; no server runs
    RUNS = "runs"  # a server runs that was started after the cut


def judge_host_back(noted: Noted, now: Survey | None, again: str) -> Back:
    """Judge how far the host is back on its drives.

    MOUNTED is certain only if the host no longer holds the old filesystems of the
    mounts that find_renamed_drives() returns.

    noted: the note of the cut.
    now:   a survey of the drives, None if they have no power, or nothing is mounted.
    again: for the hint: the advice for the time after the server has ended.
    Raise PowerError if a server that was started after the cut is not on all of these
    drives.
    """
    points = {mount.point for mount in now.mounts} if now else set()
    missing = [mount.point for mount in noted.seen.mounts if mount.point not in points]
    is_on_drives = now is not None and now.on_them
    if noted.newer and (missing or not is_on_drives):
        why = "not on these drives"
        if is_on_drives:
            why = f"{', '.join(missing)} is not mounted from them"
        raise PowerError(
            "a server that was started after the cut works in "
            f"{noted.seen.directory}, and {why}",
            id=ErrorId.SERVER_STARTED_TOO_EARLY,
            hint=f"If it is to stay so, delete {noted.path} on the host. Else stop it. "
            f"{again}",
        )
    if noted.newer:
        return Back.RUNS
    if now is None or missing or noted.server:
        return Back.NO
    ids_before = {mount.id for mount in noted.seen.mounts}
    all_anew = ids_before.isdisjoint(mount.id for mount in now.mounts)
    return Back.MOUNTED if all_anew else Back.NO


def find_renamed_drives(seen: Survey, now: Survey) -> Sequence[DriveMount]:
    """Return the mounts before the cut whose drive has another name now.

    The kernel shows by the old name whether it still holds the old filesystem.
    """
    names = {mount.name for mount in now.mounts}
    return [mount for mount in seen.mounts if mount.name not in names]


NOTES = "/var/lib/dbcheck"  # the folder on the host for notes of cuts
GONE_S = 10.0  # the time in which the host must see that its drives are gone
RELEASE_S = 10.0  # the time in which killed processes let go of their files
_LOOK_S = 1.0  # the time of one look at the drives, by which a cut may take longer
_RESTORE_HINT = (
    "The drives stay without power. Then give it back with dbcheck power restore, "
    "which mounts the filesystems and starts the server."
)


@dataclass(frozen=True, slots=True)
class Server:
    """The server on the drives.

    directory: returns its data directory.  places: returns the places that an ack
               depends on.
    start: starts the server and returns how that failed, "" if it did not fail; None to
           run the scope's command on the host.
    """

    directory: Callable[[], str]
    places: Callable[[], Sequence[str]]
    start: Callable[[], str] | None = None


class DriveOnlySwitch:
    """Cuts and restores the power of drives under a host (ports.power.DriveScoped).

    gone_s:    how long a cut waits until the host sees its drives gone; 0 for drives
               that stay visible until nothing uses them, as a lab's do.
    timeout_s: for each program that is run on the host.
    release_s: the time in which killed processes let go of their files.
    notes:     folder on the host for the note of the cut, by which another process can
               put the host back.
    """

    attended = False

    def __init__(
        self,
        inner: PowerSwitch,
        host: TargetHost,
        scope: DriveScope,
        server: Server,
        *,
        gone_s: float = GONE_S,
        timeout_s: float = limits.POWER_TIMEOUT_S,
        release_s: float = RELEASE_S,
        notes: str = NOTES,
    ) -> None:
        """Reach nothing yet."""
        self._inner, self._host, self._scope = inner, host, scope
        self._server, self._notes = server, notes
        self._gone_s, self._timeout_s = gone_s, timeout_s
        self._release_s = release_s
        self.kind, self.cut_class = inner.kind, inner.cut_class
        self._control: DriveControl | None = None
        self._seen: Survey | None = None
        self._cutting = False  # whether the host has to be put back on its drives
        self._kill_commands: Sequence[Sequence[str]] = scope.kill
        self._gone_us: int | None = None
        self._record: DriveCut | None = None

    def state(self) -> PowerState:
        """Read the state from the switch.

        Return UNKNOWN also if the power is on and the host was not put back on its
        drives, as after the loss of a client; restore() puts it back.  Raise
        PowerError, also if the host cannot be asked for its note.
        """
        state = self._inner.state()
        if state is PowerState.ON and self._read_note() is not None:
            return PowerState.UNKNOWN
        return state

    def _read_note(self, hint: str = "") -> Noted | None:
        """Return the note of a cut that was not put back, or None; raise PowerError."""
        with self._open_agent("when asked what to put back", hint) as control:
            return control.read_note(self._notes, self._scope.drives)

    def prepare(self) -> None:
        """Call require_fit(), and prepare the switch."""
        if isinstance(self._inner, Preparing):
            self._inner.prepare()
        self.require_fit()

    def require_fit(self) -> None:
        """Require that all on the drives can be taken off and put back."""
        with self._open_agent("before the cut") as control:
            seen = control.survey(
                self._scope.drives,
                self._server.directory(),
                self._server.places(),
                self._notes,
            )
        require_fit(self._scope, seen)
        self._seen, self._record, self._gone_us = seen, None, None

    def cut(self) -> Cut:
        """Cut the drives' power; return once the host sees them gone, or after gone_s.

        If the host still sees the drives then, the record has no gone_us.
        """
        if self._seen is None:
            self.prepare()
        assert self._seen is not None
        with self._open_agent("before the cut") as control:
            control.write_note(self._notes, self._seen)
        self._cutting, self._kill_commands = True, self._scope.kill
        if not self._gone_s:
            return self._inner.cut()
        over = threading.Event()
        watcher = threading.Thread(
            target=self._watch_drives, args=(over,), name="drives", daemon=True
        )
        watcher.start()
        try:
            cut = self._inner.cut()
            watcher.join(self._gone_s)
        finally:
            over.set()
            # The watcher uses the channel that a restore needs.
            with interrupt.hold_interrupts_back():
                watcher.join()
        return cut

    def _watch_drives(self, over: threading.Event) -> None:
        """Note when the host sees none of the drives any more, until *over* is set."""
        with contextlib.suppress(PowerError), self._open_agent("") as control:
            while not over.is_set():
                names = control.await_drives(
                    self._scope.drives, present=False, time_s=_LOOK_S
                )
                if not any(names.values()):
                    self._gone_us = now_us()
                    return

    def restore(self) -> float | None:
        """Take the server off its drives, apply the power, put it back on them.

        Raise PowerError, with the drives left without power, if the server does not end
        or a filesystem stays in memory, or if the drives have no power and nothing here
        tells what was mounted from them.
        """
        if self._cutting:
            # Without the note, another client has put the host back.
            self._cutting = self._read_note(_RESTORE_HINT) is not None
        else:
            self._take_over_cut()
        if not self._cutting or self._seen is None:
            self._require_power()
            return self._inner.restore()
        seen = self._seen
        with interrupt.hold_interrupts_back():
            ended, taken_off, names_left = self._take_off(seen)
            self._seen = seen = seen.without_mounts()
            with contextlib.suppress(PowerError), self._open_agent("") as control:
                control.write_note(self._notes, seen)  # the power has to come back
            off_s = self._apply_power(seen)
            names_after, put_back = self._put_back(
                seen, gone=not any(names_left.values())
            )
            not_started = "" if _describe_failure(put_back) else self._start()
        self._record = DriveCut(
            drives=_list_cut_drives(seen, names_left, names_after),
            mounts=_list_remounted(seen.mounts, taken_off, put_back),
            gone_us=self._gone_us,
            killed=ended.killed,
            left=ended.left,
            failure=_describe_failure(put_back),
            not_started=not_started,
        )
        self._cutting, self._seen = False, None
        self._delete_note()
        return off_s

    def _delete_note(self) -> None:
        """Delete the note; if it stays, the next restore() finds the host put back."""
        with contextlib.suppress(PowerError), self._open_agent("") as control:
            control.remove_note(self._notes, self._scope.drives)

    def _apply_power(self, seen: Survey) -> float | None:
        """Apply the power; if that fails, raise an error with the steps done before."""
        try:
            return self._inner.restore()
        except PowerError as error:
            points = ", ".join(mount.point for mount in seen.mounts)
            raise PowerError(
                f"{error}; before that the server was ended and {points} unmounted",
                id=error.id,
                hint=f"{error.hint} {_RESTORE_HINT}".strip(),
            ) from None

    def _require_power(self) -> None:
        """Raise PowerError unless the drives have power: their mounts are not known."""
        if self._inner.state() is not PowerState.ON:
            raise PowerError(
                "the target's host has no note of a cut of these drives, so what was "
                "mounted from them is not known, and an old filesystem in the host's "
                "memory could write over them",
                id=ErrorId.CUT_NOTE_MISSING,
                hint="End the server and unmount its filesystems by hand, then use the "
                "switch itself.",
            )

    def _take_over_cut(self) -> None:
        """Take over the cut of a process that did not put the host back, if any.

        Do not if somebody has put it back since: the server may be at work; start the
        server if it does not run.  Raise PowerError if a server was started that is not
        on these drives, or if the server does not start.
        """
        noted = self._read_note()
        if noted is None or self._is_host_back(noted):
            return
        self._seen, self._cutting = noted.seen, True
        # If no server works there, the kill commands could end another server.
        self._kill_commands = self._scope.kill if noted.server else ()

    def _is_host_back(self, noted: Noted) -> bool:
        """Return True if somebody has put the host back; its server then runs."""
        now = self._survey_drives(noted)
        back = judge_host_back(noted, now, _RESTORE_HINT)
        if now is None or back is Back.NO:
            return False
        if back is Back.MOUNTED:
            with self._open_agent("when asked for its mounts") as control:
                if any(control.check_still_held(find_renamed_drives(noted.seen, now))):
                    return False
            if failure := self._start():
                raise PowerError(
                    f"the command that starts the server failed: {failure}",
                    id=ErrorId.START_COMMAND_FAILED,
                    hint="Start it by hand, then repeat dbcheck power restore.",
                )
        self._delete_note()
        return True

    def _survey_drives(self, noted: Noted) -> Survey | None:
        """Survey the drives; None if they have no power or none is mounted."""
        if self._inner.state() is not PowerState.ON:
            return None
        seen = noted.seen
        try:
            with self._open_agent("when asked for its drives") as control:
                serials, places = self._scope.drives, seen.places
                return control.survey(serials, seen.directory, places, self._notes)
        except PowerError:
            if noted.newer:
                raise
            return None  # the directory is missing, as its filesystem is not mounted

    def failure(self) -> str | None:
        """Return why a filesystem did not come back, else the failure of the switch.

        Raise PowerError if the command that starts the server failed.
        """
        if self._record is not None and self._record.failure:
            return self._record.failure
        if self._record is not None and self._record.not_started:
            raise PowerError(
                "the command that starts the server failed: "
                f"{self._record.not_started}",
                id=ErrorId.START_COMMAND_FAILED,
                hint="Start it by hand, then reconcile the run.",
            )
        return self._inner.failure()

    def seen(self) -> DriveCut | None:
        """Return the host's record of the last cut, None if it was not put back."""
        return self._record

    def _take_off(self, seen: Survey) -> tuple[EndedServer, TakenOff, Names]:
        """End the server, unmount its filesystems, and look for the drives.

        Return the result of each step; raise PowerError if one of the first two fails.
        """
        with self._open_agent("before the power came back", _RESTORE_HINT) as control:
            ended = control.end_server(seen, self._kill_commands, self._timeout_s)
            result = control.take_off(seen.mounts, self._release_s)
            left = control.await_drives(self._scope.drives, present=False)
        if result.refused:
            points = ", ".join(result.refused)
            raise PowerError(
                f"{'; '.join(result.refused.values())}, so these were not unmounted: "
                f"{points}",
                id=ErrorId.HOST_FOLDER_OF_OTHERS,
                hint=f"First unmount what is mounted over them, then {points}; where "
                "another user could exchange a folder, first make that folder root's "
                f"alone (chown root, chmod go-w). {_RESTORE_HINT}",
            )
        kept = [
            mount.point
            for mount, is_off in zip(seen.mounts, result.off, strict=True)
            if not is_off
        ]
        if kept:
            users = "; ".join(result.holders) or "something that no process shows"
            raise PowerError(
                f"the host still holds the filesystem of {', '.join(kept)} in memory, "
                f"used by {users}; over the drive that comes back it could write old "
                "pages",
                id=ErrorId.FILESYSTEM_STILL_IN_MEMORY,
                hint=f"End what uses it. {_RESTORE_HINT}",
            )
        if ended.left:
            pids = ", ".join(map(str, ended.left))
            raise PowerError(
                f"the server's processes {pids} did not end",
                id=ErrorId.PROCESSES_DO_NOT_END,
                hint=f"End them. {_RESTORE_HINT}",
            )
        return ended, result, left

    def _put_back(
        self, seen: Survey, *, gone: bool
    ) -> tuple[Names, tuple[PutBack, ...]]:
        """Wait for the drives, check and mount the filesystems on them.

        gone: the host saw that the drives were gone.  If it did not, damage may come
        from the host's memory, and is an error.
        """
        hint = (
            "Mount the filesystems by hand, start the server, then reconcile the run."
        )
        with self._open_agent("once the power was back", hint) as control:
            after = control.await_drives(
                self._scope.drives, present=True, time_s=self._timeout_s
            )
            absent = [serial for serial, names in after.items() if not names]
            if absent:
                raise PowerError(
                    f"no drive with the serial {', '.join(absent)} came back within "
                    f"{self._timeout_s:g} s",
                    id=ErrorId.DRIVE_NOT_BACK,
                    hint=f"Check that it has power and is seen by the host. {hint}",
                )
            back = control.put_back(seen.mounts, self._timeout_s)
        for filesystem in back:
            if filesystem.failure and not (filesystem.damaged and gone):
                raise PowerError(
                    filesystem.failure, id=ErrorId.FILESYSTEM_NOT_MOUNTED, hint=hint
                )
        return after, back

    def _start(self) -> str:
        """Start the server; return how the command failed, "" if it did not."""
        if self._server.start is not None:
            return self._server.start()
        with self._open_agent("once its filesystems were mounted") as control:
            code, text = control.start(self._scope.start, self._timeout_s)
        return f"exit code {code}: {text}" if code else ""

    @contextlib.contextmanager
    def _open_agent(self, when: str, hint: str = "") -> Iterator[DriveControl]:
        """Yield the host's agent, over a channel that is kept; raise PowerError."""
        try:
            if self._control is not None and not self._control.is_alive():
                self._close_agent()
            if self._control is None:
                self._control = self._host.drives()
            yield self._control
        except HostError as error:
            self._close_agent()
            text = f"the agent on the target's host failed {when}: {error}"
            raise PowerError(text, id=error.id, hint=hint or error.hint) from None
        except BaseException:  # a late answer could be taken for that of the next call
            self._close_agent()
            raise

    def _close_agent(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        self._host.close()


def _describe_failure(back: Sequence[PutBack]) -> str:
    return "; ".join(put_back.failure for put_back in back if put_back.failure)


def _list_cut_drives(seen: Survey, left: Names, after: Names) -> Mapping[str, CutDrive]:
    return {
        serial: CutDrive(names, not left[serial], tuple(after[serial]))
        for serial, names in seen.drives.items()
    }


def _list_remounted(
    mounts: Sequence[DriveMount], off: TakenOff, back: Sequence[PutBack]
) -> tuple[Remounted, ...]:
    return tuple(
        Remounted(
            point=mount.point,
            filesystem=mount.type,
            serial=mount.serial,
            taken_off=gone,
            lazily=lazy,
            checked=put.checked,
            mounted_on="" if put.failure else put.device,
        )
        for mount, gone, lazy, put in zip(mounts, off.off, off.lazy, back, strict=True)
    )
