"""The power switch of a lab, and the restarter of its server."""

from __future__ import annotations

from pathlib import Path
from typing import ParamSpec, TypeVar

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError, PowerError
from dbcheck.base.system import now_us
from dbcheck.lab import namespace, state
from dbcheck.lab.calls import Method
from dbcheck.lab.daemon import rpc
from dbcheck.lab.daemon.interface import LabCalls, PowerStatus
from dbcheck.lab.process import find_users
from dbcheck.model.cut import Cut, CutClass, PowerState, SwitchKind

T = TypeVar("T")
P = ParamSpec("P")


class LabSwitch:
    """Cuts and restores the power of a running lab (ports.power.PowerSwitch).

    It needs the lab's name alone, so that any process of the same account can use it.
    A server or filesystem that does not come back after a cut is a result: restore()
    returns, and failure() has the reason.  What the lab itself did to its server is an
    error.

    image: a new file into which the next restore() first copies the drive as the cut
           left it; None for no copy.
    """

    kind = SwitchKind.LAB
    attended = False
    cut_class = CutClass.LAB_DRIVE  # preflight recognises a lab without a drive

    def __init__(self, name: str) -> None:
        self.name = name
        self.image: Path | None = None

    def state(self) -> PowerState:
        """Ask the lab; raise PowerError if it does not answer."""
        return PowerState(self._status().power)

    def cut(self) -> Cut:
        """Cut the power; exact_us is when the drive took its last request.

        Raise PowerError if the power did not go, or if the drive saw no flush
        although this lab must send them: such a cut proves nothing.
        """
        asked_us = now_us()
        result = _call_lab(self.name, LabCalls.cut)
        report = result.report
        if report["wiring"]:
            raise PowerError(
                f"the lab is wired wrongly: {report['wiring']}",
                id=ErrorId.LAB_WIRED_WRONGLY,
                hint="Discard this cycle; end the lab and start a new one.",
            )
        return Cut(asked_us=asked_us, exact_us=result.exact_us, report=report)

    def restore(self) -> None:
        """Apply power and let the server recover; return even if the recovery fails.

        Raise PowerError if the lab itself failed.
        """
        image, self.image = self.image, None
        path = "" if image is None else str(image.resolve())
        _call_lab(self.name, LabCalls.restore, path)

    def failure(self) -> str | None:
        """Return the reason why filesystem or server did not come back, or None.

        Raise PowerError if the drive is dead, or the server was ended without a cut.
        """
        status = self._status()
        if status.broken:
            raise PowerError(
                f"lab {self.name} is broken: {status.broken}",
                id=ErrorId.LAB_BROKEN,
                hint="The server is not at fault: end the lab and start a new one.",
            )
        return status.failure

    def _status(self) -> PowerStatus:
        return _call_lab(self.name, LabCalls.status)


def start_server(name: str) -> str:
    """Start the server of a running lab, whose drives alone had lost their power.

    Return "".  A server that does not come back is a result: LabSwitch.failure() has
    the reason.  Raise PowerError if the lab itself failed.
    """
    _call_lab(name, LabCalls.start_server)
    return ""


class LabRestarter:
    """Restarts the server of a running lab (ports.site.Restarter).

    A server that does not come back is a result: LabSwitch.failure() has the reason.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def restart(self) -> None:
        """Restart the server; raise PowerError if the lab itself failed."""
        _call_lab(self._name, LabCalls.restart)


def _call_lab(name: str, method: Method[P, T], *args: P.args, **named: P.kwargs) -> T:
    try:
        socket = state.make_record(name).control
        return rpc.call(socket, method, *args, **named)
    except LabError as error:
        hint = error.hint
        if error.id is ErrorId.FILESYSTEM_IN_USE:
            hint = _advise_on_users(name) or hint
        raise PowerError(f"lab {name}: {error}", id=error.id, hint=hint) from None


def _advise_on_users(name: str) -> str:
    """Return advice on processes that use the lab's storage, "" without any.

    The lab itself cannot find them: in its namespace the processes outside of it are
    not seen, and those inside have other ids.
    """
    users = find_users(namespace.BASE / name)
    if not users:
        return ""
    return (
        f"End {', '.join(map(str, users))}, which uses it; then restore the power, and "
        "cut it again."
    )
