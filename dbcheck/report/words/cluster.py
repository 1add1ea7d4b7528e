"""Words on the nodes of a cluster: which wrote, was cut and was read; what each has."""

from __future__ import annotations

from collections.abc import Iterator

from dbcheck.judge.result import ClusterResult, MemberResult, RunResult
from dbcheck.model.cluster import SiteKind
from dbcheck.model.replication import PromotedBy
from dbcheck.model.verdict import format_count
from dbcheck.rows.differences import OtherNode, RowsLeftOnNode

TITLE = "The cluster"
COLUMNS = ("node", "before the cut", "cut", "after the cut", "rows")
_SHOWN_MAX = 5  # nodes that the first box names

_PROMOTED_BY = {
    PromotedBy.SQL: "promoted by dbcheck's own statement",
    PromotedBy.COMMAND: "promoted by a command",
    PromotedBy.AUTO: "which took over without dbcheck",
}
# A node beside the writer; whether the writer listed it among those that commits wait
# for, None if that is not known.
_ROLES = {
    SiteKind.STREAMING: {
        True: "synchronous standby",
        False: "standby, not synchronous",
        None: "standby",
    },
    SiteKind.SEMI_SYNC: {
        True: "semi-synchronous replica",
        False: "replica, not semi-synchronous",
        None: "replica",
    },
}
_MEMBER = {True: "member", False: "member, not in sync", None: "member"}
_CUT = {True: "yes", False: "no", None: "not known"}


def name_nodes(cluster: ClusterResult) -> str:
    """Return the nodes with what became of each, for the first box of a report."""
    names = (cluster.writer, *cluster.standbys)
    shown = ", ".join(_name_node(cluster, name) for name in names[:_SHOWN_MAX])
    more = len(names) - _SHOWN_MAX
    return f"{shown} and {more} more" if more > 0 else shown


def _name_node(cluster: ClusterResult, name: str) -> str:
    member = cluster.members.get(name)
    fates = (
        "writer" if name == cluster.writer else "",
        "cut" if member and member.cut else "",
        "took over" if cluster.promoted_by and name == cluster.read else "",
    )
    told = ", ".join(filter(None, fates))
    return f"{name} ({told})" if told else name


def list_nodes(result: RunResult) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield each node as text, in the order of COLUMNS, the writer first."""
    cluster = result.cluster
    if cluster is None:
        return
    for name in (cluster.writer, *cluster.standbys):
        member = cluster.members.get(name)
        yield (
            name,
            _describe_role(cluster, name, member),
            _CUT[member.cut if member else None],
            _describe_fate(result, cluster, name),
            _describe_rows(result, cluster, name, member),
        )


def _describe_role(
    cluster: ClusterResult, name: str, member: MemberResult | None
) -> str:
    if name == cluster.writer:
        return "took the load"
    roles = _MEMBER if cluster.topology is None else _ROLES.get(cluster.topology)
    return (roles or _MEMBER)[member.awaited if member else None]


def _describe_fate(result: RunResult, cluster: ClusterResult, name: str) -> str:
    """Return what is known of a node after the cut; "-" if that is nothing."""
    if name == cluster.read:
        came = "took over" if cluster.promoted_by else "came back"
        if result.confirmed is None:
            return came if cluster.promoted_by else "-"
        return f"{came}; read"
    if name in cluster.rejoined:
        return f"followed {cluster.read}"
    if name == cluster.writer and cluster.returned:
        return f"back beside {cluster.read}, before the reading"
    if name in cluster.left or name in cluster.left_failed:
        return "started alone, after the reading"
    member = cluster.members.get(name)
    if member and member.compared and not member.compared.not_done:
        return "came back; compared" if member.cut else "compared"
    is_gone = name == cluster.writer and not cluster.promise.writer_returns
    return "power not restored" if is_gone else "-"


def _describe_rows(
    result: RunResult, cluster: ClusterResult, name: str, member: MemberResult | None
) -> str:
    """Return which rows of the run a node has, in words."""
    if name == cluster.read:
        if result.confirmed is None:
            return "not compared"
        acked = format_count(result.confirmed, "acknowledged commit")
        return f"{result.kept:,} of {acked} intact"
    if left := cluster.left.get(name):
        return _describe_rows_left(left, cluster.read)
    if name in cluster.left_failed:
        return f"not read: {cluster.left_failed[name]}"
    found = cluster.rejoined.get(name) or (member.compared if member else None)
    return _compare_rows(cluster.read, found) if found else "not read"


def _describe_rows_left(left: RowsLeftOnNode, read: str) -> str:
    """Return which rows a node that was started alone has beside those of *read*."""
    parts = []
    if left.behind:
        parts.append(format_count(left.behind, "acknowledged commit"))
    if left.extra:
        parts.append(format_count(left.extra, "unacknowledged commit"))
    return f"{' and '.join(parts) or 'none'} that {read} lacks"


def _compare_rows(read: str, found: OtherNode) -> str:
    """Return how the rows of a node compare with those of the node that was read."""
    if found.not_done and found.extra:
        return f"{found.extra:,} rows that {read} lacks; {found.not_done}"
    if found.not_done:
        return f"not compared: {found.not_done}"
    if found.failure:
        return f"its rows could not be read: {found.failure}"
    if not found.extra and not found.differing:
        return f"the same {format_count(found.rows, 'row')} as {read}"
    return (
        f"{format_count(found.rows, 'row')} of this run; {found.extra:,} that {read}"
        f" lacks, and {found.differing:,} that differ"
    )


def list_facts(cluster: ClusterResult) -> Iterator[tuple[str, str]]:
    """Yield the promise, the node that was read, and the settings that matter."""
    what = cluster.promise.describe(cluster.stagger_s)
    yield "promise", f"{cluster.promise.value}: {what}"
    if cluster.promoted_by:
        yield "read", f"{cluster.read}, {_PROMOTED_BY[cluster.promoted_by]}"
    nodes_by_settings: dict[str, list[str]] = {}
    for name, member in cluster.members.items():
        if settings := ", ".join(f"{k} = {v}" for k, v in member.settings.items()):
            nodes_by_settings.setdefault(settings, []).append(name)
    for settings, names in nodes_by_settings.items():
        yield f"settings of {', '.join(names)}", settings


def list_sentences(result: RunResult) -> Iterator[str]:
    """Yield a line for each node, then what list_facts() yields."""
    if result.cluster is None:
        return
    _, *names = COLUMNS
    for node, *cells in list_nodes(result):
        told = (f"{name}: {cell}" for name, cell in zip(names, cells, strict=True))
        yield f"{node}: {', '.join(told)}"
    for name, value in list_facts(result.cluster):
        yield f"{name}: {value}"
