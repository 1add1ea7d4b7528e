"""Runs cycles on clusters of a lab, each made for one cycle, with its spec's faults.

A control has a cluster of its own as well, so its old writer, which alone has the
commits of the control, is never a node of the cluster again.
"""

from __future__ import annotations

import contextlib
import itertools
import secrets
import tempfile
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError, UsageError
from dbcheck.campaign.stopping import list_doubts
from dbcheck.cycle.cycle import extract_control_facts, finish_cycle, run_controls
from dbcheck.cycle.outcome import Outcome
from dbcheck.cycle.preflight.before_load import run_preflight
from dbcheck.cycle.preflight.earlier_cycles import NOTHING_KNOWN
from dbcheck.cycle.preflight.members import refuse_plan_of_control
from dbcheck.cycle.rebuild import rebuild_cluster
from dbcheck.cycle.recovery.second_reading import require_readable_twice
from dbcheck.cycle.rig import Limits, Rig
from dbcheck.judge.item import ItemId
from dbcheck.lab.clusters.cluster import ClusterLab
from dbcheck.lab.clusters.spec import ClusterSpec, choose_cluster_kind
from dbcheck.lab.spec import LabSpec
from dbcheck.model.cluster import Promise, SiteKind, Weakens, judge_settings_for_promise
from dbcheck.model.replication import PromotedBy, RebuiltBy
from dbcheck.model.verdict import ControlFacts, Verdict
from dbcheck.ports.listener import Phase
from dbcheck.report.progress import PlainProgress
from dbcheck.rows.workload import Workload
from dbcheck.runner.lab_cycles import LIMITS, describe_lab
from dbcheck.runner.lab_faults import extend_for_faults, inject_faults, leave_faults_out
from dbcheck.runner.lab_rig import make_lab_node, make_lab_rig
from dbcheck.site.cluster import Cluster
from dbcheck.site.group import Group

_STANDBYS_FOLLOW_S, _POLL_S = 30.0, 0.05


def run_cluster_cycles(
    lab: LabSpec,
    spec: ClusterSpec,
    workload: Workload,
    seed: int,
    cycles: int,
    progress: PlainProgress,
    runs: Path,
    limits: Limits = LIMITS,
    *,
    control: bool = False,
    twice: bool = False,
) -> Generator[Outcome, None, None]:
    """Yield the outcome of each of *cycles* cycles; cycle n has seed + n.

    Each cycle has a cluster of its own, since a promotion changes the nodes' roles,
    unless the spec has the nodes rebuilt: then all cycles have one, as long as
    may_go_on() allows it.
    With *control*, the outcomes of the controls come first, each on a cluster of its
    own and without the spec's faults; a control that fails is the last cycle.
    twice: see Rig.  Raise UsageError, with nothing built, if no control of such a
    cluster is possible, or no second reading.
    """
    if twice:
        require_readable_twice(choose_cluster_kind(lab, spec))
    if control:
        _require_control_possible(lab, spec, workload)
    servers = f"{spec.nodes} servers, promise {spec.promise}"
    progress.phase(Phase.LAB, f"{servers}: {describe_lab(lab)}")
    facts: list[ControlFacts] = []
    if control:
        plain = _Clusters(lab, leave_faults_out(spec), progress, runs, limits, twice)
        for outcome in _run_controls(plain, workload, seed, cycles):
            yield outcome
            facts.append(extract_control_facts(outcome))
            if outcome.verdict is Verdict.FAIL:
                return
    workload, limits = extend_for_faults(workload, limits, spec)
    clusters = _Clusters(lab, spec, progress, runs, limits, twice)
    seeds = range(seed, seed + cycles)
    parts = [seeds] if spec.rebuild else [range(each, each + 1) for each in seeds]
    for number, part in enumerate(parts):
        with clusters.start(number) as (cluster, rig):
            yield from _run_on_cluster(cluster, rig, workload, part, facts)


