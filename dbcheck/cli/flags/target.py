"""The flags that name a host of an inventory, or describe one.

Judging offline needs their declarations alone: modules that read an inventory or a
secret are imported where they are used.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.cli.flags.groups import ANY_PATH, Argument, Flag, FlagsOf, Group
from dbcheck.config.target import TargetSettings
from dbcheck.remote.address import SshOptions

if TYPE_CHECKING:
    from dbcheck.inventory.entry import Entry

INVENTORY = "inventory.yml"


@dataclass(frozen=True)
class InventoryOptions(Group):
    """The inventory in which names are looked up."""

    section = "Inventory"

    inventory: Annotated[
        Path,
        Flag(
            "--inventory",
            type=ANY_PATH,
            show_default=True,
            envvar="DBCHECK_INVENTORY",
            show_envvar=True,
            help="Ansible inventory that describes the hosts; dbcheck init writes one.",
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
class EntryOptions(Group):
    """Flags that describe a host, or override what the inventory gives for it.

    beside_name: the fields whose flags may be given with a name. A name stands for
                 all others: one of the two would have to be ignored.
    """

    beside_name: ClassVar[frozenset[str]] = frozenset()

    def applied(self, entry: Entry) -> Entry:
        """Return *entry* with what is given here; raise UsageError if it is invalid."""
        return replace(entry, **self.of_target())

    def of_target(self) -> Mapping[str, Any]:
        """Return the settings of the target that are given here, and are not empty."""
        found: dict[str, Any] = {}
        for own, mark in self.marks().items():
            if isinstance(mark, FlagsOf) and mark.kind is TargetSettings:
                found |= getattr(self, own)
        return {name: value for name, value in found.items() if value not in ("", ())}

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

    of_server: Annotated[Mapping[str, Any], FlagsOf(TargetSettings, ("target",))] = (
        field(default_factory=dict)
    )

    @property
    def target(self) -> str:
        """The URL of the server, "" if it is not given."""
        return str(self.of_server.get("target", ""))


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
        entry = EntryOptions.applied(self, entry)
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

    of_witness: Annotated[
        Mapping[str, Any],
        FlagsOf(TargetSettings, ("witness", "witness_identity", "witness_known_hosts")),
    ] = field(default_factory=dict)
    accept_new_host_key: Annotated[
        bool,
        Flag(
            "--accept-new-host-key",
            is_flag=True,
            help="Trust and store the host key of a witness whose key is not known.",
        ),
    ] = False


def host_flag(then: str) -> Flag:
    """Return the flag of the target's host; *then* ends its help."""
    return Flag(
        "--target-host",
        metavar="URL",
        help="The target's host, ssh://user@host:port, or local: if it is this one. "
        + then,
    )


@dataclass(frozen=True)
class HostUrl(EntryOptions):
    """The target's host."""

    section = "Target"

    target_host: Annotated[
        str | None,
        host_flag(
            "dbcheck measures there how deep the cut goes, with files beside the "
            "data directory (canaries) that it removes again; the user must be able "
            "to write there.",
        ),
    ] = None

    def applied(self, entry: Entry) -> Entry:
        """Return *entry* with this host; the inventory's proxy leads to another one."""
        entry = EntryOptions.applied(self, entry)
        if not self.target_host:
            return entry
        by_config = SshOptions(identity_file=entry.host_options.identity_file)
        return replace(entry, host=self.target_host, host_options=by_config)


@dataclass(frozen=True)
class ProbedHost(HostUrl):
    """The target's host, whose drives are looked at."""

    target_host: Annotated[
        str | None,
        host_flag(
            "The user there must be able to write in the directory of the log.",
        ),
    ] = None


@dataclass(frozen=True)
class HostOptions(HostUrl):
    """The target's host, which makes the evidence stronger, and the server's log."""

    of_log: Annotated[Mapping[str, Any], FlagsOf(TargetSettings, ("server_log",))] = (
        field(default_factory=dict)
    )


@dataclass(frozen=True)
class WaitOptions(EntryOptions):
    """How long to wait for the server."""

    section = "Target"

    of_wait: Annotated[Mapping[str, Any], FlagsOf(TargetSettings, ("return_s",))] = (
        field(default_factory=dict)
    )

    def require_beside(self, name: str) -> None:
        """Accept the flag: what is given wins over the inventory."""


@dataclass(frozen=True)
class StaggerOptions(EntryOptions):
    """How far apart the hosts of a cluster are cut."""

    section = "Target"

    of_cuts: Annotated[Mapping[str, Any], FlagsOf(TargetSettings, ("stagger_s",))] = (
        field(default_factory=dict)
    )

    def require_beside(self, name: str) -> None:
        """Accept the flag: what is given wins over the inventory."""


@dataclass(frozen=True)
class ClientOptions(EntryOptions):
    """Where, or with which program, clients commit: for the time to recover."""

    section = "Target"

    of_clients: Annotated[
        Mapping[str, Any], FlagsOf(TargetSettings, ("client_target", "client_command"))
    ] = field(default_factory=dict)

    def require_beside(self, name: str) -> None:
        """Accept the flag: what is given wins over the inventory."""


@dataclass(frozen=True)
class TwiceOptions(Group):
    """Whether the rows are read a second time."""

    section = "Target"

    of_twice: Annotated[Mapping[str, Any], FlagsOf(TargetSettings, ("twice",))] = field(
        default_factory=dict
    )

    @property
    def twice(self) -> bool:
        """True if the rows are read a second time."""
        return "twice" in self.of_twice


@dataclass(frozen=True)
class RestartOptions(TwiceOptions, EntryOptions):
    """The second reading, and who restarts the server for it."""

    of_restart: Annotated[Mapping[str, Any], FlagsOf(TargetSettings, ("restart",))] = (
        field(default_factory=dict)
    )

    def require_beside(self, name: str) -> None:
        """Accept each flag: what is given wins over the inventory."""


Named = NamedByArgument | NamedByFlag


def list_reconcile_flags(
    named: Named,
    target: TargetOptions,
    host: HostOptions,
    witness: WitnessOptions,
    restart: RestartOptions,
) -> list[str]:
    """Return the flags that dbcheck reconcile needs to log in and to read as much.

    The run's manifest names the target and the witness.
    """
    name = ["--name", named.name] if named.name else []
    return [
        *name,
        *named.arguments("inventory"),
        *target.arguments("password_command"),
        *witness.arguments("witness_identity", "witness_known_hosts"),
        *host.arguments("target_host", "server_log"),
        *restart.arguments("twice", "restart"),
    ]


def make_clean_command(
    named: Named, target: TargetOptions, host: HostOptions, witness: WitnessOptions
) -> str:
    """Return the command, as a shell takes it, that removes what a run left there.

    dbcheck clean is for one host: a cluster has no such command.
    """
    words = [named.name] if named.name else []
    words += [
        *named.arguments("inventory"),
        *target.arguments("target", "password_command"),
        *host.arguments("target_host"),
        *witness.arguments("witness", "witness_identity", "witness_known_hosts"),
    ]
    return shlex.join(("dbcheck", "clean", *words))
