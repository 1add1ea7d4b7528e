"""Labels by which the operators of databases show the role of a pod.

A label says what an operator, or the Patroni beside the server, wrote last.  That may
be long ago, so each role here is a claim that the server itself must confirm:

- Patroni writes the label of its own pod.  A pod whose node lost its power keeps
  "primary" until its server runs again or the pod is deleted, while another pod is
  promoted and has "primary" as well (4.1.4, patroni.dcs.kubernetes, touch_member).
- mariadb-operator changes the label of ready pods only, with the same effect (26.6.0,
  reconcilePodLabels in internal/controller/mariadb_controller.go), and KubeBlocks
  writes what an agent in the pod sent last (1.0.2,
  pkg/controller/instanceset/pod_role_event_handler.go).
- CloudNativePG since 1.28.3 and 1.29.1 writes "unhealthy" on the old primary as a
  failover begins; once another is promoted, each writes "replica", also while the old
  one's node is still off (1.30.0, internal/controller/replicas.go and
  pkg/reconciler/instance/metadata.go).
- MySQL Operator takes away the label of a member that the group shows as not ONLINE,
  but not of one that the group has expelled (9.1.0-2.2.2,
  mysqloperator.controller.innodbcluster.cluster_controller, on_group_view_change).
- The leader of a standby cluster has the primary's label too, though it takes no
  writes (Patroni, standby_leader_label_value; CloudNativePG, a replica cluster).

Charts that only label their StatefulSets, such as Bitnami's, say nothing about the
server, and are not here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dbcheck.model.pods import PodRole

_PRIMARY, _REPLICA = PodRole.PRIMARY, PodRole.REPLICA
_MANAGED_BY = "app.kubernetes.io/managed-by"
_PERCONA_PG = "percona-postgresql-operator"
# "master" is what Patroni wrote before 4.0, and what Spilo and Crunchy still have it
# write.  Its other values, e.g. "demoted" and "uninitialized", mean neither.
_OF_PATRONI = {"primary": _PRIMARY, "master": _PRIMARY, "replica": _REPLICA}


@dataclass(frozen=True, slots=True)
class Operator:
    """How one operator labels the pods of a database.

    name:       in reports.
    marks:      labels of which each of its pods has at least one -> the value, "" for
                any.
    containers: that have the server; one of them in each pod.  None is named if the
                user names it.
    roles:      label -> its values.  A value that is not here means nothing.
    unless:     labels, as in marks, of pods that are another operator's.
    poolers:    labels, as in marks, of its pods that have a role but no server.
    """

    name: str
    marks: Mapping[str, str]
    containers: tuple[str, ...]
    roles: Mapping[str, Mapping[str, PodRole]] = field(default_factory=dict)
    unless: Mapping[str, str] = field(default_factory=dict)
    poolers: Mapping[str, str] = field(default_factory=dict)

    def owns(self, labels: Mapping[str, str]) -> bool:
        """Return True if a pod with *labels* is one of the operator's."""
        return _has_any(labels, self.marks) and not _has_any(labels, self.unless)

    def find_claims(self, labels: Mapping[str, str]) -> set[PodRole]:
        """Return the roles that the *labels* of one of the operator's pods claim."""
        if _has_any(labels, self.poolers):
            return {PodRole.UNKNOWN}
        return {
            roles.get(labels[label], PodRole.UNKNOWN)
            for label, roles in self.roles.items()
            if label in labels
        }