def _require_control_possible(
    lab: LabSpec, spec: ClusterSpec, workload: Workload
) -> None:
    """Raise UsageError if no control of *spec*'s cluster is possible.

    runner.guard.require_control_possible() refuses more: there the old writer is a node
    of the same cluster again.
    """
    kind, promise = choose_cluster_kind(lab, spec), Promise(spec.promise)
    if kind is SiteKind.GROUP_REPLICATION and promise.writer_returns:
        raise UsageError(
            f"no control of {kind.value} with the promise {promise.value}: dbcheck"
            " notes what it changes on a server in a table in memory, and a group takes"
            " rows of InnoDB alone",
            id=ErrorId.CONTROL_NOT_SUPPORTED,
            hint=f"Use --promise {Promise.WRITER_GONE.value}, or leave --control out"
            " and look for a loss under a setting that loses: --setting"
            " innodb_flush_log_at_trx_commit=0 --cycles 10.",
        )
    if spec.is_managed_by_patroni:
        raise UsageError(
            "no control below Patroni: it disconnects the standbys from the writer, and"
            " Patroni has none take over that may lack commits",
            id=ErrorId.CONTROL_NOT_SUPPORTED,
            hint="Leave --control out, and look for a loss where no commit waits:"
            " --setting synchronous_mode=off --setting"
            " maximum_lag_on_failover=1073741824 --link-down-after 0.5.",
        )
    refuse_plan_of_control(workload.plan, Weakens.for_promise(promise))


@dataclass(frozen=True)
class _Clusters:
    """What the clusters of one command have in common."""

    lab: LabSpec
    spec: ClusterSpec
    progress: PlainProgress
    runs: Path
    limits: Limits
    twice: bool

    @contextlib.contextmanager
    def start(self, number: int) -> Iterator[tuple[ClusterLab, Rig]]:
        """Give a new cluster, which commits wait for, and its rig; end it afterwards.

        number: see ClusterLab.
        """
        folder = Path(tempfile.gettempdir(), f"dbcheck-lab-{secrets.token_hex(4)}")
        with ClusterLab(self.lab, self.spec, folder, number) as cluster:
            rig = make_cluster_rig(cluster, self.progress, self.runs, self.limits)
            rig = replace(rig, read_twice=self.twice)
            await_standbys(rig, cluster)
            with contextlib.closing(rig.witness):
                yield cluster, rig


def _run_controls(
    clusters: _Clusters, workload: Workload, seed: int, first: int
) -> Iterator[Outcome]:
    """Yield the outcome of each try of a control, each on a new cluster.

    first: the number of the first of them.
    """
    numbers = itertools.count(first)
    with contextlib.ExitStack() as held:

        def start() -> Rig:
            held.close()  # the cluster of the try before
            _cluster, rig = held.enter_context(clusters.start(next(numbers)))
            return rig

        yield from run_controls(
            *(start(), workload, seed),
            make_whole=lambda _rig, _known: (start(), NOTHING_KNOWN),
        )


def _run_on_cluster(
    cluster: ClusterLab,
    rig: Rig,
    workload: Workload,
    seeds: Sequence[int],
    controls: Sequence[ControlFacts],
) -> Generator[Outcome, None, None]:
    """Yield the outcome of a cycle for each seed, as long as may_go_on() allows it.

    Before each cycle but the first the cluster is rebuilt, led by the node that was
    read.
    """
    known = NOTHING_KNOWN
    for seed in seeds:
        started = run_preflight(rig, workload, seed, controls=controls, known=known)
        with inject_faults(cluster, rig, seed) as faulty:
            # The cycle counts even if a fault failed, which is raised after it.
            outcome = finish_cycle(faulty, started)
            yield outcome
        if seed == seeds[-1] or not may_go_on(outcome):
            return
        known = known.with_outcome(outcome)
        if cluster.kind.is_group:  # a node joins by itself once it has power
            cluster.heal()
        rig = rebuild_cluster(rig, outcome.run)
        cluster.writer = rig.site.writer_name


# The doubts about one cut alone, at which no commit was at risk; and those about a load
# that ended before a cut, beside a writer that kept its power.
_WITHOUT_RISK = frozenset({ItemId.LOAD, ItemId.WITNESS_AT_CUT, ItemId.WRITER_OFF})
_WITHOUT_CUT = frozenset(
    {*_WITHOUT_RISK, ItemId.IN_SYNC, ItemId.NOT_SHUT_DOWN, ItemId.SAME_SETTINGS}
)


