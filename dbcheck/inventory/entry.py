"""One target of an inventory, as one frozen object that another process can use."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from dbcheck import limits
from dbcheck.core.identity import Expected
from dbcheck.inventory.fields import PREFIX, SOURCES, Fields
from dbcheck.power import registry
from dbcheck.power.kinds.manual import ManualPlan
from dbcheck.power.kinds.plan import PowerPlan
from dbcheck.power.wiring import Wiring
from dbcheck.remote.way import LOCAL
from dbcheck.secret import Secret

_CONNECTIONS = ("ssh", "paramiko", "paramiko_ssh", "smart", "local")
_PORT_MAX = 65_535

_TEXTS = (
    "target",
    "witness",
    "witness_identity",
    "witness_known_hosts",
    "server_log",
    "expect_hostname",
    "expect_serial",
    "expect_machine_id",
    "workload",
    "ask_host",
    "price",
    "sessions",
    "silence_s",
    "wait_s",
)
_SECRETS = (f"{PREFIX}password", *registry.SECRETS)
KNOWN = tuple(
    sorted(
        (
            *(f"{PREFIX}{name}" for name in _TEXTS),
            *registry.VARIABLES,
            *(f"{name}_{source}" for name in _SECRETS for source in SOURCES),
        )
    )
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One target with all that belongs to it; a rig can be built from it anywhere.

    name:      in the inventory; "" if it was put together from flags.
    inventory: the file that names it; "" if none does.
    witness:   "" if none is named.
    host, host_identity: the target's host as "ssh://[user@]host[:port]" or "local:",
               and the private key for it; "" if it is not to be asked, or if SSH's
               own configuration knows.
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
    price: float | None = None
    workload: str = "insert"
    sessions: int | None = None
    silence_s: float = limits.SILENCE_S
    return_s: float = limits.RETURN_S
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


def entry(fields: Fields) -> Entry:
    """Return the target that *fields* describe; raise UsageError naming the key."""
    own = f"{PREFIX}target"
    target = fields.required(own)
    if "://" not in target or _has_password(target):
        what = "holds a password" if "://" in target else "is not a database URL"
        hint = "Write it like postgresql+psycopg2://user@host:5432/database; the "
        raise fields.error(own, what, hint + f"password is {PREFIX}password_env.")
    witness = fields.text(f"{PREFIX}witness")
    if witness and not witness.startswith(("ssh://", "file:")):
        hint = "A witness is ssh://[user@]host[:port]/folder or file:FOLDER."
        raise fields.error(f"{PREFIX}witness", "is no witness", hint)
    host, host_identity = _host(fields)
    return Entry(
        name=fields.host,
        target=target,
        witness=witness,
        password=fields.secret(f"{PREFIX}password"),
        witness_identity=_path(fields, f"{PREFIX}witness_identity"),
        witness_known_hosts=_path(fields, f"{PREFIX}witness_known_hosts"),
        host=host,
        host_identity=host_identity,
        server_log=fields.text(f"{PREFIX}server_log"),
        power=registry.read(fields),
        expected=Expected(
            fields.text(f"{PREFIX}expect_hostname"),
            fields.text(f"{PREFIX}expect_serial"),
            fields.text(f"{PREFIX}expect_machine_id"),
        ),
        price=fields.number(f"{PREFIX}price", 0, 1e12),
        workload=fields.text(f"{PREFIX}workload", "insert"),
        sessions=fields.whole(f"{PREFIX}sessions", 1, limits.SESSIONS_MAX),
        silence_s=_seconds(fields, "silence_s", limits.SILENCE_S),
        return_s=_seconds(fields, "wait_s", limits.RETURN_S),
    )


def _host(fields: Fields) -> tuple[str, Path | None]:
    """Return how to reach the target's host, as Ansible would, and the key."""
    if not fields.flag(f"{PREFIX}ask_host", default=True):
        return "", None
    if fields.choice("ansible_connection", _CONNECTIONS, "ssh") == "local":
        return LOCAL, None
    host = fields.text("ansible_host", fields.host)
    user = fields.text("ansible_user")
    port = fields.whole("ansible_port", 1, _PORT_MAX)
    url = f"ssh://{user}@" if user else "ssh://"
    url += f"[{host}]" if ":" in host else host
    url += f":{port}" if port else ""
    return url, _path(fields, "ansible_ssh_private_key_file")


def _seconds(fields: Fields, name: str, default: float) -> float:
    found = fields.number(f"{PREFIX}{name}", limits.SECONDS_MIN, limits.SECONDS_MAX)
    return default if found is None else found


def _path(fields: Fields, name: str) -> Path | None:
    text = fields.text(name)
    return Path(text).expanduser() if text else None


def _has_password(url: str) -> bool:
    try:
        return urlsplit(url).password is not None
    except ValueError:
        return False  # which the engine will refuse
