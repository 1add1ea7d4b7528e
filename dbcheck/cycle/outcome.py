"""A judged run, and the plain values that --json prints of it."""

from __future__ import annotations

import itertools
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypedDict

import numpy as np

from dbcheck.judge.case import Case
from dbcheck.judge.cluster import explain_missing_commits
from dbcheck.judge.cutmoment import (
    find_cut_us,
    find_last_sign_of_power_us,
    find_latest_cut_us,
    measure_elapsed,
)
from dbcheck.judge.diagnosis import (
    OF_COPIES,
    Explanation,
    count_unexplained_decisions,
    diagnose_losses,
)
from dbcheck.judge.insync import find_awaited_nodes
from dbcheck.judge.item import ItemId, Status
from dbcheck.judge.result import (
    ClusterResult,
    CopyResult,
    DepthResult,
    EvidenceResult,
    HousekeepingResult,
    LeftOnHost,
    MemberResult,
    RangeResult,
    RunResult,
    SeenResult,
    SeenRow,
    WitnessResult,
    describe_checked,
)
from dbcheck.judge.settings import Settings, collect_settings
from dbcheck.judge.verdict import Judgement
from dbcheck.model.cluster import select_settings_for_promise
from dbcheck.model.moments import NOT_KNOWN, AtTheCut, Met, find_activity_at_cut
from dbcheck.model.outage import OutageResult, measure_outage
from dbcheck.model.records import AfterRecord, LoadRecord, Manifest
from dbcheck.model.verdict import Statistics, Tally, Verdict
from dbcheck.restore.loss import measure_reach
from dbcheck.rows import differences
from dbcheck.rows.acks import HOUSEKEEPING_SESSION
from dbcheck.rows.loss import IdRange, LossKind
from dbcheck.rows.lossshape import NO_SHAPE
from dbcheck.rows.reconcile import Reconciliation
from dbcheck.rows.tasks import HousekeepingTasks
from dbcheck.runs import stored
from dbcheck.runs.folder import RunFolder
from dbcheck.runs.records import Recalled

RANGES_MAX = 10_000  # ranges of lost ids that a result lists
SEEN_MAX = 100  # rows that readers saw and that were lost, which a result lists


@dataclass(frozen=True)
class Outcome:
    """A judged run."""

    run: RunFolder
    case: Case
    judgement: Judgement
    recalled: Recalled

    @property
    def manifest(self) -> Manifest:
        """The manifest, written before the load."""
        return self.case.manifest

    @property
    def load(self) -> LoadRecord | None:
        """The client's record of the load, None if it could not store one."""
        return self.case.load

    @property
    def after(self) -> AfterRecord:
        """The record of the time after recovery; if unanswered, nothing is final."""
        return self.case.after

    @property
    def found(self) -> Reconciliation | None:
        """The fate of the rows; None if there are none to compare."""
        return self.case.found

    @cached_property
    def settings(self) -> Settings:
        """The settings that are not safe, and what they explain."""
        return collect_settings(self.case)

    @cached_property
    def result(self) -> RunResult:
        """The result of the run, as reports show it."""
        return _build_result(self)

    @property
    def verdict(self) -> Verdict:
        """The verdict alone."""
        return self.judgement.verdict

    @property
    def witness_alone(self) -> str:
        """The reason why the verdict rests on the witness alone, "" if it does not.

        It does unless the client's own record of its load shows what the witness must
        hold, and a key or the run folder shows that the record is the client's.
        """
        if self.recalled.manifest:
            return (
                "another client made this run, and its key is not on this machine, so"
                " changes by the witness would not be detected"
            )
        if self.recalled.load:
            return (
                "the key of this run is not on this machine, so a change to the"
                " client's record of the load would not be detected"
            )
        if self.load is None:
            return (
                "the client's record of the load is missing: the client ended before it"
                " could leave one, or the witness removed it"
            )
        return ""

    def before_cut_s(self, acked_us: int) -> float | None:
        """Return the seconds from an ack to the cut, None if they are not known.

        A reply that was on its way at the cut is read after it; that counts as 0.
        Of a copy beside the load, the seconds to its beginning; less than 0 after it.
        """
        if acked_us < 0:
            return None
        if not self.manifest.is_cut:
            copy = self.case.copy
            began_us = None if copy is None else copy.began_us
            return None if began_us is None else (began_us - acked_us) / 1e6
        if self._went_us is None:
            return None
        return max(0, self._went_us - acked_us) / 1e6

    @cached_property
    def _went_us(self) -> int | None:
        """The moment of the cut; found once, as it dates every loss."""
        return find_cut_us(self.case)


