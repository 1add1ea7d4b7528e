"""The configuration of a cluster of labs, as plain values."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Any

from msgspec import Meta

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.base.setting import Setting
from dbcheck.config.validated import one_of, require_valid
from dbcheck.lab.servers.base import standard_name
from dbcheck.lab.spec import TIME_MAX, LabSpec
from dbcheck.model.cluster import STAGGER_S_MAX, Promise, SiteKind, require_stagger
from dbcheck.model.cut import PowerScope
from dbcheck.model.standbys import (
    REPLICA_COUNT,
    STANDBY_NAMES,
    explain_too_few_standbys,
)

NODES_MAX = 5
_WITH_SECOND_STANDBY = 3  # nodes
RETURNS_S_MAX = 120.0
_COMMIT_ORDER_SETTINGS = (
    "replica_preserve_commit_order",
    "slave_preserve_commit_order",
)
FOLLOW, REWIND, COPY = "follow", "rewind", "copy"
REBUILDS = (FOLLOW, REWIND, COPY)
# Who promotes a standby: dbcheck, Debian's Patroni, or Patroni 4.
BY_DBCHECK, PATRONI, PATRONI_4 = "sql", "patroni", "patroni-4"
BOTH_WAYS, FROM_WRITER, TO_WRITER, FLAPPING = PARTITIONS = (
    "both-ways",
    "from-writer",
    "to-writer",
    "flapping",
)
_Time = Annotated[float, Meta(ge=0, le=TIME_MAX)]
# Engine -> the topologies that its servers can form, the default first.
TOPOLOGIES = {
    "postgresql": (SiteKind.STREAMING,),
    "mysql": (SiteKind.SEMI_SYNC, SiteKind.GROUP_REPLICATION),
    "mariadb": (SiteKind.SEMI_SYNC, SiteKind.GALERA),
}


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """Configuration of a cluster of labs, each with a drive of its own.

    nodes:     how many nodes there are; the first one writes.
    promise:   a value of model.cluster.Promise: what the commits must survive.
    topology:  a value of SiteKind; "": the first of the engine's TOPOLOGIES.
    link_down_after_s, pause_after_s, partition_after_s: 0: never.
    partition: one of PARTITIONS; "flapping" is both ways, on and off.
    stagger_s: of a promise that cuts all nodes: within how many seconds after the
               writer's cut the others are cut.
    """

    nodes: Annotated[int, Meta(ge=2, le=NODES_MAX)] = 2
    promise: Annotated[
        str,
        one_of([promise.value for promise in Promise]),
        Setting(
            "--promise",
            help="What the commits must survive. writer: a cut of the writer, which "
            "comes back. writer-gone: its loss, after which a standby takes over. all: "
            "a cut of all nodes. all-writer-gone: its loss in a cut of all nodes. "
            "Galera and Group Replication have writer-gone and all.",
        ),
    ] = Promise.WRITER_GONE.value
    topology: Annotated[
        str,
        one_of(["", *(kind.value for kind in SiteKind if kind.is_cluster)]),
        Setting(
            "--topology",
            help="How the servers are one cluster. Default: streaming of PostgreSQL, "
            "semi-sync of MySQL and MariaDB; galera is MariaDB Galera Cluster, "
            "group-replication MySQL Group Replication.",
        ),
    ] = ""
    promoted_by: Annotated[
        str,
        one_of([BY_DBCHECK, PATRONI, PATRONI_4]),
        Setting(
            "--promoted-by",
            help="Who promotes a standby: dbcheck by SQL, or Patroni, which also "
            "decides which standby commits wait for: that of Debian, or Patroni 4. "
            "Both are for PostgreSQL, and need root and `dbcheck lab fetch patroni`.",
        ),
    ] = BY_DBCHECK
    link_delay_ms: Annotated[
        _Time,
        Setting(
            "--link-delay-ms",
            "MS",
            help="One-way delay, in ms, of all traffic between the writer and each "
            "standby.",
        ),
    ] = 0.0
    link_down_after_s: Annotated[
        _Time,
        Setting(
            "--link-down-after",
            "S",
            help="Take the replication between the writer and the standbys down after "
            "so many seconds of load; 0: never. Patroni and etcd still reach each "
            "other.",
        ),
    ] = 0.0
    pause_after_s: Annotated[
        _Time,
        Setting(
            "--pause-after",
            "S",
            help="Pause a node other than the writer (SIGSTOP) after so many seconds "
            "of load; 0: never. The seed draws which. The cut comes after the pause, "
            "but with --cut-in-fault.",
        ),
    ] = 0.0
    pause_s: Annotated[
        float,
        Meta(gt=0, le=TIME_MAX),
        Setting(
            "--pause-s",
            "S",
            help="How long --pause-after pauses it. In a lab, a group expels a silent "
            "node after 5 s.",
        ),
    ] = 8.0
    network: Annotated[
        bool,
        Setting(
            "--network",
            help="Give the servers a network of their own: each has an address, and a "
            "virtual interface (veth). It needs root and iproute2.",
        ),
    ] = False
    partition_after_s: Annotated[
        _Time,
        Setting(
            "--partition-after",
            "S",
            help="Cut the writer off from all other servers (and etcd) after so many "
            "seconds of load, in a network as with --network; 0: never. dbcheck still "
            "reaches each. The cut comes after the partition, but with --cut-in-fault.",
        ),
    ] = 0.0
    partition: Annotated[
        str,
        one_of(PARTITIONS),
        Setting(
            "--partition",
            help="What is dropped: both ways, what the writer sends, what the others "
            "send to it, or both ways, a second on and a second off (flapping).",
        ),
    ] = BOTH_WAYS
    partition_s: Annotated[
        float,
        Meta(gt=0, le=TIME_MAX),
        Setting(
            "--partition-s",
            "S",
            help="How long the partition lasts. In a lab a group expels a silent node "
            "after 5 s, and Patroni has a standby take over after 20 s.",
        ),
    ] = 8.0
    cut_in_fault: Annotated[
        bool,
        Setting(
            "--cut-in-fault",
            help="Cut during the pause and the partition, at a moment in them that the "
            "seed draws. They last until the cut.",
        ),
    ] = False
    stagger_s: Annotated[
        float,
        Meta(ge=0, le=STAGGER_S_MAX),
        Setting(
            "--stagger",
            "S",
            help="--promise all: cut the writer first and the others within so many "
            "seconds, in a random order (see --seed); 0: all at one moment.",
        ),
    ] = 0.0
    cut_promoted_ms: Annotated[
        _Time,
        Setting(
            "--cut-promoted",
            "MS",
            help="--promise writer-gone, promoted by dbcheck: cut the standby as well, "
            "within so many ms of the order to take over, at a moment that the seed "
            "draws. It comes back with its drive, and has to take over all the same. "
            "0: never.",
        ),
    ] = 0.0
    promoted_stays_off: Annotated[
        bool,
        Setting(
            "--promoted-stays-off",
            help="With --cut-promoted: the standby that is cut on its way stays off, "
            "and another one has to take over. Of three nodes or more; each commit "
            "waits for two standbys. Not of MariaDB, which waits for one.",
        ),
    ] = False
    old_writer_returns_s: Annotated[
        float,
        Meta(ge=0, le=RETURNS_S_MAX),
        Setting(
            "--old-writer-returns",
            "S",
            help="--promise writer-gone, no group: give the old writer its power back "
            "once another node has taken over, with all of the network, and let "
            "dbcheck's probes commit on both for so many seconds. 0: it stays off "
            "until the rows were read, and is then cut off from the others.",
        ),
    ] = 0.0
    rejoin: Annotated[
        bool,
        Setting(
            "--rejoin",
            help="--promise writer-gone or all-writer-gone, no group: once all was "
            "read, have the other nodes follow the new writer without copying its data "
            "(PostgreSQL: pg_rewind), and compare their rows.",
        ),
    ] = False
    rebuild: Annotated[
        str,
        one_of(["", *REBUILDS]),
        Setting(
            "--rebuild",
            help="Keep the cluster for all cycles, and between two cuts rebuild the "
            "other nodes for the new writer. follow: each follows it with the data "
            "that it has, or with new data if it has commits of its own (MySQL, "
            "MariaDB, groups). rewind: pg_rewind (PostgreSQL). copy: all get new data. "
            "Default: a new cluster for each cycle.",
        ),
    ] = ""

    def __post_init__(self) -> None:
        """Raise UsageError for a value that no cluster can have."""
        require_valid(self, "a cluster")

    def to_values(self) -> dict[str, Any]:
        """Return the spec as plain values."""
        return asdict(self)

    @property
    def is_managed_by_patroni(self) -> bool:
        """True if Patroni promotes a standby."""
        return self.promoted_by in (PATRONI, PATRONI_4)

    @property
    def has_network(self) -> bool:
        """True if the nodes are in a network of their own."""
        return self.network or bool(self.partition_after_s)

    @property
    def standbys_awaited(self) -> int:
        """How many standbys a lab has each commit wait for, if no setting says that."""
        return 2 if self.promoted_stays_off else 1

    @property
    def names(self) -> list[str]:
        """The names of the nodes, the writer's first."""
        return [f"node{number}" for number in range(1, self.nodes + 1)]


