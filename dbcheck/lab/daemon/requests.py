"""What a lab's daemon can be asked for, and what it answers."""

from __future__ import annotations

from typing import Any

import msgspec

from dbcheck.lab.drive.replay import Shown


class Request(msgspec.Struct, forbid_unknown_fields=True, tag=str.lower, frozen=True):
    """The base of all requests; each goes under its class's name in lower case."""

    @property
    def name(self) -> str:
        """The name by which it goes."""
        return type(self).__name__.lower()


class Describe(Request, frozen=True):
    """Answered with a Description."""


class Status(Request, frozen=True):
    """Answered with a PowerStatus."""


class Cut(Request, frozen=True):
    """Cut the power; answered with a CutResult."""


class Restore(Request, frozen=True):
    """Restore the power; image: a new file for a copy of the drive, "" for none."""

    image: str = ""


class Restart(Request, frozen=True):
    """Shut the server down in an orderly way and start it again."""


class Rejoin(Request, frozen=True):
    """Have the server follow another one; see servers.base.Source."""

    port: int
    password: str
    member: str


class Start(Request, frozen=True):
    """Start the server on the drive that came back, whose filesystem is mounted."""


class Counters(Request, frozen=True):
    """Answered with what the drive did since power was last applied: name -> number."""


class SetDrive(Request, frozen=True, omit_defaults=True):
    """Change these of the drive's settings, see spec.DriveSpec; None: as it is."""

    flush_ms: float | None = None
    write_ms: float | None = None
    survivors: str | None = None
    seed: int | None = None
    forget_at_bytes: int | None = None
    forget_bytes: int | None = None

    def changes(self) -> dict[str, object]:
        """Return the settings that change."""
        named = msgspec.structs.asdict(self)
        return {name: value for name, value in named.items() if value is not None}


class Configure(Request, frozen=True):
    """Replace the server's settings."""

    settings: dict[str, str]


class SaveRecordings(Request, frozen=True):
    """Store what the drives recorded until the power was cut."""


class Show(Request, frozen=True):
    """Hold and recover a crash state of each drive; answered with a PowerStatus.

    start: False mounts the filesystems and starts no server.
    """

    states: list[Shown]
    start: bool = True


class Blocks(Request, frozen=True):
    """Answered with where the blocks of each file are: a list of FileBlocks."""


class Freeze(Request, frozen=True):
    """Stop the server's processes."""


class Thaw(Request, frozen=True):
    """Resume the server's processes."""


class Log(Request, frozen=True):
    """Answered with so many lines, the last ones, of the server's log."""

    lines: int


class Down(Request, frozen=True):
    """End the lab; answered before that."""


ANY = (
    Describe
    | Status
    | Cut
    | Restore
    | Restart
    | Rejoin
    | Start
    | Counters
    | SetDrive
    | Configure
    | SaveRecordings
    | Show
    | Blocks
    | Freeze
    | Thaw
    | Log
    | Down
)


class Description(msgspec.Struct, frozen=True):
    """See lab.Lab; spec: in JSON."""

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
    """See machine.Machine: its power, failure() and broken()."""

    power: str
    failure: str | None
    broken: str | None


class CutResult(msgspec.Struct, frozen=True):
    """See machine.Machine.cut()."""

    exact_us: int
    report: dict[str, Any]
