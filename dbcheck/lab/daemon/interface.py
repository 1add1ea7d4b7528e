"""The calls that a lab's daemon answers, and their results."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from dbcheck.lab.calls import remote
from dbcheck.lab.drive.replay import Shown
from dbcheck.lab.storage.blocks import FileBlocks


class Description(msgspec.Struct, frozen=True):
    """What the users of a Lab need to know of it.

    spec: the LabSpec in JSON.
    target_url, password: the server's URL, without the password, and the password.
    witness_url, host_url: a folder behind the lab's sshd, not on the drive, and the
               sshd itself; ssh needs identity_file and known_hosts to get there.
    log_path:  the server's log, on the host of host_url.
    authority: the certificate of the authority of the cluster's nodes, in PEM;
    authority_file: the server's copy of it.  Both are "" outside a cluster.
    drives:    the serials of the virtual drives, see LoopDevice.serial.
    """

    spec: str
    target_url: str
    password: str
    witness_url: str
    host_url: str
    log_path: str
    identity_file: str
    known_hosts: str
    authority_file: str
    authority: str
    drives: tuple[str, ...] = ()


class PowerStatus(msgspec.Struct, frozen=True):
    """The power of a lab, and what is wrong with it.

    power:   the value of a model.cut.PowerState.
    failure: why the server does not run although the power is on.
    broken:  the failure of storage or server without a cut, for which the server under
             test is not to blame; failure is None then.
    """

    power: str
    failure: str | None
    broken: str | None


class CutResult(msgspec.Struct, frozen=True):
    """The result of machine.Machine.cut().

    exact_us: when the drive took its last request; without a drive, just before the
              server was killed.
    report:   what the drive did and lost, see storage.base.Storage.cut().
    """

    exact_us: int
    report: dict[str, Any]


class LabCalls(Protocol):
    """A lab, as other processes call it.

    remote(60): a caller waits up to 60 s for the answer.
    """

    @remote(60)
    def describe(self) -> Description:
        """Describe the lab for its users."""

    @remote(60)
    def status(self) -> PowerStatus:
        """Return the lab's power and failures."""

    @remote(60)
    def cut(self) -> CutResult:
        """Cut the power."""

    @remote(240)
    def restore(self, image: str = "") -> None:
        """Restore the power; image: a new file for a copy of the drive, "" for none."""

    @remote(360)
    def restart(self) -> None:
        """Shut the server down in an orderly way and start it again."""

    @remote(240)
    def rejoin(self, port: int, password: str, member: str, host: str) -> None:
        """Have the server follow the one on *port* of *host*.

        password, member: see servers.base.Source.
        """

    @remote(360)
    def copy(self, port: int, password: str, member: str, host: str) -> None:
        """Give the server new data, by which it follows the one on *port* of *host*.

        password, member: see servers.base.Source.
        """

    @remote(60)
    def reassign(self, settings: dict[str, str], is_writer: bool) -> None:
        """Replace the server's settings, for its next start.

        is_writer: Patroni does not start it after a cut.
        """

    @remote(240)
    def start_server(self) -> None:
        """Start the server on the drive that came back, whose filesystem is mounted."""

    @remote(60)
    def counters(self) -> dict[str, int]:
        """Return the drive's counters since power was last applied: name -> number."""

    @remote(60)
    def set_drive(self, changes: dict[str, Any]) -> None:
        """Change settings of the drive, as spec.DriveSpec.changed() does."""

    @remote(60)
    def configure(self, settings: dict[str, str]) -> None:
        """Replace the server's settings."""

    @remote(300)
    def save_recordings(self) -> None:
        """Store what the drives recorded until the power was cut."""

    @remote(240)
    def show(self, states: list[Shown], start: bool = True) -> PowerStatus:
        """Give each drive a crash state and recover from it; return how that went.

        start: False mounts the filesystems and starts no server.
        """

    @remote(60)
    def blocks(self) -> list[FileBlocks]:
        """Return where on the drives the blocks of each file are."""

    @remote(60)
    def freeze(self) -> None:
        """Stop the server's processes."""

    @remote(60)
    def thaw(self) -> None:
        """Resume the server's processes."""

    @remote(60)
    def log(self, lines: int) -> str:
        """Return the last *lines* lines of the server's log."""

    @remote(600)
    def prepare_copies(self, method: str) -> str:
        """Hold a port for a server on copies of the lab's; return that server's URL.

        A method that restores what was shipped has the log shipped from now on.

        method: its name, see restoring.registry.METHODS.  The password is the lab's.
        """

    @remote(60)
    def copied_folders(self) -> list[tuple[str, str]]:
        """Return each drive's mount point, and that of its copy once it is restored.

        [] if the method of prepare_copies() does not copy drives.
        """

    @remote(300)
    def resume_shipping(self) -> None:
        """Return once the server's log is shipped again after its power was restored.

        At once where it is not shipped.
        """

    @remote(60)
    def take_copy(self, name: str) -> None:
        """Begin to take the copy *name* of the server."""

    @remote(60)
    def copy_is_taken(self) -> bool:
        """Return whether the copy that was begun is complete."""

    @remote(600)
    def restore_copy(self, name: str, point: str) -> None:
        """Start a server on the copy *name*; it may still be in recovery then.

        point: to which what was shipped is restored; "" for all, and for a copy.
        """

    @remote(60)
    def remove_copy(self, name: str) -> None:
        """End the server on the copy *name*, and remove both."""

    @remote(20)
    def down(self) -> None:
        """End the lab; the call is answered before the lab ends."""
