"""A lab's server on its copies: held by the lab's daemon, so that it ends with it."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Sequence
from pathlib import Path

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError
from dbcheck.lab import server_account
from dbcheck.lab.restoring.methods import Step
from dbcheck.lab.restoring.registry import choose_method
from dbcheck.lab.restoring.steps import RunningSteps
from dbcheck.lab.server_account import Account
from dbcheck.lab.servers.base import DatabaseServer
from dbcheck.lab.storage.base import CopiedDrive
from dbcheck.lab.storage.copied import TakingOfDrives

log = logging.getLogger(__name__)

_RECOVERY_S = 120.0
_LOAD_S = 240.0


class Restorer:
    """Takes copies of a server, and restores each on one other server beside it.

    method:   its name, see METHODS.
    folder:   made here, for the copies; on a disk, and nothing else is in it.
    run:      a folder of the restored server as of any other, see DatabaseServer.
    account:  of both servers, None: this process's account.
    drives:   those of the original, the data's first.

    The restored server has the settings and the accounts of the original, and a port of
    its own, which stays the same.
    """

    def __init__(
        self,
        method: str,
        original: DatabaseServer,
        folder: Path,
        run: Path,
        account: Account | None,
        drives: Sequence[CopiedDrive] = (),
    ) -> None:
        self._original, self._folder, self._account = original, folder, account
        self.server = type(original)(
            folder / "none", run, settings=original.settings, account=account
        )
        self._work = run.with_name(f"{run.name}-programs")
        chosen = choose_method(method, original.name)
        # Images of drives are this process's own: the account could exchange them.
        server_account.make_folder(folder, None if chosen.drives_min else account)
        server_account.make_folder(self._work, None, reader=account)
        archive = folder / "archive"
        self._method = chosen(
            original, self.server, self._work, account, archive, drives
        )
        self._taking: RunningSteps | TakingOfDrives | None = None
        self._receiving: RunningSteps | None = None
        if chosen.ships:
            for each in (archive, archive / "log"):
                server_account.make_folder(each, account)

    def begin(self) -> None:
        """Have the log shipped from now on, if the method restores what is shipped."""
        if steps := self._method.receive():
            self._run_steps(steps[:-1]).wait(_LOAD_S)
            self._receiving = self._run_steps(steps[-1:], "receiver.log")
        self._run_steps(self._method.begin()).wait(_LOAD_S)

    def resume(self) -> None:
        """Return once the log is shipped again, as after the power was restored."""
        self._run_steps(self._method.resume()).wait(_LOAD_S)

    def take(self, name: str) -> None:
        """Begin to take the copy *name*; is_taken() reports its end."""
        self.remove(name)
        copy = self._path(name)
        taking = self._method.begin_taking(copy)
        self._taking = taking or self._run_steps(self._method.take(copy))

    def list_folders(self) -> list[tuple[str, str]]:
        """Return each drive's mount point, and that of its copy once it is restored.

        [] if the method does not copy drives.
        """
        return self._method.list_folders()

    def is_taken(self) -> bool:
        """Return whether the copy is complete; raise LabError if that failed."""
        if self._taking is None:
            raise LabError(
                "no copy of the lab's server is being taken",
                id=ErrorId.COPY_NOT_TAKEN,
                hint="Run it again.",
            )
        return self._taking.poll()

    def restore(self, name: str, point: str = "") -> None:
        """Start the server on the copy *name*; it may still be in recovery then.

        point: to which what was shipped is restored; "" for all, and for a copy.

        What an earlier restore of it changed stays, unless the method loads the copy.
        Raise LabError, with the decisive lines of the server's log, if it does not
        start.
        """
        copy = self._path(name)
        if steps := self._method.unpack(copy):
            self._run_steps(self._method.ship()).wait(_LOAD_S)
            self.remove(name)
            self._run_steps(steps).wait(_LOAD_S)
        self.server.kill()
        if not copy.exists():
            raise LabError(
                f"the lab has no copy {name}",
                id=ErrorId.COPY_NOT_TAKEN,
                hint="Run it again.",
            )
        self._method.prepare(copy)
        self._method.aim(point)
        if not self.server.begin(_RECOVERY_S):
            log.warning("the restored server is in recovery after %g s", _RECOVERY_S)
        self._run_steps(self._method.load(copy)).wait(_LOAD_S)

    def remove(self, name: str) -> None:
        """End the programs and the server of the copy *name*, and remove it.

        What is shipped until the server is lost goes on.
        """
        self._end_copy()
        for path in self._folder.glob(f"{self._path(name).name}*"):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()

    def close(self) -> None:
        """End the programs and the server."""
        if self._receiving is not None:
            self._receiving.kill()
        self._end_copy()

    def _end_copy(self) -> None:
        if self._taking is not None:
            self._taking.kill()
            self._taking = None
        self.server.kill()
        self._method.release()

    def pids(self) -> list[int]:
        """Return the processes that run now."""
        pids = self.server.pids()
        for running in (self._taking, self._receiving):
            if isinstance(running, RunningSteps):
                pids += running.pids()
        return pids

    def _path(self, name: str) -> Path:
        return self._folder / Path(name).name

    def _run_steps(
        self, steps: list[Step], log_name: str = "programs.log"
    ) -> RunningSteps:
        log_file = self._work / log_name
        running = RunningSteps(steps, self._folder, log_file, self._account)
        running.poll()
        return running
