"""One target of an inventory as a frozen object; another process can use it, too."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from dataclasses import fields as fields_of
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from msgspec import Meta

from dbcheck import limits
from dbcheck.core.identity import Expected
from dbcheck.inventory.fields import PREFIX, SOURCES, Fields
from dbcheck.power import registry
from dbcheck.power.kinds.manual import ManualPlan
from dbcheck.power.kinds.plan import PowerPlan
from dbcheck.power.wiring import Wiring
from dbcheck.remote.way import LOCAL
from dbcheck.secret import Secret
from dbcheck.validated import Command, one_of

_CONNECTIONS = ("ssh", "paramiko", "paramiko_ssh", "smart", "local")
_ASK_HOST = f"{PREFIX}ask_host"
_EXPECT = f"{PREFIX}expect_"
_SECRETS = (f"{PREFIX}password", *registry.SECRETS)
_KEYS = {"return_s": "wait_s"}  # a field of Entry -> its variable, where they differ
_GIVEN = frozenset(  # the fields of Entry that are not variables of their own
    {"name", "password", "host", "host_identity", "power", "expected", "doubt"}
    | {"inventory"}
)
_Seconds = Annotated[float, Meta(ge=limits.SECONDS_MIN, le=limits.SECONDS_MAX)]


@dataclass(frozen=True, slots=True)
class Entry:
    """One target with all that belongs to it; a rig can be built from it anywhere.

    name:      in the inventory; "" if flags describe it.
    inventory: the file that names it; "" if none does.
    witness:   "" if none is named.
    host, host_identity: the target's host as "ssh://[user@]host[:port]" or "local:",
               and the private key for it; "" if the host is not to be asked, or if
               SSH's own configuration names the key.
    restart:   the program that restarts the server in an orderly way, with its
               arguments; () if none is named.
    twice:     the rows are read again after such a restart.
    price:     of the target's hardware, in a currency of the user's.
    sessions:  None: the workload's.
    silence_s, return_s: see campaign.rig.Limits.
    doubt:     why its switch may be another host's as well; "" if none is.
    """

    name: str
    target: str
    witness: str = ""
    password: Secret | None = None
    witness_identity: Path | None = None
    witness_known_hosts: Path | None = None
    host: str = ""
    host_identity: Path | None = None
    server_log: str = ""
    power: PowerPlan = ManualPlan()
    expected: Expected = Expected()
    restart: Command = ()
    twice: bool = False
    price: Annotated[float, Meta(ge=0, le=1e12)] | None = None
    workload: str = ""  # the command's own
    sessions: Annotated[int, Meta(ge=1, le=limits.SESSIONS_MAX)] | None = None
    silence_s: _Seconds = limits.SILENCE_S
    return_s: _Seconds = limits.RETURN_S
    doubt: str = ""
    inventory: str = ""

    @property
    def restore_command(self) -> str:
        """The command that restores the power, for a user; "" if there is none."""
        named: tuple[str, ...] = ()
        if self.name:
            named = ("dbcheck", "power", "restore", self.name)
            named = (*named, "--inventory", self.inventory)
        return shlex.join(self.power.restore_command(named))

    @property
    def wiring(self) -> Wiring:
        """What a cut would hit, and by which switch."""
        return Wiring(self.name, self.target, self.host, self.expected, self.power)


KNOWN = frozenset(
    (
        *(f"{PREFIX}{_KEYS.get(f.name, f.name)}" for f in fields_of(Entry)),
        *(f"{_EXPECT}{f.name}" for f in fields_of(Expected)),
        *registry.VARIABLES,
        *(f"{name}_{source}" for name in _SECRETS for source in SOURCES),
        _ASK_HOST,
    )
) - {f"{PREFIX}{name}" for name in _GIVEN - {"power"}}


_Connection = Annotated[str, one_of(_CONNECTIONS)]


@dataclass(frozen=True, slots=True)
class _Ansible:
    """How Ansible reaches a host: the variables that begin with ansible_."""

    host: str = ""
    user: str = ""
    port: Annotated[int, Meta(ge=1, le=65_535)] | None = None
    connection: _Connection = "ssh"
    ssh_private_key_file: Path | None = None


def entry(fields: Fields) -> Entry:
    """Return the target that *fields* describe; raise UsageError naming the key."""
    host, host_identity = _host(fields)
    given = {
        "name": fields.host,
        "password": fields.secret(f"{PREFIX}password"),
        "host": host,
        "host_identity": host_identity,
        "power": registry.read(fields),
        "expected": fields.read(Expected, _EXPECT),
        "doubt": "",
        "inventory": "",
    }
    found = fields.read(Entry, PREFIX, given=given, keys=_KEYS)
    if "://" not in found.target or _has_password(found.target):
        what = "holds a password" if "://" in found.target else "is not a database URL"
        hint = "Write it like postgresql+psycopg2://user@host:5432/database; the "
        hint += f"password is {PREFIX}password_env."
        raise fields.error(f"{PREFIX}target", what, hint)
    if found.witness and not found.witness.startswith(("ssh://", "file:")):
        hint = "A witness is ssh://[user@]host[:port]/folder or file:FOLDER."
        raise fields.error(f"{PREFIX}witness", "is not the URL of a witness", hint)
    return found


def _host(fields: Fields) -> tuple[str, Path | None]:
    """Return how to reach the target's host, as Ansible would, and the key."""
    if not fields.value(_ASK_HOST, bool, True):
        return "", None
    if fields.value("ansible_connection", _Connection, "ssh") == "local":
        return LOCAL, None
    way = fields.read(_Ansible, "ansible_")
    host = way.host or fields.host
    url = f"ssh://{way.user}@" if way.user else "ssh://"
    url += f"[{host}]" if ":" in host else host
    url += f":{way.port}" if way.port else ""
    return url, way.ssh_private_key_file


def _has_password(url: str) -> bool:
    try:
        return urlsplit(url).password is not None
    except ValueError:
        return False  # which the engine will refuse
