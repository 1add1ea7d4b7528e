"""The flags that name a host of an inventory, or describe one.

Judging offline needs their declarations alone: what reads an inventory or a secret is
imported where it is used.
"""

from __future__ import annotations

import abc
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from dbcheck.base import limits
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.cli.groups import Argument, Flag, Group
from dbcheck.cli.options import ANY_PATH, FILE, SECONDS
from dbcheck.remote.address import SshOptions

if TYPE_CHECKING:
    from dbcheck.inventory.entry import Entry

INVENTORY = "inventory.yml"


@dataclass(frozen=True)
class InventoryOptions(Group):
    """Where names are looked up."""

    section = "Inventory"

    inventory: Annotated[
        Path,
        Flag(
            "--inventory",
            type=ANY_PATH,
            show_default=True,
            envvar="DBCHECK_INVENTORY",
            show_envvar=True,
            help="Ansible inventory that describes the hosts; dbcheck init writes an "
            "example.",
        ),
    ] = Path(INVENTORY)


@dataclass(frozen=True)
class NamedByArgument(InventoryOptions):
    """A host of the inventory, as the verb's own argument."""

    name: Annotated[str | None, Argument("NAME")] = None


@dataclass(frozen=True)
class NamedByFlag(InventoryOptions):
    """A host of the inventory, for a verb whose argument is a run."""

    name: Annotated[
        str | None,
        Flag(
            "--name",
            metavar="NAME",
            help="A host of the inventory, in place of the flags that describe it.",
        ),
    ] = None


@dataclass(frozen=True)
class EntryOptions(Group, abc.ABC):
    """Flags that describe a host, or override what the inventory gives for it.

    beside_name: the fields whose flags may be given with a name. A name stands for
                 all others: one of the two would have to be ignored.
    """

    beside_name: ClassVar[frozenset[str]] = frozenset()

    @abc.abstractmethod
    def applied(self, entry: Entry) -> Entry:
        """Return *entry* with what is given here; raise UsageError if it is invalid."""

    def require_beside(self, name: str) -> None:
        """Raise UsageError if a flag is given that excludes a name."""
        for own, flag in self.flags().items():
            if own in self.given - self.beside_name:
                raise UsageError(
                    f"{flag.name} cannot be combined with the name {name}",
                    id=ErrorId.OPTIONS_CONFLICT,
                    hint="The inventory describes a named host; give one of the two.",
                )


@dataclass(frozen=True)
class TargetUrl(EntryOptions):
    """The server."""

    section = "Target"

    target: Annotated[
        str | None,
        Flag(
            "--target",
            metavar="URL",
            help="The server, as a SQLAlchemy URL without a password, e.g. "
            "postgresql+psycopg2://dbcheck@db1/dbcheck or "
            "mysql+mysqlconnector://dbcheck@db1/dbcheck.",
        ),
    ] = None

    def applied(self, entry: Entry) -> Entry:
        """Return *entry* with this server."""
        return replace(entry, target=self.target or entry.target)


@dataclass(frozen=True)
class TargetOptions(TargetUrl):
    """The server, and where its password is."""

    password_command: Annotated[
        str | None,
        Flag(
            "--password-command",
            metavar="CMD",
            help="Prints the password as its first line. Without it: DBCHECK_PASSWORD, "
            "PGPASSWORD or ~/.pgpass, MYSQL_PWD or ~/.my.cnf.",
        ),
    ] = None

    def applied(self, entry: Entry) -> Entry:
        """Return *entry* with this server and its password."""
        entry = TargetUrl.applied(self, entry)
        if self.password_command is None:
            return entry
        from dbcheck.config.secret import Secret

        command = ("/bin/sh", "-c", self.password_command)
        return replace(entry, password=Secret("password", "command", command))


