"""One target of an inventory, as one frozen object that another process can use."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from dbcheck.core.cutclass import DECLARABLE, CutClass
from dbcheck.inventory.fields import PREFIX, SOURCES, Fields
from dbcheck.secret import Secret

KINDS = ("manual", "exec", "fence", "sysrq", "lab")
_CONNECTIONS = ("ssh", "paramiko", "paramiko_ssh", "smart", "local")
OFF_S = 15.0
OFF_S_MIN = 1.0  # no supply's capacitors run empty in less
TIMEOUT_S = 60.0
_SECONDS_MAX = 10_000_000.0
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
    "power",
    "power_lab",
    "power_agent",
    "power_plug",
    "power_options",
    "power_state",
    "power_cut",
    "power_restore",
    "power_class",
    "power_off_s",
    "power_timeout_s",
    "ask_host",
    "price",
    "sessions",
    "silence_s",
    "wait_s",
)
_SECRETS = ("password", "power_password")
KNOWN = tuple(
    f"{PREFIX}{name}"
    for name in sorted(
        (*_TEXTS, *(f"{name}_{source}" for name in _SECRETS for source in SOURCES))
    )
)


@dataclass(frozen=True, slots=True)
class PowerPlan:
    """How the power of one target is cut and restored.

    kind:      one of KINDS.
    lab:       lab: its name.
    state, cut, restore: exec: programs with their words; () if there is none.
    agent:     fence: the program's name or path.
    options:   fence: name -> value on its standard input.
    secrets:   fence: name -> where the value is to be had.
    off_s:     seconds without power, at least; what is charged must run empty.
    timeout_s: for one call of a command or an agent, in seconds.
    cut_class: what it cuts, if that is declared.
    """

    kind: str = "manual"
    lab: str = ""
    state: tuple[str, ...] = ()
    cut: tuple[str, ...] = ()
    restore: tuple[str, ...] = ()
    agent: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, Secret] = field(default_factory=dict)
    off_s: float = OFF_S
    timeout_s: float = TIMEOUT_S
    cut_class: CutClass | None = None

    @property
    def attended(self) -> bool:
        """Say whether a human cuts."""
        return self.kind == "manual"

    @property
    def assumes_class(self) -> bool:
        """Say whether the cut is taken to be AC though nobody declared it."""
        return self.attended and self.cut_class is None


@dataclass(frozen=True, slots=True)
class Expected:
    """What the right host says of itself; "" where nothing is expected."""

    hostname: str = ""
    serial: str = ""
    machine_id: str = ""


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
    power: PowerPlan = PowerPlan()
    expected: Expected = Expected()
    price: float | None = None
    workload: str = "insert"
    sessions: int | None = None
    silence_s: float = 5.0
    return_s: float = 1800.0
    doubt: str = ""
    inventory: str = ""

    @property
    def restore_command(self) -> str:
        """Return what a user types to give the power back, "" if there is nothing."""
        plan = self.power
        if plan.kind not in ("exec", "fence") or (
            plan.kind == "exec" and not plan.restore
        ):
            return ""
        if not self.name:
            return shlex.join(plan.restore)
        words = ["dbcheck", "power", "restore", self.name]
        return shlex.join([*words, "--inventory", self.inventory])


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
        power=power(fields),
        expected=Expected(
            fields.text(f"{PREFIX}expect_hostname"),
            fields.text(f"{PREFIX}expect_serial"),
            fields.text(f"{PREFIX}expect_machine_id"),
        ),
        price=fields.number(f"{PREFIX}price", 0, 1e12),
        workload=fields.text(f"{PREFIX}workload", "insert"),
        sessions=fields.whole(f"{PREFIX}sessions", 1, 4096),
        silence_s=_seconds(fields, "silence_s", 5.0),
        return_s=_seconds(fields, "wait_s", 1800.0),
    )


def _host(fields: Fields) -> tuple[str, Path | None]:
    """Return how to reach the target's host, as Ansible would, and the key."""
    if not fields.flag(f"{PREFIX}ask_host", default=True):
        return "", None
    if fields.choice("ansible_connection", _CONNECTIONS, "ssh") == "local":
        return "local:", None
    host = fields.text("ansible_host", fields.host)
    user = fields.text("ansible_user")
    port = fields.whole("ansible_port", 1, _PORT_MAX)
    url = f"ssh://{user}@" if user else "ssh://"
    url += f"[{host}]" if ":" in host else host
    url += f":{port}" if port else ""
    return url, _path(fields, "ansible_ssh_private_key_file")


def power(fields: Fields) -> PowerPlan:
    """Return how a target is cut; raise UsageError naming the key."""
    kind = fields.choice(f"{PREFIX}power", KINDS, "manual")
    needed = {"exec": "power_cut", "fence": "power_agent", "lab": "power_lab"}
    if kind in needed:
        name = f"{PREFIX}{needed[kind]}"
        if kind == "exec":
            if not fields.command(name):
                raise fields.error(name, "is missing", "Give it as a list of words.")
        else:
            fields.required(name)
    options, secrets = fields.options(f"{PREFIX}power_options")
    if plug := fields.text(f"{PREFIX}power_plug"):
        options["plug"] = plug
    if password := fields.secret(f"{PREFIX}power_password"):
        secrets["password"] = Secret("password", password.kind, password.source)
    off_s = fields.number(f"{PREFIX}power_off_s", OFF_S_MIN, 86_400)
    declared = ""
    if fields.text(f"{PREFIX}power_class"):
        declared = fields.choice(f"{PREFIX}power_class", DECLARABLE, "")
    return PowerPlan(
        kind=kind,
        lab=fields.text(f"{PREFIX}power_lab"),
        state=fields.command(f"{PREFIX}power_state"),
        cut=fields.command(f"{PREFIX}power_cut"),
        restore=fields.command(f"{PREFIX}power_restore"),
        agent=fields.text(f"{PREFIX}power_agent"),
        options=options,
        secrets=secrets,
        off_s=OFF_S if off_s is None else off_s,
        timeout_s=_seconds(fields, "power_timeout_s", TIMEOUT_S),
        cut_class=CutClass(declared) if declared else None,
    )


def _seconds(fields: Fields, name: str, default: float) -> float:
    found = fields.number(f"{PREFIX}{name}", 0.01, _SECONDS_MAX)
    return default if found is None else found


def _path(fields: Fields, name: str) -> Path | None:
    text = fields.text(name)
    return Path(text).expanduser() if text else None


def _has_password(url: str) -> bool:
    try:
        return urlsplit(url).password is not None
    except ValueError:
        return False  # which the engine will refuse
