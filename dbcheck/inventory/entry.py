"""One target of an inventory as a frozen object that other processes can use."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import fields as fields_of
from typing import Annotated, Any
from urllib.parse import parse_qs, urlsplit

from msgspec import Meta

from dbcheck.base import limits
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.config.secret import SECRET_OPTION, Secret
from dbcheck.config.target import KubernetesSettings, RestoreSettings, TargetSettings
from dbcheck.config.validated import suggest_nearest
from dbcheck.inventory.fields import PREFIX, TYPE_OF_SOURCE, Fields
from dbcheck.inventory.reaching import read_host
from dbcheck.model import managed
from dbcheck.model.cluster import Promise
from dbcheck.model.cut import PowerScope, SwitchKind
from dbcheck.model.host import Expected
from dbcheck.model.replication import PromotedBy
from dbcheck.power import registry, scope
from dbcheck.power.kinds.config import SwitchConfig
from dbcheck.power.kinds.manual import ManualConfig
from dbcheck.power.switched_host import SwitchedHost
from dbcheck.remote.address import AS_SSH, SshOptions

_ASK_HOST = f"{PREFIX}ask_host"
EXPECT = f"{PREFIX}expect_"
KUBERNETES = f"{PREFIX}kubernetes"
NODE = f"{PREFIX}kubernetes_node"
_WITNESS_PODS = f"{PREFIX}kubernetes_witness"
_PROMOTED_BY = f"{PREFIX}promoted_by"
_RESTORE = f"{PREFIX}restore"
SECRETS = {
    f"{PREFIX}password": "the database's password",
    f"{PREFIX}replication_password": "the password of `dbcheck_replication_user`",
    **registry.SECRETS,
}
# The variables that are no field of Entry -> the type of their values.
TYPES_OF_OTHERS: Mapping[str, Any] = {
    _ASK_HOST: Annotated[
        bool,
        Meta(
            description="`false`: ask the target's host nothing; the depth of the cut "
            "is then not measured. Default: `true`, but `false` where the URL leads to "
            "a managed service."
        ),
    ],
    KUBERNETES: Annotated[
        dict[str, Any],
        Meta(
            description="The server runs in a pod of Kubernetes: `selector` (labels, as"
            " `kubectl get pods -l` takes them) and, where they are needed,"
            " `namespace`, `container`, `context` and `kubeconfig`. SSH and the switch"
            " are those of its node, which is a host of this inventory; see"
            " [kubernetes.md](guides/kubernetes.md)."
        ),
    ],
    _WITNESS_PODS: Annotated[
        dict[str, Any],
        Meta(
            description="The witness is in a pod, too: the same keys. dbcheck then"
            " checks that it shares no node and no storage with the database. With"
            " `file:` it is dbcheck's own pod."
        ),
    ],
    NODE: Annotated[
        str,
        Meta(
            description="Of a node of Kubernetes: its name there, if it is not its"
            " name in this inventory."
        ),
    ],
    _RESTORE: Annotated[
        dict[str, Any],
        Meta(
            description="How the server is restored elsewhere: `restore`, a list, a"
            " program and its arguments; `target`, the URL of the server that it"
            " starts, with the account and password of this one; for `dbcheck"
            " snapshot`, `copy`, a program, or `until`, the kind of the point to which"
            " the archive is restored (`restore-point`, `lsn`, `gtid`); for `dbcheck"
            " run --restore`, `rpo_s`, the seconds before its loss from which commits"
            " may be lost, 0 for none; and,"
            " where they are wanted, `remove`, a program, `timeout_s`, and, for"
            " snapshots, `volumes`, a list, each with `target`, a folder on it, and"
            " `restored`, where that is restored (`{run}`: the run's id), on"
            " `restored_host`. See [restore.md](guides/restore.md)."
        ),
    ],
    **registry.TYPES_OF_OTHERS,
}
# A setting -> its variable without the prefix, where they differ.
VARIABLE_OF_SETTING = {"return_s": "wait_s"}


@dataclass(frozen=True, slots=True)
class Entry(TargetSettings):
    """One target with all that belongs to it; a rig can be built from it anywhere.

    inventory: the file that names it; "" if none does.
    host, host_options: the target's host as "ssh://[user@]host[:port]" or "local:",
               and how to log in there; "" if the host is not to be asked.
    doubt:     why its switch may be another host's as well, "" if nothing shows that.
    cluster:   the name of the cluster whose writer this is, "" if it is none.
    standbys:  the other hosts of that cluster; otherwise ().
    kubernetes: the pods that have the server, None if it does not run there.
    witness_pods: the pods among which the witness's is, None if it is in none.
    machine:   the host of the inventory that the pod with the server runs on, whose
               are *host*, *power* and *expected*; "" if they are its own, or if the
               pod was not looked up.
    copied_by: how a copy of the server is taken, and restored elsewhere; None if it is
               not known.
    """

    password: Secret | None = None
    replication_password: Secret | None = None
    host: str = ""
    host_options: SshOptions = AS_SSH
    power: SwitchConfig = ManualConfig()
    expected: Expected = Expected()
    doubt: str = ""
    inventory: str = ""
    cluster: str = ""
    standbys: tuple[Entry, ...] = ()
    kubernetes: KubernetesSettings | None = None
    witness_pods: KubernetesSettings | None = None
    machine: str = ""
    copied_by: RestoreSettings | None = None

    @property
    def drive_scope(self) -> scope.DriveScope | None:
        """The drives that alone lose their power, None if the whole host loses it.

        None for a lab as well, which knows its drives.
        """
        if not self.power_drives:
            return None
        return scope.make_unit_scope(
            self.power_drives, self.server_unit, self.server_kill, self.server_start
        )

    @property
    def restore_command(self) -> str:
        """The command that restores the power, for a user; "" if there is none."""
        own_command: tuple[str, ...] = ()
        if switched := self.machine or self.name:
            own_command = ("dbcheck", "power", "restore", switched)
            own_command = (*own_command, "--inventory", self.inventory)
        return shlex.join(self.power.restore_command(own_command))

    @property
    def switched_host(self) -> SwitchedHost:
        """The host that a cut hits, with its switch."""
        name = self.machine or self.name
        about = (name, self.target, self.host, self.expected, self.power)
        return SwitchedHost(*about, self.drive_scope)

    @property
    def title(self) -> str:
        """The name by which users call it: that of its cluster, else its own."""
        return self.cluster or self.name

    @property
    def has_pods_as_nodes(self) -> bool:
        """True if it is a cluster in pods, which may be elsewhere after each cut."""
        return self.kubernetes is not None and bool(self.standbys)

    @property
    def promises(self) -> tuple[Promise, ...]:
        """What the commits of a cluster must survive; () of a single server.

        Each cut tests one of these promises.
        """
        return self.listed_promises if self.standbys else ()

    @property
    def listed_promises(self) -> tuple[Promise, ...]:
        """The promises of dbcheck_survives, whether this is a cluster or not."""
        listed = self.survives
        return tuple(map(Promise, (listed,) if isinstance(listed, str) else listed))

    @property
    def cut_with(self) -> tuple[Entry, ...]:
        """The hosts that lose their power in a cut of this one, itself among them.

        Of several promises: in the cut that takes most.
        """
        cuts_all = any(promise.cuts_all for promise in self.promises)
        return (self, *self.standbys) if cuts_all else (self,)

    @property
    def cut_in_turn(self) -> tuple[Entry, ...]:
        """The hosts of which any may lose its power in one of several cuts.

        After a cut whose writer stays off, another host of the cluster takes the load.
        """
        if all(promise.writer_returns for promise in self.promises):
            return self.cut_with
        return (self, *self.standbys)


KNOWN = frozenset(
    (
        *(
            f"{PREFIX}{VARIABLE_OF_SETTING.get(field.name, field.name)}"
            for field in fields_of(TargetSettings)
            if field.name != "name"
        ),
        *(f"{EXPECT}{f.name}" for f in fields_of(Expected)),
        *registry.VARIABLES,
        *(f"{name}_{source}" for name in SECRETS for source in TYPE_OF_SOURCE),
        *TYPES_OF_OTHERS,
    )
)


def parse_entry(fields: Fields) -> Entry:
    """Return the target that *fields* describe; raise UsageError naming the key."""
    pods = fields.read_mapping(KUBERNETES, KubernetesSettings)
    host, host_options = ("", AS_SSH) if pods else _read_host(fields)
    given = {
        "name": fields.host,
        "password": fields.secret(f"{PREFIX}password"),
        "replication_password": fields.secret(f"{PREFIX}replication_password"),
        "host": host,
        "host_options": host_options,
        "power": ManualConfig() if pods else registry.read_switch_config(fields),
        "expected": fields.read(Expected, EXPECT),
        "doubt": "",
        "inventory": "",
        "cluster": "",
        "standbys": (),
        "kubernetes": pods,
        "witness_pods": fields.read_mapping(_WITNESS_PODS, KubernetesSettings),
        "machine": "",
        "copied_by": fields.read_mapping(_RESTORE, RestoreSettings),
    }
    if pods is not None and fields.value(_PROMOTED_BY, str, None) is None:
        given["promoted_by"] = PromotedBy.AUTO.value  # the operator does
    entry = fields.read(Entry, PREFIX, given=given, keys=VARIABLE_OF_SETTING)
    _require_url(fields, f"{PREFIX}target", entry.target)
    if entry.copied_by is not None:
        _require_restore(fields, entry.copied_by)
    if entry.client_target:
        _require_url(fields, f"{PREFIX}client_target", entry.client_target)
    if entry.witness and not entry.witness.startswith(("ssh://", "file:")):
        hint = "A witness is ssh://[user@]host[:port]/folder or file:FOLDER."
        raise fields.error(
            f"{PREFIX}witness",
            "is not the URL of a witness",
            id=ErrorId.WITNESS_URL_INVALID,
            hint=hint,
        )
    _require_scope(fields, entry)
    if bool(entry.fault) != bool(entry.fault_end):
        there, lacking = "fault", "fault_end"
        if not entry.fault:
            there, lacking = lacking, there
        raise fields.error(
            f"{PREFIX}{there}",
            f"has no {PREFIX}{lacking} beside it",
            id=ErrorId.FAULT_INCOMPLETE,
            hint="Give both programs: that which begins the fault, and that which ends"
            " it.",
        )
    _require_promises(fields, entry)
    return entry


def _require_restore(fields: Fields, settings: RestoreSettings) -> None:
    """Raise UsageError for a value of no use, and for keys that exclude each other."""
    _require_url(fields, f"{_RESTORE}: target", settings.target)
    for key in ("target", "restored"):
        folders = [os.path.normpath(getattr(each, key)) for each in settings.volumes]
        if len(set(folders)) < len(folders):
            raise fields.error(
                f"{_RESTORE}: volumes",
                f"have one folder twice as {key}",
                id=ErrorId.NAME_GIVEN_TWICE,
                hint="Name one folder on each volume, and where its copy is restored.",
            )
    others = {
        "copy": settings.copy,
        "volumes": settings.volumes,
        "rpo_s": settings.rpo_s is not None,
    }
    for beside in (name for name, given in others.items() if given):
        if settings.until is not None:
            raise fields.error(
                f"{_RESTORE}: until",
                f"cannot be used with {beside}",
                id=ErrorId.OPTIONS_CONFLICT,
                hint="One host of the inventory has one way to restore: a copy, the"
                " archive to a point, or the archive of a lost server. Describe the"
                " server as two hosts to check two of them.",
            )
    if settings.rpo_s and settings.rpo_s < limits.RPO_S_MIN:
        raise fields.error(
            f"{_RESTORE}: rpo_s",
            f"is {settings.rpo_s:g}, which is less than {limits.RPO_S_MIN:g} s",
            id=ErrorId.VALUE_INVALID,
            hint="Give 0 if no commit may be lost.",
        )


def _require_promises(fields: Fields, entry: Entry) -> None:
    """Raise UsageError unless dbcheck_survives is a promise, or a list of some."""
    name, known = f"{PREFIX}survives", [each.value for each in Promise]
    listed = (entry.survives,) if isinstance(entry.survives, str) else entry.survives
    wrong = [each for each in listed if each not in known]
    if wrong or not listed:
        question = suggest_nearest(wrong[0], known) if wrong else ""
        raise fields.error(
            name,
            f"is {wrong[0]!r}" if wrong else "is an empty list",
            id=ErrorId.VALUE_INVALID,
            hint=f"It must be one of {', '.join(known)}, or a list of"
            f" these. {question}".rstrip(),
        )
    if len(set(listed)) < len(listed):
        raise fields.error(
            name,
            "lists a promise twice",
            id=ErrorId.NAME_GIVEN_TWICE,
            hint="List each promise once: each gets an equal share of the cuts.",
        )


def _require_url(fields: Fields, name: str, url: str) -> None:
    """Raise UsageError unless *url* is that of a database, without a password."""
    if "://" in url and not _has_password(url):
        return
    what, id = "is not a database URL", ErrorId.TARGET_URL_INVALID
    if "://" in url:
        what, id = "holds a password", ErrorId.URL_HOLDS_PASSWORD
    hint = "Write it like postgresql+psycopg2://user@host:5432/database; the "
    hint += f"password is {PREFIX}password_env."
    raise fields.error(name, what, id=id, hint=hint)


def _require_scope(fields: Fields, entry: Entry) -> None:
    """Raise UsageError unless the settings for cuts of drives alone are consistent.

    A target whose drives alone lose their power needs them; another may have none.
    """
    given = {
        "power_drives": entry.power_drives,
        "server_unit": entry.server_unit,
        "server_kill": entry.server_kill,
        "server_start": entry.server_start,
    }
    if entry.power_scope == PowerScope.HOST.value:
        for name, value in given.items():
            if value:
                hint = f"Add {scope.SCOPE}: drive, or remove it."
                raise fields.error(
                    f"{PREFIX}{name}",
                    "is for cuts of drives alone",
                    id=ErrorId.DRIVE_SCOPE_MISSING,
                    hint=hint,
                )
        return
    try:
        scope.require_power_cut(entry.power)
    except UsageError as error:
        what = f"cannot be 'drive': {error}"
        raise fields.error(scope.SCOPE, what, id=error.id, hint=error.hint) from None
    if entry.power.kind is SwitchKind.LAB:
        return
    if not entry.power_drives:
        hint = "List the serials of the drives that the switch cuts: lsblk -d -o "
        hint += "NAME,SERIAL shows them."
        raise fields.error(
            f"{PREFIX}power_drives",
            "is missing",
            id=ErrorId.DRIVE_SCOPE_INCOMPLETE,
            hint=hint,
        )
    if not entry.host:
        hint = "Its agent sees the drives go and come back: set ansible_host."
        raise fields.error(
            scope.SCOPE,
            "needs the target's host",
            id=ErrorId.TARGET_HOST_MISSING,
            hint=hint,
        )
    if not entry.server_unit and not (entry.server_kill and entry.server_start):
        hint = f"Give it, or {PREFIX}server_kill and {PREFIX}server_start."
        raise fields.error(
            f"{PREFIX}server_unit",
            "is missing",
            id=ErrorId.DRIVE_SCOPE_INCOMPLETE,
            hint=hint,
        )


def _read_host(fields: Fields) -> tuple[str, SshOptions]:
    """Return the host's URL, "" if it must not be asked, and its SSH options."""
    if not fields.value(_ASK_HOST, TYPES_OF_OTHERS[_ASK_HOST], not _is_managed(fields)):
        return "", AS_SSH
    return read_host(fields)


def _is_managed(fields: Fields) -> bool:
    """Return True if only a provider can log in to a host in the target's URL."""
    try:
        url = urlsplit(fields.value(f"{PREFIX}target", str, ""))
        of_query = ",".join(parse_qs(url.query).get("host", []))  # HOST[:PORT],...
    except ValueError:
        return False
    hosts = [url.hostname or "", *of_query.split(",")]
    return managed.find_service_of_hosts(host.partition(":")[0] for host in hosts) != ""


def _has_password(url: str) -> bool:
    try:
        parts = urlsplit(url)
        options = parse_qs(parts.query, keep_blank_values=True)
        return parts.password is not None or any(map(SECRET_OPTION.search, options))
    except ValueError:
        return False  # the engine will refuse this URL