def choose_cluster_kind(lab: LabSpec, spec: ClusterSpec) -> SiteKind:
    """Return the kind of cluster that labs of *lab* form; raise UsageError if none."""
    possible = TOPOLOGIES.get(lab.engine, ())
    if not possible:
        raise UsageError(
            f"a lab has no clusters of {lab.engine} servers",
            id=ErrorId.TOPOLOGY_NOT_FOR_ENGINE,
            hint=f"Use --engine {' or '.join(TOPOLOGIES)}.",
        )
    kind = SiteKind(spec.topology) if spec.topology else possible[0]
    if kind not in possible:
        engines = [engine for engine, kinds in TOPOLOGIES.items() if kind in kinds]
        raise UsageError(
            f"{lab.engine} servers cannot be a cluster of the topology {kind.value}",
            id=ErrorId.TOPOLOGY_NOT_FOR_ENGINE,
            hint=f"Use --engine {' or '.join(engines)}.",
        )
    return kind


def require_possible(lab: LabSpec, spec: ClusterSpec) -> None:
    """Raise UsageError if labs of *lab* cannot form the cluster of *spec*."""
    kind = choose_cluster_kind(lab, spec)
    require_stagger(Promise(spec.promise), spec.stagger_s)
    if lab.power_scope != PowerScope.HOST.value:
        raise UsageError(
            "the drives of a cluster cannot lose their power alone",
            id=ErrorId.DRIVES_ALONE_IN_CLUSTER,
            hint="Leave out --power-scope.",
        )
    if lab.contained:
        raise UsageError(
            "the containers of a lab have no network in which their servers could form"
            " a cluster",
            id=ErrorId.TOPOLOGY_NOT_FOR_ENGINE,
            hint="Leave --container out, or --nodes.",
        )
    if kind.is_group:
        _require_group(kind, spec)
    _require_faults(spec)
    _require_writer_gone(kind, spec)
    if spec.promoted_stays_off:
        _require_second_standby(lab, kind, spec)
    if spec.rejoin:
        _require_commit_order(lab)
    if spec.rejoin and (kind.is_group or Promise(spec.promise).writer_returns):
        raise UsageError(
            "only a writer that another node has replaced can rejoin",
            id=ErrorId.REJOIN_NOT_POSSIBLE,
            hint="Leave --rejoin out, or use --promise writer-gone or all-writer-gone"
            " with replication. The nodes of a group are compared in any case.",
        )
    _require_rebuild(lab, spec)
    if spec.is_managed_by_patroni:
        _require_patroni(kind, Promise(spec.promise))