# Each as in the source of the release that stands above it.
OPERATORS = (
    # 1.30.0: pkg/utils/labels_annotations.go, pkg/specs/pods.go; "role" alone before
    # 1.21.  Poolers and jobs have the label of the cluster and other containers.
    Operator(
        "CloudNativePG",
        {"cnpg.io/cluster": "", "cnpg.io/instanceRole": ""},
        ("postgres",),
        {
            "cnpg.io/instanceRole": {"primary": _PRIMARY, "replica": _REPLICA},
            "role": {"primary": _PRIMARY, "replica": _REPLICA},
        },
    ),
    # 2.0.1: pkg/util/config/config.go (pod_role_label, cluster_labels),
    # pkg/util/constants/postgresql.go; pkg/cluster/connection_pooler.go gives its
    # poolers the role of the servers that they lead to.  Spilo 4.0-p3:
    # KUBERNETES_LEADER_LABEL_VALUE in ENVIRONMENT.rst.
    Operator(
        "Zalando postgres-operator",
        {"spilo-role": "", "application": "spilo"},
        ("postgres",),
        {"spilo-role": _OF_PATRONI},
        poolers={"connection-pooler": "", "application": "db-connection-pooler"},
    ),
    # 3.0.0: internal/naming/labels.go, internal/naming/names.go; "master" before 2.6.
    Operator(
        "Percona Operator for PostgreSQL",
        {_MANAGED_BY: _PERCONA_PG},
        ("database",),
        {"postgres-operator.crunchydata.com/role": _OF_PATRONI},
    ),
    # 5.8.9 and 6.0.3: internal/naming/labels.go, names.go, internal/patroni/config.go.
    Operator(
        "Crunchy Postgres for Kubernetes",
        {"postgres-operator.crunchydata.com/cluster": ""},
        ("database",),
        {"postgres-operator.crunchydata.com/role": _OF_PATRONI},
        unless={_MANAGED_BY: _PERCONA_PG},
    ),
    # 1.18.6: io/stackgres/common/PatroniUtil.java, StackGresContext.java,
    # StackGresContainer.java.
    Operator(
        "StackGres",
        {"app": "StackGresCluster"},
        ("patroni",),
        {"role": _OF_PATRONI},
    ),
    # 4.1.4: kubernetes/patroni_k8s.yaml, whose container has the cluster's name.
    Operator("Patroni", {"application": "patroni"}, (), {"role": _OF_PATRONI}),
    # 1.2.0: pkg/naming/naming.go, kubernetes.go, pkg/mysql/mysql.go,
    # pkg/controller/ps/mysql_primary.go.  Only the primary has a label.
    Operator(
        "Percona Operator for MySQL",
        {_MANAGED_BY: "percona-server-mysql-operator", "mysql.percona.com/primary": ""},
        ("mysql",),
        {"mysql.percona.com/primary": {"true": _PRIMARY}},
    ),
    # 1.19.0: pkg/naming/labels.go, pkg/pxc/app/statefulset/node.go.  Galera: each
    # member takes writes, and no label says to which one HAProxy sends them.
    Operator(
        "Percona Operator for MySQL based on XtraDB Cluster",
        {_MANAGED_BY: "percona-xtradb-cluster-operator"},
        ("pxc",),
    ),
    # 26.6.0: pkg/builder/labels/labels.go, pkg/builder/container_builder.go.  A new pod
    # has no role before it is ready.  With Galera the primary is where writes are sent.
    Operator(
        "mariadb-operator",
        {"k8s.mariadb.com/role": "", "app.kubernetes.io/name": "mariadb"},
        ("mariadb",),
        {"k8s.mariadb.com/role": {"primary": _PRIMARY, "replica": _REPLICA}},
        unless={"helm.sh/chart": "", _MANAGED_BY: "kubeblocks"},
    ),
    # 9.1.0-2.2.2: mysqloperator.controller.innodbcluster, cluster_objects and
    # cluster_api (update_membership_status).  A member that is not ONLINE has none.
    Operator(
        "MySQL Operator for Kubernetes",
        {"mysql.oracle.com/cluster": ""},
        ("mysql",),
        {"mysql.oracle.com/cluster-role": {"PRIMARY": _PRIMARY, "SECONDARY": _REPLICA}},
    ),
    # 1.0.2: pkg/constant/labels.go, role.go; the add-ons of August 2026 in
    # kubeblocks-addons, whose PostgreSQL has a label of Patroni's as well
    # (addons/postgresql/templates/cmpd.yaml).
    Operator(
        "KubeBlocks",
        {_MANAGED_BY: "kubeblocks", "kubeblocks.io/role": ""},
        ("postgresql", "mysql", "mariadb"),
        {
            "kubeblocks.io/role": {
                "primary": _PRIMARY,
                "leader": _PRIMARY,
                "secondary": _REPLICA,
                "follower": _REPLICA,
            },
            "apps.kubeblocks.postgres.patroni/role": _OF_PATRONI,
        },
    ),
)


def find_role(labels: Mapping[str, str]) -> PodRole:
    """Return the role that the *labels* of a pod claim.

    It is UNKNOWN if no operator's label is there, if the value of one is not known, or
    if two of them disagree.
    """
    claims = [operator.find_claims(labels) for operator in _find_owners(labels)]
    roles = set().union(*claims)
    return roles.pop() if len(roles) == 1 else PodRole.UNKNOWN


def find_server_container(labels: Mapping[str, str], names: Sequence[str]) -> str:
    """Return which of a pod's containers, by their *names*, has the server.

    Of a pod of no known operator that is the only one.  "" if it cannot be told, and
    for a pod without a server, such as an operator's pooler.
    """
    known = {name for owner in _find_owners(labels) for name in owner.containers}
    found = [name for name in names if name in known or not known]
    return found[0] if len(found) == 1 else ""


def name_operator(labels: Mapping[str, str]) -> str:
    """Return the name of a pod's operator, "" if none or several could be it."""
    owners = _find_owners(labels)
    return owners[0].name if len(owners) == 1 else ""


def _find_owners(labels: Mapping[str, str]) -> list[Operator]:
    return [operator for operator in OPERATORS if operator.owns(labels)]


def _has_any(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return any(
        label in labels and value in ("", labels[label])
        for label, value in wanted.items()
    )
