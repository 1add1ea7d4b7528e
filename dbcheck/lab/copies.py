"""Copies of a running lab's server, as a cycle has them taken and restored."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, LabError
from dbcheck.base.points import Point
from dbcheck.lab.lab import Lab

_POLL_S = 0.1
_TAKE_S = 600.0
_HINT = (
    "The message has the program's own reason. Correct that, then run it again: the lab"
    " ends, and its copy with it."
)


class LabCopies:
    """Takes and restores copies of a lab's server (ports.site.CopyPrograms).

    method: its name.  All that it starts belongs to the lab, and ends with it.
    """

    def __init__(self, lab: Lab, method: str) -> None:
        """Have the lab hold a port for the restored server; raise LabError."""
        self._lab = lab
        self.restored_url = lab.prepare_copies(method)

    def take(self, run_id: str, meanwhile: Callable[[], None]) -> None:
        """Return once the copy is complete; raise EngineError."""
        ends_s = time.monotonic() + _TAKE_S
        with _failing_as(ErrorId.COPY_NOT_TAKEN, "no copy was taken"):
            self._lab.take_copy(run_id)
            while not self._lab.copy_is_taken():
                if time.monotonic() >= ends_s:
                    raise LabError(
                        f"it is not complete after {_TAKE_S:g} s",
                        id=ErrorId.COPY_NOT_TAKEN,
                    )
                meanwhile()
                time.sleep(_POLL_S)

    def restore(self, run_id: str, point: Point | None = None) -> None:
        """Return once a server was started on the copy; raise EngineError."""
        with _failing_as(ErrorId.COPY_NOT_RESTORED, "the copy was not restored"):
            self._lab.restore_copy(run_id, point.value if point else "")

    def remove(self, run_id: str) -> None:
        """End the server on the copy, and remove both; raise EngineError."""
        with _failing_as(ErrorId.COPY_NOT_REMOVED, "the copy was not removed"):
            self._lab.remove_copy(run_id)


@contextlib.contextmanager
def _failing_as(id: ErrorId, what: str) -> Iterator[None]:
    """Raise an EngineError in the place of a LabError."""
    try:
        yield
    except LabError as error:
        raise EngineError(f"{what}: {error}", id=id, hint=_HINT) from error