def _require_rebuild(lab: LabSpec, spec: ClusterSpec) -> None:
    """Raise UsageError for a way to rebuild nodes that such servers do not have."""
    impossible = FOLLOW if lab.engine == "postgresql" else REWIND
    if spec.rebuild != impossible:
        return
    why = {
        FOLLOW: "PostgreSQL's old writer cannot follow another server with its own"
        " data: their timelines differ",
        REWIND: f"pg_rewind does not rewind a {lab.engine} server",
    }
    raise UsageError(
        why[impossible],
        id=ErrorId.REJOIN_NOT_POSSIBLE,
        hint=f"Use --rebuild {FOLLOW if impossible == REWIND else REWIND} or {COPY}.",
    )


def _require_commit_order(lab: LabSpec) -> None:
    """Raise UsageError if replicas may show a later commit before an earlier one."""
    for name, value in lab.settings.items():
        if name.replace(
            "-", "_"
        ).lower() in _COMMIT_ORDER_SETTINGS and value.lower() in ("off", "0"):
            raise UsageError(
                f"--rejoin cannot tell what a replica has applied with {name}={value}",
                id=ErrorId.REJOIN_NOT_POSSIBLE,
                hint="Leave out one of them.",
            )


def _require_patroni(kind: SiteKind, promise: Promise) -> None:
    if kind is not SiteKind.STREAMING:
        raise UsageError(
            f"Patroni promotes no server of the topology {kind.value}",
            id=ErrorId.TOPOLOGY_NOT_FOR_ENGINE,
            hint="Use --engine postgresql, or leave --promoted-by out.",
        )
    if promise.writer_returns:
        raise UsageError(
            f"the promise {promise.value} cannot be tested where Patroni promotes: it"
            " may let another node take over before the writer is back",
            id=ErrorId.PROMISE_NOT_TESTABLE,
            hint=f"Use {Promise.WRITER_GONE.value} or {Promise.ALL_WRITER_GONE.value}.",
        )