@dataclass(frozen=True)
class WitnessOptions(EntryOptions):
    """The witness, and what SSH needs to reach it."""

    section = "Witness"
    beside_name = frozenset({"accept_new_host_key"})

    witness: Annotated[
        str | None,
        Flag(
            "--witness",
            metavar="URL",
            help="Where acks are logged: ssh://user@host:port/~/folder, in that user's "
            "home, or file:FOLDER on this machine if the target is another host.",
        ),
    ] = None
    accept_new_host_key: Annotated[
        bool,
        Flag(
            "--accept-new-host-key",
            is_flag=True,
            help="Trust and store the host key of a witness whose key is not known.",
        ),
    ] = False
    identity: Annotated[
        Path | None,
        Flag(
            "--identity",
            type=FILE,
            help="Private key for the witness. Default: those that ssh itself uses.",
        ),
    ] = None
    known_hosts: Annotated[
        Path | None,
        Flag(
            "--known-hosts",
            type=FILE,
            help="File of known host keys. Default: those that ssh itself uses.",
        ),
    ] = None

    def applied(self, entry: Entry) -> Entry:
        """Return *entry* with this witness."""
        return replace(
            entry,
            witness=self.witness or entry.witness,
            witness_identity=self.identity or entry.witness_identity,
            witness_known_hosts=self.known_hosts or entry.witness_known_hosts,
        )


@dataclass(frozen=True)
class HostUrl(EntryOptions):
    """The target's host."""

    section = "Target"

    target_host: Annotated[
        str | None,
        Flag(
            "--target-host",
            metavar="URL",
            help="The target's host, ssh://user@host:port, or local: if it is this "
            "one. dbcheck measures there how deep the cut goes, with files beside the "
            "data directory (canaries) that it removes again; the user must be able "
            "to write there.",
        ),
    ] = None

    def applied(self, entry: Entry) -> Entry:
        """Return *entry* with this host; the inventory's proxy leads to another one."""
        if not self.target_host:
            return entry
        by_config = SshOptions(identity_file=entry.host_options.identity_file)
        return replace(entry, host=self.target_host, host_options=by_config)


@dataclass(frozen=True)
class HostOptions(HostUrl):
    """The target's host, which makes the evidence stronger, and the server's log."""

    server_log: Annotated[
        str,
        Flag(
            "--server-log",
            metavar="PATH",
            help="The server's log on --target-host, a file or a folder of files. "
            "Default: where the server reports it.",
        ),
    ] = ""

    def applied(self, entry: Entry) -> Entry:
        """Return *entry* with this host and log."""
        entry = HostUrl.applied(self, entry)
        return replace(entry, server_log=self.server_log or entry.server_log)


@dataclass(frozen=True)
class WaitOptions(EntryOptions):
    """How long to wait for the server."""

    section = "Target"

    wait: Annotated[
        float,
        Flag(
            "--wait",
            type=SECONDS,
            show_default=True,
            metavar="S",
            help="Seconds that the server may take to come back.",
        ),
    ] = limits.RETURN_S

    def require_beside(self, name: str) -> None:
        """Accept the flag: what is given wins over the inventory."""

    def applied(self, entry: Entry) -> Entry:
        """Return *entry* with this time, if it is given."""
        return replace(entry, return_s=self.wait) if self.given else entry


@dataclass(frozen=True)
class TwiceOptions(Group):
    """Whether the rows are read a second time."""

    section = "Target"

    twice: Annotated[
        bool,
        Flag(
            "--twice",
            is_flag=True,
            help="Restart the server in an orderly way once its rows were read, and "
            "read them again: both readings must agree.",
        ),
    ] = False


@dataclass(frozen=True)
class RestartOptions(TwiceOptions, EntryOptions):
    """The second reading, and who restarts the server for it."""

    restart_command: Annotated[
        str,
        Flag(
            "--restart-command",
            metavar="CMD",
            help="--twice: stops the server in an orderly way and starts it again, and "
            "exits with 0. It is started without a shell. A lab needs none.",
        ),
    ] = ""

    def require_beside(self, name: str) -> None:
        """Accept each flag: what is given wins over the inventory."""

    def applied(self, entry: Entry) -> Entry:
        """Return *entry* with what is given; raise UsageError if it is no command."""
        try:
            command = tuple(shlex.split(self.restart_command))
        except ValueError as error:
            raise UsageError(
                f"--restart-command cannot be read: {error}",
                id=ErrorId.COMMAND_NOT_SPLITTABLE,
                hint="Quote it as a shell would need it.",
            ) from None
        return replace(
            entry,
            twice=self.twice or entry.twice,
            restart=command or entry.restart,
        )


Named = NamedByArgument | NamedByFlag
