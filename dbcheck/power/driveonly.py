"""Cuts drives alone: the host keeps running, and is put back on its drives.

This switch also does the steps on the host before and after the drives get their power
back (agent/host/remount.py).  So the power is never restored, by any process, with an
old filesystem still in memory over a drive that came back.

If a client was lost, the note of the cut on the host and the mounts of the drives show
whether the host was put back.  A server that was started since then may be at work, and
must not be ended.
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
    MOUNTED = "mounted"  # anew, all of it; no server runs
    RUNS = "runs"  # a server that was started since


def judge_host_back(noted: Noted, now: Survey | None, again: str) -> Back:
    """Judge how far the host is back on its drives.

    MOUNTED holds only if find_renamed_drives() returns no mount.

    now:   what is on the drives, None if they have no power, or nothing is mounted.
    again: what to do once a server has ended.
    Raise PowerError if a server that was started since is not on all of these drives.
    """
    points = {mount.point for mount in now.mounts} if now else set()
    missing = [m.point for m in noted.seen.mounts if m.point not in points]
    on_them = now is not None and now.on_them
    if noted.newer and (missing or not on_them):
        why = "not on these drives"
        if on_them:
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
    before = {mount.id for mount in noted.seen.mounts}
    anew = before.isdisjoint(mount.id for mount in now.mounts)
    return Back.MOUNTED if anew else Back.NO


def find_renamed_drives(seen: Survey, now: Survey) -> Sequence[DriveMount]:
    """Return the mounts of before the cut whose drive has another name now.

    The kernel shows by the old name whether it still holds the old filesystem.
    """
    names = {mount.name for mount in now.mounts}
    return [mount for mount in seen.mounts if mount.name not in names]


NOTES = "/var/lib/dbcheck"
GONE_S = 10.0  # in which the host must notice that its drives are gone
RELEASE_S = 10.0  # in which processes that were killed let go of their files
_LOOK_S = 1.0  # that a cut may take longer for the sake of one look at them
_AGAIN = (
    "The drives stay without power. Then give it back with dbcheck power restore, "
    "which mounts the filesystems and starts the server."
)


@dataclass(frozen=True, slots=True)
class Server:
    """The server on the drives.

    directory: returns its data directory.  places: those that an ack depends on.
    start: starts it and returns how that failed, "" if it did not; None to run the
           command of the scope on its host.
    """

    directory: Callable[[], str]
    places: Callable[[], Sequence[str]]
    start: Callable[[], str] | None = None


class DriveOnlySwitch:
    """Cuts and restores the power of drives under a host (ports.power.DriveScoped).

    gone_s:    how long a cut waits until the host sees its drives gone; 0 where they
               stay visible until nothing uses them, as a lab's do.
    timeout_s: for each program that is run on the host.
    release_s: in which processes that were killed let go of their files.
    notes:     folder on the host, for what another process needs to put it back.
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
        self._cutting = False  # the host has to be put back on its drives
        self._kill: Sequence[Sequence[str]] = scope.kill
        self._gone_us: int | None = None
        self._record: DriveCut | None = None

    def state(self) -> PowerState:
        """Read the state from the switch.

        UNKNOWN also if it is on, and the host was not put back on its drives, as where
        the client was lost meanwhile: a restore does that.  Raise PowerError, also if
        the host cannot be asked for that.
        """
        found = self._inner.state()
        if found is PowerState.ON and self._read_note() is not None:
            return PowerState.UNKNOWN
        return found

    def _read_note(self, hint: str = "") -> Noted | None:
        """Return the note of a cut not yet put back, None if none; raise PowerError."""
        with self._open_agent("when asked what to put back", hint) as control:
            return control.read_note(self._notes, self._scope.drives)

    def prepare(self) -> None:
        """Call require_fit(), and prepare the switch."""
        if isinstance(self._inner, Preparing):
            self._inner.prepare()
        self.require_fit()

    def require_fit(self) -> None:
        """Require that all that depends on the drives can be taken off and put back."""
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

        What the host does not show then, the record lacks.
        """
        if self._seen is None:
            self.prepare()
        assert self._seen is not None
        with self._open_agent("before the cut") as control:
            control.write_note(self._notes, self._seen)
        self._cutting, self._kill = True, self._scope.kill
        if not self._gone_s:
            return self._inner.cut()
        over = threading.Event()
        watch = threading.Thread(
            target=self._watch, args=(over,), name="drives", daemon=True
        )
        watch.start()
        try:
            cut = self._inner.cut()
            watch.join(self._gone_s)
        finally:
            over.set()
            with (
                interrupt.hold_interrupts_back()
            ):  # it uses the channel that a restore needs
                watch.join()
        return cut

    def _watch(self, over: threading.Event) -> None:
        """Note when the host has no such drive any more, until *over*."""
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

        Raise PowerError, with the drives left without power, if the server or one of
        its filesystems cannot be ended, or if they have none and what was mounted from
        them is not known here.
        """
        if self._cutting:
            self._cutting = (
                self._read_note(_AGAIN) is not None
            )  # else another client did it
        else:
            self._recall()
        if not self._cutting or self._seen is None:
            self._require_power()
            return self._inner.restore()
        seen = self._seen
        with interrupt.hold_interrupts_back():
            ended, off, left = self._take_off(seen)
            self._seen = seen = seen.without_mounts()
            with contextlib.suppress(PowerError), self._open_agent("") as control:
                control.write_note(self._notes, seen)  # the power has to come back
            off_s = self._apply_power(seen)
            after, back = self._put_back(seen, gone=not any(left.values()))
            not_started = "" if _describe_failure(back) else self._start()
        self._record = DriveCut(
            drives=_list_cut_drives(seen, left, after),
            mounts=_list_remounted(seen.mounts, off, back),
            gone_us=self._gone_us,
            killed=ended.killed,
            left=ended.left,
            failure=_describe_failure(back),
            not_started=not_started,
        )
        self._cutting, self._seen = False, None
        self._forget()
        return off_s

    def _forget(self) -> None:
        """Delete the note; without that, the next restore finds all put back."""
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
                hint=f"{error.hint} {_AGAIN}".strip(),
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

    def _recall(self) -> None:
        """Take over the cut of a process that did not put the host back, if any.

        Not where somebody has done that since: the server may be at work.  If none
        runs, it is started.  Raise PowerError if one was started that is not on these
        drives, or if it does not start.
        """
        noted = self._read_note()
        if noted is None or self._is_back(noted):
            return
        self._seen, self._cutting = noted.seen, True
        # The unit's server may be another one by now, if none works there.
        self._kill = self._scope.kill if noted.server else ()

    def _is_back(self, noted: Noted) -> bool:
        """Return True if somebody has put the host back; see _recall()."""
        now = self._now(noted)
        back = judge_host_back(noted, now, _AGAIN)
        if now is None or back is Back.NO:
            return False
        if back is Back.MOUNTED:
            with self._open_agent("when asked for its mounts") as control:
                if any(control.check_still_held(find_renamed_drives(noted.seen, now))):
                    return False
            if failed := self._start():
                raise PowerError(
                    f"the command that starts the server failed: {failed}",
                    id=ErrorId.START_COMMAND_FAILED,
                    hint="Start it by hand, then repeat dbcheck power restore.",
                )
        self._forget()
        return True

    def _now(self, noted: Noted) -> Survey | None:
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
            return None  # the directory is not there, as its filesystem is not

    def failure(self) -> str | None:
        """Return the failure of a filesystem to come back, else the switch's.

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
        """End the server, force its filesystems off; return what is left of each."""
        with self._open_agent("before the power came back", _AGAIN) as control:
            ended = control.end_server(seen, self._kill, self._timeout_s)
            off = control.take_off(seen.mounts, self._release_s)
            left = control.await_drives(self._scope.drives, present=False)
        if off.refused:
            points = ", ".join(off.refused)
            raise PowerError(
                f"{'; '.join(off.refused.values())}, so these were not unmounted: "
                f"{points}",
                id=ErrorId.HOST_FOLDER_OF_OTHERS,
                hint=f"First unmount what is mounted over them, then {points}; where "
                "another user could exchange a folder, first make that folder root's "
                f"alone (chown root, chmod go-w). {_AGAIN}",
            )
        kept = [
            m.point for m, gone in zip(seen.mounts, off.off, strict=True) if not gone
        ]
        if kept:
            users = "; ".join(off.holders) or "something that no process shows"
            raise PowerError(
                f"the host still holds the filesystem of {', '.join(kept)} in memory, "
                f"used by {users}; over the drive that comes back it could write old "
                "pages",
                id=ErrorId.FILESYSTEM_STILL_IN_MEMORY,
                hint=f"End what uses it. {_AGAIN}",
            )
        if ended.left:
            pids = ", ".join(map(str, ended.left))
            raise PowerError(
                f"the server's processes {pids} did not end",
                id=ErrorId.PROCESSES_DO_NOT_END,
                hint=f"End them. {_AGAIN}",
            )
        return ended, off, left

    def _put_back(
        self, seen: Survey, *, gone: bool
    ) -> tuple[Names, tuple[PutBack, ...]]:
        """Wait for the drives, check and mount what was on them.

        gone: the host saw that they were.  Else what is found damaged may come from its
        memory, and is an error.
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
        for each in back:
            if each.failure and not (each.damaged and gone):
                raise PowerError(
                    each.failure, id=ErrorId.FILESYSTEM_NOT_MOUNTED, hint=hint
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
        """Give the host's agent, over a channel that is kept; raise PowerError."""
        try:
            if self._control is not None and not self._control.is_alive():
                self._let_go()
            if self._control is None:
                self._control = self._host.drives()
            yield self._control
        except HostError as error:
            self._let_go()
            text = f"the agent on the target's host failed {when}: {error}"
            raise PowerError(text, id=error.id, hint=hint or error.hint) from None
        except BaseException:  # an answer may still come, and be taken for another
            self._let_go()
            raise

    def _let_go(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        self._host.close()


def _describe_failure(back: Sequence[PutBack]) -> str:
    return "; ".join(each.failure for each in back if each.failure)


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