def find_met_activity(outcome: Outcome) -> Met | None:
    """Return the activity that the cut came in, None if no moment was drawn for it."""
    drawn, load = outcome.manifest.moment, outcome.load
    if drawn is None:
        return None
    if load is None:
        return Met(None, NOT_KNOWN)
    refused, tasks = load.no_checkpoint, outcome.result.housekeeping
    if drawn.task is not None and (tasks is None or tasks.at_cut != drawn.task):
        refused = refused or f"the cut came when no {drawn.task.value} was under way"
    went_us = None if load.due_us is None else find_last_sign_of_power_us(outcome.case)
    seen = AtTheCut(
        load.began_us,
        went_us,
        refused,
        load.checkpoint_us,
        load.quiet_us,
        find_latest_cut_us(outcome.case),
    )
    return find_activity_at_cut(drawn, seen)


class _Fate(TypedDict):
    """The fields of a result that rows.reconcile.Reconciliation has as they are."""

    confirmed: int | None
    kept: int | None
    recovered: int | None
    unconfirmed: int | None
    foreign: int | None
    earlier: int | None
    earlier_altered: int | None
    earlier_lost: Mapping[int, int] | None
    earlier_losses: Mapping[str, int] | None


def _copy_fate(found: Reconciliation | None) -> _Fate:
    return _Fate(
        confirmed=found.confirmed if found else None,
        kept=found.kept if found else None,
        recovered=found.recovered if found else None,
        unconfirmed=found.unconfirmed if found else None,
        foreign=found.foreign if found else None,
        earlier=found.earlier if found else None,
        earlier_altered=found.earlier_altered if found else None,
        earlier_lost=found.earlier_lost if found else None,
        earlier_losses=found.earlier_counts if found else None,
    )


class _Load(TypedDict):
    """The fields of RunResult that say what the sessions were to do."""

    workload: str
    sessions: int
    processes: int
    cores: int | None
    seed: int


def _copy_load(manifest: Manifest) -> _Load:
    return _Load(
        workload=manifest.workload.name,
        sessions=manifest.workload.sessions,
        processes=manifest.processes,
        cores=manifest.workload.cores,
        seed=manifest.seed,
    )


def _build_result(outcome: Outcome) -> RunResult:
    case, manifest, found = outcome.case, outcome.manifest, outcome.found
    node, why, depth = manifest.writer, outcome.witness_alone, case.depth
    settings, lost = outcome.settings, outcome.verdict is Verdict.FAIL
    ranges = found.losses.ranges() if found else iter(())
    return RunResult(
        run=manifest.run_id,
        control=manifest.control,
        folder=str(outcome.run.path),
        stored=stored.may_write(outcome.run.path),
        verdict=outcome.verdict,
        reasons=outcome.judgement.reasons,
        final=not outcome.after.unanswered,
        target=node.target,
        server=f"{node.facts.product} {node.facts.version}",
        family=manifest.family,
        **_copy_load(manifest),
        power=node.power.value,
        cut_class=case.cut_class,
        class_assumed=node.class_assumed,
        power_scope=node.scope,
        witness=WitnessResult(manifest.witness, manifest.witness_kind),
        witness_alone=bool(why),
        witness_alone_why=why,
        load=outcome.load,
        depth=DepthResult(depth.depth, depth.reasons) if depth else None,
        page_cache_kept=case.page_cache_kept,
        statistics=_compute_statistics(outcome),
        **_copy_fate(found),
        losses=_count_losses(outcome),
        ranges=tuple(_list_ranges(outcome, itertools.islice(ranges, RANGES_MAX))),
        ranges_left_out=sum(1 for _ in ranges),
        shape=case.shape,
        diagnosis=_list_explanations(outcome),
        evidence=_list_evidence(outcome),
        settings_at_fault=tuple(f.sentence for f in settings.at_fault(lost=lost)),
        layers_at_fault=_find_layers_at_fault(outcome),
        other_settings=tuple(f.sentence for f in settings.others(lost=lost)),
        left_on_host=_find_canaries_left_on_host(outcome),
        lab=dict(manifest.lab),
        image=_find_kept_image(outcome),
        seen=_build_seen_result(outcome),
        audit=manifest.writer.audit,
        cluster=_build_cluster_result(outcome),
        uncut=case.uncut and manifest.copy is None,
        copy=_build_copy_result(outcome),
        checked=describe_checked(manifest),
        recovery_s=_measure_recovery_s(outcome),
        outage=_measure_outage(outcome),
        housekeeping=_build_housekeeping_result(outcome),
    )


