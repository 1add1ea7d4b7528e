"""The settings of one target, which an inventory gives as variables, or flags."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from dbcheck.base import limits
from dbcheck.base.points import PointKind
from dbcheck.base.setting import Setting
from dbcheck.config.validated import Command, Text, one_of
from dbcheck.model.cluster import STAGGER_S_MAX, Promise, SiteKind
from dbcheck.model.cut import PowerScope
from dbcheck.model.replication import PromotedBy, RebuiltBy

_TOPOLOGIES = tuple(kind.value for kind in SiteKind if kind.is_cluster)
_Seconds = Annotated[float, Meta(ge=limits.SECONDS_MIN, le=limits.SECONDS_MAX)]


@dataclass(frozen=True, slots=True)
class KubernetesSettings:
    """The keys of dbcheck_kubernetes.

    selector:  labels, as `kubectl get pods -l` takes them.
    namespace: "" for the namespace of the context, or of dbcheck's own pod.
    container: "" for the only container, or the one that the operator's pods have.
    context:   of the kubeconfig; "" for its current one, or, without a kubeconfig, the
               service account of dbcheck's own pod.
    kubeconfig: None for KUBECONFIG, or ~/.kube/config.
    """

    selector: Annotated[str, Meta(pattern=r"\S")]  # a blank one matches all pods
    namespace: str = ""
    container: str = ""
    context: str = ""
    kubeconfig: Path | None = None


@dataclass(frozen=True, slots=True)
class VolumeSettings:
    """The keys of one of the volumes in dbcheck_restore.

    target:   a folder on the volume, on the target's host, to write a file in.
    restored: where that folder is once the copy is restored; {run} stands for the run's
              id.
    """

    target: Annotated[str, Meta(pattern="^/")]
    restored: Annotated[str, Meta(pattern="^/")]


@dataclass(frozen=True, slots=True)
class RestoreSettings:
    """The keys of dbcheck_restore.

    restore: the program that restores a copy elsewhere and starts a server on it, with
             its arguments.
    target:  the URL of that server, without a password; it has the target's accounts.
    copy:    the program that takes a copy of the server beside the load; () if it is
             copied otherwise, as by an archive of its log.
    remove:  the program that ends that server and removes the copy; () to keep both.
    timeout_s: seconds that each program may take.
    until:   the kind of point to which the archive of the server's log is restored, in
             the place of a copy; *restore* then gets the point after the run's id.
    rpo_s:   the recovery point objective: commits that are older than so many seconds
             must not be lost with the server.  0: none may.
    volumes: the volumes of the server that are copied beside the load; () to leave open
             whether that is done at one moment.
    restored_host: where their copies are restored: "local:" or ssh://[user@]host[:port].
    """

    restore: Command
    target: str
    copy: Command = ()
    remove: Command = ()
    timeout_s: _Seconds = limits.COPY_S
    rpo_s: Annotated[float, Meta(ge=0, le=limits.RPO_S_MAX)] | None = None
    until: PointKind | None = None
    volumes: tuple[VolumeSettings, ...] = ()
    restored_host: str = "local:"


@dataclass(frozen=True, slots=True)
class TargetSettings:
    """The settings of one target.

    A field with a description is a variable of an inventory; one with a Setting has a
    flag, too. Without a value, a text is "", a command () and a number None.

    name: in the inventory; "" if flags describe the target.
    """

    name: str
    target: Annotated[
        str,
        Meta(description="The server, as a SQLAlchemy URL without a password."),
        Setting(
            "--target",
            "URL",
            help="The server, as a SQLAlchemy URL without a password, e.g. "
            "postgresql+psycopg2://dbcheck@db1/dbcheck or "
            "mysql+mysqlconnector://dbcheck@db1/dbcheck.",
        ),
    ]
    witness: Annotated[
        str,
        Meta(
            description="Where acks are logged: `ssh://user@host:port/~/folder` or "
            "`file:FOLDER`."
        ),
        Setting(
            "--witness",
            "URL",
            help="Where acks are logged: ssh://user@host:port/~/folder, in that user's "
            "home, or file:FOLDER on this machine if the target is another host.",
        ),
    ] = ""
    witness_identity: Annotated[
        Path | None,
        Meta(description="Private key for the witness."),
        Setting(
            "--identity",
            help="Private key for the witness. Default: those that ssh itself uses.",
        ),
    ] = None
    witness_known_hosts: Annotated[
        Path | None,
        Meta(description="File of known host keys for the witness."),
        Setting(
            "--known-hosts",
            help="File of known host keys. Default: those that ssh itself uses.",
        ),
    ] = None
    client_target: Annotated[
        str,
        Meta(
            description="The address that clients use, if it is another one than that "
            "of the server or node, as of a proxy: a SQLAlchemy URL without a password,"
            " whose password is that of the target. The time to recover is measured "
            "there."
        ),
        Setting(
            "--client-target",
            "URL",
            help="The address that clients use, if it is another one, as of a proxy "
            "or of several hosts: a SQLAlchemy URL without a password. dbcheck measures"
            " there after how long commits are answered again. Default: the target's "
            "URL; of a cluster, that of each node.",
        ),
    ] = ""
    server_log: Annotated[
        str,
        Meta(
            description="The server's log on its host; without it, where the server "
            "reports it."
        ),
        Setting(
            "--server-log",
            "PATH",
            help="The server's log on --target-host, a file or a folder of files. "
            "Default: where the server reports it.",
        ),
    ] = ""
    restart: Annotated[
        Command,
        Meta(
            description="A list: the program that stops the server in an orderly way "
            "and starts it again, for `dbcheck_twice` and `--twice`, and its "
            "arguments. A lab needs none."
        ),
        Setting(
            "--restart-command",
            "CMD",
            help="--twice: stops the server in an orderly way and starts it again, and "
            "exits with 0. It is started without a shell. A lab needs none.",
        ),
    ] = ()
    twice: Annotated[
        bool,
        Meta(
            description="`true`: restart the server in an orderly way once its rows "
            "were read, and read them again, as `--twice` does."
        ),
        Setting(
            "--twice",
            help="Restart the server in an orderly way once its rows were read, and "
            "read them again: both readings must agree.",
        ),
    ] = False
    price: Annotated[
        Annotated[float, Meta(ge=0, le=1e12)] | None,
        Meta(
            description="Price of the hardware, in a currency of yours; `dbcheck "
            "campaign` and `dbcheck matrix` show the price of a durable commit per "
            "second."
        ),
    ] = None
    workload: Annotated[
        str,
        Meta(
            description="A workload by its name (`dbcheck workloads`), or a TOML file "
            "of your own. Without it `run` takes `insert`, and `campaign` `mixed`."
        ),
    ] = ""
    sessions: Annotated[
        Annotated[int, Meta(ge=1, le=limits.SESSIONS_MAX)] | None,
        Meta(description="How many connections; without it the workload's number."),
    ] = None
    processes: Annotated[
        Annotated[int, Meta(ge=1, le=limits.PROCESSES_MAX)] | None,
        Meta(
            description="How many client processes share the sessions; without it the "
            "workload's number, or one that fits the client's cores."
        ),
    ] = None
    silence_s: Annotated[
        _Seconds,
        Meta(
            description="Seconds without any reply after which the server counts as "
            "gone."
        ),
        Setting("--silence", "S"),
    ] = limits.SILENCE_S
    return_s: Annotated[
        _Seconds,
        Meta(description="Seconds that the server may take to come back."),
        Setting("--wait", "S"),
    ] = limits.RETURN_S
    power_scope: Annotated[
        str,
        one_of([each.value for each in PowerScope]),
        Meta(
            description="What the switch takes the power from: the `host`, or `drive`, "
            "its drives alone while the host keeps running; see [power.md](power.md)."
        ),
    ] = PowerScope.HOST.value
    power_drives: Annotated[
        tuple[Text, ...],
        Meta(
            description="`dbcheck_power_scope: drive`: a list, the serials of the "
            "drives that lose their power."
        ),
    ] = ()
    server_unit: Annotated[
        str,
        Meta(
            description="`dbcheck_power_scope: drive`: the server's systemd unit, "
            "which is killed before the drives get their power back, and started after "
            "it."
        ),
    ] = ""
    server_kill: Annotated[
        Command,
        Meta(
            description="The same without systemd: a list, the program that kills the "
            "server and its arguments, run on the target's host."
        ),
    ] = ()
    server_start: Annotated[
        Command,
        Meta(
            description="The same: a list, the program that starts the server and its "
            "arguments, run on the target's host."
        ),
    ] = ()
    topology: Annotated[
        str,
        one_of(["", *_TOPOLOGIES]),
        Meta(
            description="For each host of a group that is a cluster: how its servers "
            "are one. `streaming`: PostgreSQL's streaming replication; "
            "`semi-sync`: replication of MySQL or MariaDB by GTID. `galera`: MariaDB "
            "Galera Cluster. `group-replication`: MySQL Group Replication, also of "
            "an InnoDB Cluster. `dbcheck run GROUP` then tests the cluster, see "
            "[clusters.md](clusters.md)."
        ),
    ] = ""
    writer: Annotated[
        str,
        Meta(description="Of a cluster: the host that takes the writes."),
    ] = ""
    survives: Annotated[
        # Its values are checked where it is read: msgspec 0.22 crashes on a union of a
        # string that has a pattern with a list.
        str | tuple[str, ...],
        Meta(
            extra={"choices": tuple(each.value for each in Promise)},
            description="Of a cluster: what its commits must survive. `writer`: a cut "
            "of the writer, which comes back. `writer-gone`: the loss of the writer, "
            "after which another host takes over. `all`: a cut of all hosts. "
            "`all-writer-gone`: that and the loss of the writer. `galera` and "
            "`group-replication` have `writer-gone` and `all`. Of a list of these, "
            "`dbcheck campaign GROUP` tests each in its share of the cuts, and `dbcheck"
            " run GROUP` the one that `--promise` names.",
        ),
    ] = Promise.WRITER_GONE.value
    stagger_s: Annotated[
        float,
        Meta(
            ge=0,
            le=STAGGER_S_MAX,
            description="Of a cluster, `dbcheck_survives: all`: cut the writer first, "
            "and the others within so many seconds, in a random order (see --seed). "
            "0: all at one moment.",
        ),
        Setting(
            "--stagger",
            "S",
            help="Of a cluster, dbcheck_survives: all: cut the writer first and the "
            "others within so many seconds, in a random order (see --seed); 0: all at "
            "one moment.",
        ),
    ] = 0.0
    promoted_by: Annotated[
        str,
        one_of([each.value for each in PromotedBy]),
        Meta(
            description="Of a cluster: who promotes a host once the writer is gone. "
            "`sql`: dbcheck, by the server's own function. `command`: dbcheck, by "
            "`dbcheck_promote`. `auto`: the cluster itself, as with Patroni. With "
            "`group-replication`: who forms the group again after a cut of all hosts, "
            "`sql` or, by other means than dbcheck, `auto`. Leave it out with `galera`."
        ),
    ] = PromotedBy.SQL.value
    promote: Annotated[
        Command,
        Meta(
            description="`dbcheck_promoted_by: command`: a list, the program that "
            "promotes a host and its arguments; the host's name is added as the last."
        ),
    ] = ()
    rebuilt_by: Annotated[
        str,
        one_of([each.value for each in RebuiltBy]),
        Meta(
            description="Of a cluster: who has the other hosts follow the new writer "
            "after a cut, so that the next one can follow (`dbcheck campaign GROUP`). "
            "`nobody`: it stays as the cut left it. `sql`: dbcheck, by statements that "
            "copy no data. `clone`: dbcheck, by MySQL's clone plugin. With both, a "
            "host that cannot be rebuilt so is left to its `dbcheck_rebuild`, if it has"
            " one. `command`: dbcheck, by `dbcheck_rebuild`. `auto`: the cluster "
            "itself, as with Patroni and Galera. What a host alone holds is read "
            "before, except with `auto`."
        ),
    ] = RebuiltBy.NOBODY.value
    rebuild: Annotated[
        Command,
        Meta(
            description="Of a cluster: a list, the program that makes this host a "
            "standby of the new writer, and its arguments; the names of the host and of"
            " the new writer are added as the last two. See `dbcheck_rebuilt_by`."
        ),
    ] = ()
    replication_user: Annotated[
        str,
        Meta(
            description="`dbcheck_rebuilt_by: sql` or `clone`: the account with which "
            "a host follows, or copies, the new writer. Without it, the login that the "
            "host has used so far; an old writer has none."
        ),
    ] = ""
    fault: Annotated[
        Command,
        Meta(
            description="A list: the program that begins a fault beside the load, as in"
            " the network between the hosts of a cluster, and its arguments. The name"
            " of the host that takes the load is added as the last. It runs at a moment"
            " that the seed draws, and the cut comes once it has ended with 0. See"
            " [clusters.md](clusters.md#faults-by-your-own-programs)."
        ),
    ] = ()
    fault_end: Annotated[
        Command,
        Meta(
            description="With `dbcheck_fault`: the program that ends that fault, in the"
            " same form. It runs after the cut, and also after a failure or Ctrl-C; "
            "`dbcheck reconcile` runs it if the client was lost. It must also work with"
            " that host off, and where no fault is."
        ),
    ] = ()
    client_command: Annotated[
        Command,
        Meta(
            description="In place of `dbcheck_client_target`: a list, a program that "
            "commits as your application does, with its own driver, and its arguments. "
            "dbcheck tells it on its standard input what to commit; see "
            "[client-program.md](guides/client-program.md)."
        ),
        Setting(
            "--client-command",
            "CMD",
            help="In place of --client-target: a program that commits as your "
            "application does, with its own driver. It is started without a shell, and "
            "told on its standard input what to commit.",
        ),
    ] = ()