def _require_faults(spec: ClusterSpec) -> None:
    """Raise UsageError for faults that contradict each other."""
    if spec.has_network and (spec.link_delay_ms or spec.link_down_after_s):
        raise UsageError(
            "the servers of a network of their own have no links that a lab can slow or"
            " take down",
            id=ErrorId.OPTIONS_CONFLICT,
            hint="Leave out --link-delay-ms and --link-down-after, or --network and"
            " --partition-after.",
        )
    if spec.cut_in_fault and not (spec.pause_after_s or spec.partition_after_s):
        raise UsageError(
            "--cut-in-fault says that the cut comes during a fault, and there is none",
            id=ErrorId.OPTION_NEEDS_ANOTHER,
            hint="Add --pause-after or --partition-after.",
        )


def _require_writer_gone(kind: SiteKind, spec: ClusterSpec) -> None:
    """Raise UsageError for what only the loss of the writer alone can show."""
    options = {
        "--cut-promoted": spec.cut_promoted_ms,
        "--old-writer-returns": spec.old_writer_returns_s,
    }
    given = [option for option, value in options.items() if value]
    if not given:
        return
    promise = Promise.WRITER_GONE.value
    if kind.is_group or spec.promise != promise:
        raise UsageError(
            f"{given[0]} is about a standby that takes over from a writer that is gone",
            id=ErrorId.OPTIONS_CONFLICT,
            hint=f"Use --promise {promise} and no group; or leave {given[0]} out.",
        )
    if spec.cut_promoted_ms and spec.is_managed_by_patroni:
        raise UsageError(
            "--cut-promoted: when Patroni promotes a standby is not known beforehand",
            id=ErrorId.OPTIONS_CONFLICT,
            hint="Leave out --promoted-by, so that dbcheck promotes it; or"
            " --cut-promoted.",
        )


def _require_second_standby(lab: LabSpec, kind: SiteKind, spec: ClusterSpec) -> None:
    """Raise UsageError unless each commit outlives the writer and a standby.

    An empty synchronous_standby_names is allowed: that run is a control, and loses.
    """
    option = "--promoted-stays-off"
    if not spec.cut_promoted_ms:
        raise UsageError(
            f"{option} is about the standby that --cut-promoted cuts, and none is cut",
            id=ErrorId.OPTION_NEEDS_ANOTHER,
            hint="Add --cut-promoted.",
        )
    if spec.nodes < _WITH_SECOND_STANDBY:
        raise UsageError(
            f"{option}: of {spec.nodes} nodes none is left to take over",
            id=ErrorId.CLUSTER_TOO_SMALL,
            hint=f"Use --nodes {_WITH_SECOND_STANDBY}.",
        )
    if spec.rejoin or spec.rebuild or spec.old_writer_returns_s:
        raise UsageError(
            f"{option}: the node that stays off does not follow the new writer",
            id=ErrorId.OPTIONS_CONFLICT,
            hint="Leave out --rejoin, --rebuild and --old-writer-returns.",
        )
    if lab.engine == "mariadb":
        raise UsageError(
            f"{option}: MariaDB answers a commit once one replica has it, and promises"
            " nothing if that one is lost with the writer",
            id=ErrorId.PROMISE_NOT_TESTABLE,
            hint="Use --engine postgresql or mysql.",
        )
    given = {standard_name(name): value for name, value in lab.settings.items()}
    settings = {REPLICA_COUNT: str(spec.standbys_awaited), **given}
    if given.get(STANDBY_NAMES) == "":
        return
    if why := explain_too_few_standbys(kind, settings, lost=1):
        raise UsageError(
            f"{option}: the writer promises less, by {why}",
            id=ErrorId.PROMISE_NOT_TESTABLE,
            hint="Leave out that --setting; or have each commit wait for two standbys.",
        )


def _require_group(kind: SiteKind, spec: ClusterSpec) -> None:
    kind.require_promise(Promise(spec.promise), spec.nodes)
    if spec.link_delay_ms or spec.link_down_after_s:
        raise UsageError(
            f"the nodes of the topology {kind.value} have no links that a lab can slow"
            " or take down: each talks to all others",
            id=ErrorId.LINKS_NOT_FOR_GROUP,
            hint="Leave out --link-delay-ms and --link-down-after.",
        )