def _build_copy_result(outcome: Outcome) -> CopyResult | None:
    plan, copy, copied = outcome.manifest.copy, outcome.case.copy, outcome.case.copied
    if plan is None:
        return None
    return CopyResult(
        target=plan.target,
        taken_s=copy.taken_s if copy else None,
        restore_s=copy.restore_s if copy else None,
        due=copied.due if copied else None,
        due_kept=copied.due_kept if copied else None,
        by_order=copied.by_order if copied else None,
        open=copied.open if copied else None,
        open_kept=copied.open_kept if copied else None,
        after=copied.after if copied else None,
        after_kept=copied.after_kept if copied else None,
        rpo_s=plan.rpo_s,
        missing=copied.missing if copied else None,
        reached_s=_measure_reach(outcome.case) if plan.is_after_loss else None,
        point_kind=plan.until.value if plan.until else None,
        point=copy.point.value if copy and copy.point else None,
        read_s=copy.read_s if copy else None,
    )


def _measure_reach(case: Case) -> tuple[float, float] | None:
    reach = measure_reach(case)
    if reach is None or reach.most_s is None:
        return None
    return reach.least_s, reach.most_s


def _measure_outage(outcome: Outcome) -> OutageResult | None:
    case = outcome.case
    if outcome.manifest.copy is not None:
        return None
    return measure_outage(
        case.outage, outcome.manifest, case.load, case.restore, case.after
    )


def _measure_recovery_s(outcome: Outcome) -> float | None:
    """Return the seconds from the return of the power until the server took queries.

    None if another node took over, or if it is not known when the power returned.
    """
    case, load, after = outcome.case, outcome.load, outcome.after
    if load is None or load.switched_us is None or case.cut is None:
        return None
    if after.facts is None or after.promotion is not None:
        return None
    stays_off = case.cut.by_hand or "off_s" in case.cut.report
    if case.off_s is None and stays_off:
        return None
    passed = measure_elapsed(load, load.switched_us, after.answered)
    found = passed.most_s - (case.off_s or 0.0)
    return round(found, 1) if passed.known and found >= 0 else None


def _build_cluster_result(outcome: Outcome) -> ClusterResult | None:
    manifest, after = outcome.manifest, outcome.after
    if manifest.promise is None:
        return None
    writer, promotion = manifest.writer_name, after.promotion
    awaited = find_awaited_nodes(outcome.case)
    members = {
        name: MemberResult(
            settings=select_settings_for_promise(
                manifest.site, node.facts.settings, of_writer=name == writer
            ),
            awaited=None if awaited is None or name == writer else name in awaited,
            cut=_find_whether_cut(outcome, name),
            compared=after.others.get(name),
        )
        for name, node in manifest.nodes.items()
    }
    return ClusterResult(
        writer=writer,
        standbys=tuple(name for name in manifest.nodes if name != writer),
        read=after.reader_name,
        promise=manifest.promise,
        stagger_s=manifest.stagger_s,
        promoted_by=promotion.by if promotion and outcome.case.promoted else None,
        left=outcome.case.left,
        left_failed={n: o.failure for n, o in after.elsewhere.items() if o.failure},
        rejoined={} if manifest.site.is_group else after.others,
        topology=manifest.site,
        members=members,
        returned=promotion is not None and promotion.returned is not None,
    )


def _find_whether_cut(outcome: Outcome, name: str) -> bool | None:
    """Return True if the node's power was cut, None if that is not known."""
    manifest, load, promise = outcome.manifest, outcome.load, outcome.manifest.promise
    assert promise is not None
    node = load.nodes.get(name) if load else None
    late = outcome.case.cut_while_promoted or outcome.case.lost_while_promoted
    if (node is not None and node.cut is not None) or (late and late.node == name):
        return True
    asked = promise.cut(manifest.nodes, manifest.writer_name)
    return False if name not in asked or outcome.case.uncut else None


def _build_housekeeping_result(outcome: Outcome) -> HousekeepingResult | None:
    manifest, load = outcome.manifest, outcome.load
    kinds = manifest.workload.housekeeping
    if not kinds or load is None:
        return None
    tasks = HousekeepingTasks(manifest.seed, kinds)
    acked, at_cut = load.acked.get(HOUSEKEEPING_SESSION, 0), load.task_at_end
    done = Counter(tasks.task(number).kind.value for number in range(1, acked + 1))
    return HousekeepingResult(
        dict(done),
        tasks.task(at_cut).kind if at_cut else None,
        ended_early=HOUSEKEEPING_SESSION in load.lost_early,
    )