def may_go_on(outcome: Outcome) -> bool:
    """Return True if another cycle may follow on the cluster of *outcome*.

    That is so after a PASS, and after a cycle that proves nothing by chance: all rows
    were read and none is lost, so nothing of that cycle is left that the next one could
    find.
    """
    if outcome.verdict is not Verdict.INCONCLUSIVE:
        return outcome.verdict is Verdict.PASS
    found, after = outcome.found, outcome.after
    if found is None or found.counts or found.foreign or found.earlier_altered:
        return False
    if after.unanswered or after.failure:
        return False
    passing = _WITHOUT_CUT if outcome.case.uncut else _WITHOUT_RISK
    return set(list_doubts(outcome.judgement)) <= {item.value for item in passing}


def make_cluster_rig(
    cluster: ClusterLab, progress: PlainProgress, runs: Path, limits: Limits
) -> Rig:
    """Return the rig of the cluster, whose witness is beside the writer."""
    names = list(cluster.labs)
    nodes = {name: make_lab_node(lab) for name, lab in cluster.labs.items()}
    promise, stagger_s = Promise(cluster.spec.promise), cluster.spec.stagger_s
    common = (cluster.kind, nodes, names[0], promise)
    rebuilt_by, rebuild = RebuiltBy.NOBODY, None
    if cluster.spec.rebuild:
        rebuilt_by, rebuild = RebuiltBy.COMMAND, cluster.rebuild
    if cluster.kind.is_group:
        site: Cluster = Group(
            *common,
            bootstrap=True,
            stagger_s=stagger_s,
            rebuilt_by=rebuilt_by,
            rebuild=rebuild,
        )
    else:
        by = PromotedBy.AUTO if cluster.spec.is_managed_by_patroni else PromotedBy.SQL
        rejoin = cluster.rejoin if cluster.spec.rejoin else None
        site = Cluster(
            *common,
            by=by,
            brings_back=True,
            stagger_s=stagger_s,
            cut_promoted_s=cluster.spec.cut_promoted_ms / 1000,
            promoted_stays_off=cluster.spec.promoted_stays_off,
            old_writer_returns_s=cluster.spec.old_writer_returns_s,
            reconnect=cluster.heal,
            isolate=cluster.take_links_down,
            rejoin=rejoin,
            rebuilt_by=rebuilt_by,
            rebuild=rebuild,
        )
    rig = make_lab_rig(cluster.labs[names[0]], progress, runs, limits)
    values = {**cluster.lab.to_values(), "cluster": cluster.spec.to_values()}
    return replace(rig, site=site, lab=values, used_epochs=set())


def await_standbys(rig: Rig, cluster: ClusterLab) -> None:
    """Return once all standbys stream, and commits wait for one if they are to.

    rig: the cluster's.  Raise LabError if that takes too long.
    """
    wanted, ends_s = len(rig.site.nodes) - 1, time.monotonic() + _STANDBYS_FOLLOW_S
    engine = rig.site.writer.engine
    settings = engine.facts().settings
    kept = judge_settings_for_promise(rig.site.kind, Promise.WRITER_GONE, settings, {})
    waits = cluster.patroni_sets_synchronous or not kept.contradiction
    # Patroni adds a standby some seconds after it streams, and a setting that changes
    # under the load leaves no verdict.
    enough = all if cluster.patroni_awaits_any else any

    def all_there() -> bool:
        followers_now = followers.read()
        streaming = (
            sum(follower.state == "streaming" for follower in followers_now) >= wanted
        )
        return streaming and (
            not waits or enough(follower.is_awaited for follower in followers_now)
        )

    with contextlib.closing(engine.open_followers()) as followers:
        while not all_there():
            if time.monotonic() >= ends_s:
                reason = (
                    f"not all nodes follow the writer after {_STANDBYS_FOLLOW_S:g} s"
                )
                raise LabError(
                    reason,
                    id=ErrorId.LAB_NODES_DO_NOT_FOLLOW,
                    hint="Look for a lack of CPU or memory here, then run it again.",
                )
            time.sleep(_POLL_S)