def _list_evidence(outcome: Outcome) -> tuple[EvidenceResult, ...]:
    return tuple(
        EvidenceResult(item.id, item.status, item.reason, item.required)
        for item in outcome.judgement.items
    )


def _find_layers_at_fault(outcome: Outcome) -> tuple[str, ...]:
    """Return the layers below the server that hold flushes back or lay elsewhere."""
    against = (Status.ABSENT, Status.CONTRADICTED)
    about = {ItemId.WRITE_CACHE} | ({ItemId.PLACES} if outcome.case.strayed else set())
    return tuple(
        item.reason
        for item in outcome.judgement.items
        if item.id in about and item.status in against
    )


def _list_explanations(outcome: Outcome) -> tuple[Explanation, ...]:
    case = outcome.case
    if outcome.verdict is not Verdict.FAIL or outcome.found is None:
        return ()
    counts = {**outcome.found.counts, **_count_losses_without_row(outcome.after)}
    undecided = outcome.found.undecided
    explanations = diagnose_losses(
        {LossKind(name): rows for name, rows in counts.items()},
        case.shape or NO_SHAPE,
        outcome.settings.at_fault(lost=True),
        _find_layers_at_fault(outcome),
        page_cache_kept=case.page_cache_kept,
        replication=explain_missing_commits(case),
        reader_kept_power=case.reader_kept_power,
        deleted=outcome.after.deleted,
        decided=undecided.losses,
        uncounted=count_unexplained_decisions(undecided, outcome.after.decisions),
        repeats=outcome.found.repeats,
    )
    if outcome.manifest.copy is None:
        return explanations
    return tuple(one for one in explanations if one.cause in OF_COPIES)


def _count_losses(outcome: Outcome) -> dict[str, int] | None:
    """Return the losses of this cycle by kind."""
    if outcome.found is None:
        return None
    return {**outcome.found.own_counts, **_count_losses_without_row(outcome.after)}


def _count_losses_without_row(after: AfterRecord) -> dict[str, int]:
    """Return the losses that no row of the first reading shows."""
    counts: dict[str, int] = {}
    for check in (after.index, after.conditions, after.again):
        counts |= check.counts if check else {}
    return counts | differences.count_differing_rows(after.others)


def _find_kept_image(outcome: Outcome) -> str:
    """Return the path of a failed run's drive image, "" if it is not kept."""
    image = outcome.run.image_path
    kept = outcome.verdict is not Verdict.PASS and image.is_file()
    return str(image) if kept else ""


def _find_canaries_left_on_host(outcome: Outcome) -> LeftOnHost | None:
    """Return the place of canaries left on the target's host, None if none are."""
    before, host = outcome.case.before, outcome.case.host
    if before is None or outcome.after.unanswered or (host and not host.left):
        return None
    if not outcome.run.is_own():
        return None  # others may have chosen the names in the command
    folders = host.left if host else before.canary_folders
    command = shlex.join(["rm", "-r", "--", *folders])
    return LeftOnHost(before.facts.hostname, command)


def _compute_statistics(outcome: Outcome) -> Statistics | None:
    """Return the statistics of this cut; None for a control, which must lose rows.

    None without a cut, where a copy was taken.

    A loss without a cut does not count as a cut that lost something.
    """
    if outcome.manifest.control or outcome.manifest.copy is not None:
        return None
    if outcome.case.uncut and outcome.verdict is Verdict.FAIL:
        return Tally(0, 0).statistics
    depth = outcome.case.shown_depth
    return Tally.of([(outcome.verdict, depth.value if depth else "")]).statistics


def _list_ranges(outcome: Outcome, spans: Iterable[IdRange]) -> Iterator[RangeResult]:
    for span in spans:
        yield RangeResult(
            kind=span.kind,
            table=span.table,
            first_id=span.first_id,
            last_id=span.last_id,
            rows=span.rows,
            first_acked_before_cut_s=outcome.before_cut_s(span.first_us),
            last_acked_before_cut_s=outcome.before_cut_s(span.last_us),
        )


def _build_seen_result(outcome: Outcome) -> SeenResult | None:
    seen = outcome.case.seen
    if seen is None:
        return None
    lost = np.sort(seen.lost, order="row_id")
    first = tuple(
        SeenRow(row_id, session, seq, outcome.before_cut_s(seen_us))
        for session, seq, row_id, seen_us in lost[:SEEN_MAX].tolist()
    )
    return SeenResult(seen.rows, len(lost), first, len(lost) - len(first))
