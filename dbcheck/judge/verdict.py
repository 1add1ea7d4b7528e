"""The verdict on a cycle, from its evidence and from the fate of its rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dbcheck.judge import headline
from dbcheck.judge.diagnosis import NOTHING, ByClients
from dbcheck.judge.headline import Survived, cut_named
from dbcheck.judge.item import Item, ItemId, Status, doubt_of
from dbcheck.model.audited import Flag
from dbcheck.model.cut import CutClass
from dbcheck.model.depth import Depth
from dbcheck.model.verdict import ControlOutcome, Verdict, format_count
from dbcheck.rows.differences import SecondReading
from dbcheck.rows.loss import MISSING, ConditionCheck, IndexLoss, LossKind
from dbcheck.rows.reconcile import Reconciliation

_DRIVES_ALONE_CUT = (
    "the host and its controllers kept their power, so it leaves them untested"
)
_ENOUGH_FOR_PASS = (Status.PRESENT, Status.ASSUMED)
NO_COMMIT = (
    "the witness confirmed no commit before the cut. Check the witness, and cut later"
)
# If one of these items is contradicted, the rows may have been read from other data
# than the load was written to, or from a node that need not have the load's rows.
_ITEMS_ABOUT_DATA = (
    ItemId.SAME_SERVER,
    ItemId.SAME_POD,
    ItemId.SAME_TABLE,
    ItemId.NOT_RESTORED,
    ItemId.NOT_REFILLED,
    ItemId.WRITER_OFF,
    ItemId.PROMOTED,
    ItemId.ALL_APPLIED,
    ItemId.IN_SYNC,
)
# Items about a node that took over, or about a group: unless they are present or
# assumed, a row that the node that was read lacks is not surely lost.
_MAY_BE_ELSEWHERE = (ItemId.WRITER_OFF, ItemId.ALL_APPLIED)
_ITEMS_BEFORE_BLAME = (
    ItemId.WRITER_OFF,
    ItemId.PROMOTED,
    ItemId.ALL_APPLIED,
    ItemId.MEMBERS,
)


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict, its reasons and the items of evidence behind it.

    reasons: sentences, the most important first.
    control: what a control showed, None for an ordinary cycle.
    other_data: other data may have been read than the load was written to.
    cut: what was cut, see headline.cut_named().
    """

    verdict: Verdict
    reasons: tuple[str, ...]
    items: tuple[Item, ...]
    control: ControlOutcome | None = None
    other_data: bool = False
    cut: str = "this cut"


def find_item_of_other_data(items: Sequence[Item]) -> Item | None:
    """Return the item that shows that other data were read, None if none shows it."""
    for item in items:
        if item.id in _ITEMS_ABOUT_DATA and item.status is Status.CONTRADICTED:
            return item
    return None


def explain_blameless_node(items: Sequence[Item], lost: str) -> str:
    """Explain why the node that was read cannot be blamed for what is *lost*, or "".

    Another node may have what is lost, where one took over; this node may be of another
    cluster, or may have received it and not have applied it.  A pod may have been given
    another volume: see explain_unknown_volume().
    """
    for item in items:
        if item.id in _ITEMS_BEFORE_BLAME and item.status not in _ENOUGH_FOR_PASS:
            return f"{lost}; but {doubt_of(item)}"
    unknown = explain_unknown_volume(items)
    return f"{lost}; but {unknown}" if unknown else ""


def explain_unknown_volume(items: Sequence[Item]) -> str:
    """Explain why a pod may have been read from another volume, "" if it was not.

    On Kubernetes that needs nobody's mistake: controllers make pods, claims and volumes
    anew, and operators restore backups.  So what is missing is no loss until the
    volumes were seen to be the same; it is enough that the host itself found the same
    data directory, with the canaries of this run in its filesystem.
    """
    item = _find_item(items, ItemId.SAME_POD)
    if item is None or item.status in _ENOUGH_FOR_PASS:
        return ""
    not_restored = _find_item(items, ItemId.NOT_RESTORED)
    same_data = not_restored and not_restored.status is Status.PRESENT
    return "" if same_data else doubt_of(item)


def _find_item(items: Sequence[Item], item_id: ItemId) -> Item | None:
    """Return the item with *item_id*, None if there is none; ids are unique."""
    return next((item for item in items if item.id is item_id), None)


def _find_reason(items: Sequence[Item], item_id: ItemId, status: Status) -> str:
    """Return the reason of the item with *item_id* if it has *status*, else ""."""
    item = _find_item(items, item_id)
    return item.reason if item is not None and item.status is status else ""


def find_evidence_against_cut(items: Sequence[Item]) -> str:
    """Return the server's own evidence that it was not cut, "" if there is none.

    A server without such evidence may have been cut.
    """
    return _find_reason(items, ItemId.RESTARTED, Status.CONTRADICTED)


def explain_replaced_table(found: Reconciliation, items: Sequence[Item]) -> str:
    """Explain why missing rows prove nothing if the table was replaced, else "".

    After a statement that replaced the table nothing shows which rows it had before.  A
    cut can undo the creation of a table only with all commits that followed it.
    """
    missing = _count_missing_rows(found)
    rows = f"{format_count(missing, 'row')} {'is' if missing == 1 else 'are'}"
    replacement = _find_reason(items, ItemId.SAME_TABLE, Status.ABSENT)
    if not missing or not replacement:
        return ""
    return (
        f"{rows} missing from the table, but {replacement}; a cut does that only if it"
        " undoes everything committed since the table was created. Find out who changed"
        " the table, and cut again"
    )


def _count_missing_rows(found: Reconciliation) -> int:
    """Count the missing rows, including those of earlier runs."""
    return sum(found.counts.get(kind.value, 0) for kind in MISSING)


def _explain_refilled_rows(found: Reconciliation, items: Sequence[Item]) -> str:
    """Explain why rows that differ prove nothing if other servers wrote, else "".

    A row that is missing although other servers gave back what they had is lost, and
    the other differences are then judged with it.  If no row is missing, all other
    differences (corrupt, resurrected, stale ...) may have come from those servers.
    """
    writes = _find_writes_by_other_servers(items)
    return writes if not _count_missing_rows(found) else ""


def _find_writes_by_other_servers(items: Sequence[Item]) -> str:
    """Return the sign that other servers may have written to this one, "" if none."""
    item = _find_item(items, ItemId.NOT_REFILLED)
    return "" if item is None or item.status in _ENOUGH_FOR_PASS else item.reason


def _explain_total_loss(items: Sequence[Item], explained: bool) -> str:
    """Explain why the loss of all rows of a run proves nothing, "" if it is proof.

    The first rows of a run are committed, and checkpointed, before the load begins.
    """
    restored = _find_item(items, ItemId.NOT_RESTORED)
    if explained or (restored is not None and restored.status is Status.PRESENT):
        return ""
    detail = f" ({restored.reason})" if restored else ""
    return (
        "no row of this run survived, not even those from before the load:"
        " an older copy was restored, somebody dropped or emptied the table, or the"
        f" drive lost everything; nothing shows which of these happened{detail}. Find"
        " out who changed the data; --target-host tells a copy from a drive that lost"
        " all"
    )


def _find_restored_copy(items: Sequence[Item]) -> str:
    """Return the sign that a copy may have been written over the data, or ""."""
    return _find_reason(items, ItemId.NOT_RESTORED, Status.ABSENT)


def judge_rows(
    found: Reconciliation | None,
    items: Sequence[Item],
    cut: CutClass | None = CutClass.UNKNOWN,
    depth: Depth | None = None,
    *,
    explained: bool = False,
    alarms: Sequence[Flag] = (),
    survived: Survived | None = None,
    clients: ByClients = NOTHING,
    never_cut: bool = False,
) -> Judgement:
    """Return the verdict on a cycle whose table was read to its end.

    found: None only if another server answered, whose table proves nothing.
    cut: what was cut.  depth: how deep the cut went, None if it was not measured.  Both
    are None if the node that was read kept its power.
    explained: a setting was in force that can lose everything.
    alarms: what the audit before the cut found; a PASS names it.
    survived: the failure that a cluster survived, None for a single server.
    clients: the losses that clients of the server caused.
    never_cut: the server ended, and its power was not cut.
    A loss is a FAIL, unless other data may have been read, see
    _find_evidence_of_other_data(), or the loss is excused, see
    _find_excuse_for_losses().  Without a loss, a PASS needs each required item present
    or assumed, and no item contradicted.
    """
    if doubt := _find_evidence_of_other_data(found, items, explained):
        return Judgement(Verdict.INCONCLUSIVE, (doubt,), tuple(items), other_data=True)
    assert found is not None
    altered = describe_earlier_alterations(found)
    cut_name = cut_named(cut, depth, items, survived, never_cut=never_cut)
    if found.counts:
        if doubt := _find_excuse_for_losses(found, items, clients):
            reasons = (doubt, *altered)
            return Judgement(Verdict.INCONCLUSIVE, reasons, tuple(items), cut=cut_name)
        reasons = (
            headline.lost(found, cut_name, survived, clients.losses),
            *clients.reasons,
            *altered,
        )
        return Judgement(Verdict.FAIL, reasons, tuple(items), cut=cut_name)
    doubts = altered + tuple(
        doubt_of(item)
        for item in items
        if item.status is Status.CONTRADICTED
        or (item.required and item.status not in _ENOUGH_FOR_PASS)
    )
    if found.foreign:
        belong = "belongs" if found.foreign == 1 else "belong"
        rows = f"{format_count(found.foreign, 'row')} {belong}"
        reason = (
            f"{rows} to another run: a second dbcheck may have been running. Repeat it"
            " alone"
        )
        doubts = (reason, *doubts)
    if not found.confirmed:
        doubts = (NO_COMMIT, *doubts)
    if doubts:
        return Judgement(Verdict.INCONCLUSIVE, doubts, tuple(items), cut=cut_name)
    claim = headline.kept(found, items, cut_name, survived, alarms)
    reasons = (claim, *_list_what_pass_leaves_open(items, cut, depth))
    return Judgement(Verdict.PASS, reasons, tuple(items), cut=cut_name)


def _find_excuse_for_losses(
    found: Reconciliation, items: Sequence[Item], clients: ByClients
) -> str:
    """Return the excuse of the server for the losses, "" if it has none.

    - Another node took over and need not have the lost rows: explain_blameless_node().
    - No row is missing, and the rows that differ may come from another server:
      _explain_refilled_rows().
    - The server itself shows that it was not cut: find_evidence_against_cut().
    - Clients of the server caused all losses.
    """
    differing = headline.differing(found)
    if doubt := explain_blameless_node(items, differing):
        return doubt
    if refill := _explain_refilled_rows(found, items):
        return f"{differing}; but {refill}"
    if not_cut := find_evidence_against_cut(items):
        return f"{differing}; but no cut took them: {not_cut}"
    if clients.losses >= sum(found.counts.values()):
        return f"{differing}; but {'; '.join(clients.reasons)}"
    return ""


def _find_evidence_of_other_data(
    found: Reconciliation | None, items: Sequence[Item], explained: bool
) -> str:
    """Return the evidence that the data read may not be the load's, or ""."""
    if item := find_item_of_other_data(items):
        # What is missing is counted: another node of this cluster may have it.
        if found is not None and found.counts and item.id in _MAY_BE_ELSEWHERE:
            return f"{headline.differing(found)}; but {item.reason}"
        return item.reason
    if found is None:
        return "the table was not read"
    if not explained and (doubt := explain_replaced_table(found, items)):
        return doubt
    if found.counts and found.all_gone:
        return _explain_total_loss(items, explained)
    return ""


def describe_earlier_alterations(found: Reconciliation) -> tuple[str, ...]:
    """Say that rows were perhaps altered before the load, () if none were."""
    rows = found.earlier_altered
    if not rows:
        return ()
    count, pronoun = f"{rows:,} rows of earlier runs do", "they"
    if rows == 1:
        count, pronoun = "1 row of an earlier run does", "it"
    return (
        f"{count} not have the content that was written, and {pronoun} may have been"
        " altered before this load; dbcheck clean removes the table",
    )


def _list_what_pass_leaves_open(
    items: Sequence[Item], cut: CutClass | None, depth: Depth | None
) -> Iterator[str]:
    """Yield what a PASS leaves untested, and what it only assumes."""
    if open_by_class := cut.leaves_open(depth) if cut else "":
        yield open_by_class
    if _find_item(items, ItemId.DRIVES_GONE) is not None:
        yield _DRIVES_ALONE_CUT
    yield from (item.reason for item in items if headline.leaves_open(item))
    for item in items:
        about_shutdown = item.id is ItemId.NOT_SHUT_DOWN
        if (
            cut is CutClass.FAILOVER
            and about_shutdown
            and item.status is not Status.PRESENT
        ):
            yield f"whether the former server crashed was not seen ({item.reason})"
        about_counter = item.id is ItemId.UNSAFE_SHUTDOWNS
        shallow = depth is not Depth.DRIVE and cut in (CutClass.AC, CutClass.DC_RAIL)
        if shallow and about_counter and item.status is Status.ABSENT:
            yield (
                f"unsafe shutdowns did not rise: {item.reason}, so this says nothing"
                " about the drives' caches"
            )
    for item in items:
        if item.status is Status.ASSUMED:
            yield f"assumed, not seen: {item.id.value} ({item.reason})"


def judge_unrecoverable(
    reason: str,
    items: Sequence[Item],
    *,
    missing: bool,
    explained: bool,
    never_cut: bool = False,
    page_cache_kept: bool = False,
    cut: str = "this cut",
    acks: int = 0,
    answers: bool = True,
) -> Judgement:
    """Return the verdict on a server, or a table, that did not come back.

    missing: the server has no such table, and nothing else is wrong with it.
    never_cut: the server is gone, but its power was not cut: it ended for another
    reason and was not started again, so its data were not read.
    page_cache_kept: the cut destroyed no more than the server's memory.
    cut: see headline.cut_named().  acks: how many acks the witness holds.
    answers: the server takes queries, so only a table did not come back.
    A missing table is no loss if the server itself shows that it was not cut.
    """
    if never_cut:
        doubt = (
            f"the server is gone, but no power cut was recorded: {reason}. Start it,"
            " and cut again"
        )
        return Judgement(Verdict.INCONCLUSIVE, (doubt,), tuple(items))
    if not_cut := find_evidence_against_cut(items):
        damage = f"{LossKind.UNRECOVERABLE.value}: {reason}"
        doubt = (
            f"a table is gone or damaged; but no cut did that: {not_cut}. Find out what"
            " did"
        )
        return Judgement(Verdict.INCONCLUSIVE, (doubt, damage), tuple(items))
    if not explained and (restored := _find_restored_copy(items)):
        damage = f"{LossKind.UNRECOVERABLE.value}: {reason}"
        doubt = (
            f"a table is gone or damaged; but no cut need have done that: {restored}"
        )
        return Judgement(Verdict.INCONCLUSIVE, (doubt, damage), tuple(items))
    if missing and (doubt := _explain_total_loss(items, explained)):
        return Judgement(Verdict.INCONCLUSIVE, (doubt,), tuple(items))
    if missing and page_cache_kept and not explained:
        doubt = (
            f"the table is gone ({reason}), but this cut kept the page cache, so it "
            "cannot have removed a table: somebody dropped it. Find out who, and cut"
            " again"
        )
        return Judgement(Verdict.INCONCLUSIVE, (doubt,), tuple(items))
    if missing and (why := _find_writes_by_other_servers(items)):
        doubt = (
            f"the table is gone ({reason}); other servers may have dropped it: {why}"
        )
        return Judgement(Verdict.INCONCLUSIVE, (doubt,), tuple(items))
    headline_text = headline.not_back(reason, cut, acks, answers=answers)
    details = f"{LossKind.UNRECOVERABLE.value}: {reason}"
    if missing:
        details += "; unless somebody dropped the table, the cut removed it"
    return Judgement(Verdict.FAIL, (headline_text, details), tuple(items), cut=cut)


def judge_index(
    judgement: Judgement, found: Reconciliation | None, index: IndexLoss | None
) -> Judgement:
    """Return FAIL if the *index* disagrees with its table, else *judgement*.

    The server confirmed a row, and a query through the index does not find the row.
    """
    if index is None:
        return judgement
    text = f"an index and its table disagree: {index.reason}"
    return _fail_for_loss(judgement, found, text)


def judge_conditions(
    judgement: Judgement, found: Reconciliation | None, check: ConditionCheck | None
) -> Judgement:
    """Return FAIL if a condition does not hold among the rows, else *judgement*.

    Every transaction that wrote rows keeps the condition, so a broken condition means
    that only a part of some transaction is there.
    """
    if check is None or not check.broken:
        return judgement
    text = f"the sums over the rows do not agree: {check.reason}"
    return _fail_for_loss(judgement, found, text, written=True)


def judge_after_second_reading(
    judgement: Judgement, found: Reconciliation | None, again: SecondReading | None
) -> Judgement:
    """Return FAIL if a second reading shows a loss, else *judgement*.

    Rows that were committed and read once must be there after a clean restart, too.
    """
    if again is None:
        return judgement
    if again.failure:
        text = f"the server or a table is gone after a clean restart: {again.failure}"
        kind = LossKind.UNRECOVERABLE.value
        details = f"{kind}: after a clean restart: {again.failure}"
        return _fail_for_loss(judgement, found, text, details)
    if again.reason:
        text = f"the rows are not the same after a clean restart: {again.reason}"
        return _fail_for_loss(judgement, found, text, written=not again.index)
    return judgement


def judge_agreement(
    judgement: Judgement, found: Reconciliation | None, reason: str
) -> Judgement:
    """Return FAIL if nodes of a group differ, else *judgement*.

    reason: how the nodes differ, "" if they do not.  Each node had applied all that it
    received, and clients may be sent to any node.
    """
    if not reason or explain_blameless_node(judgement.items, reason):
        return judgement
    text = f"the nodes of the group hold different rows: {reason}"
    return _fail_for_loss(judgement, found, text)


def _fail_for_loss(
    judgement: Judgement,
    found: Reconciliation | None,
    *reasons: str,
    written: bool = False,
) -> Judgement:
    """Return FAIL for a loss that is shown by more than the rows that were read.

    reasons: the loss and its evidence, then further details.
    written: statements from other servers can cause such a loss; it is then no FAIL if
    other servers may have written.
    There is no FAIL if the data may not be this run's.
    """
    items = judgement.items
    may_be_other_data = (
        found is None or found.all_gone or find_item_of_other_data(items) is not None
    )
    may_be_other_data = may_be_other_data or (
        found is not None and bool(explain_replaced_table(found, items))
    )
    if may_be_other_data and judgement.verdict is not Verdict.FAIL:
        return judgement
    other_writers = written and bool(_find_writes_by_other_servers(items))
    unknown = explain_unknown_volume(items)
    excused = other_writers or unknown or find_evidence_against_cut(items)
    if judgement.verdict is Verdict.FAIL or (
        excused and judgement.verdict is Verdict.INCONCLUSIVE
    ):
        return replace(judgement, reasons=(*judgement.reasons, *reasons))
    first, *rest = reasons
    headline_text = headline.but(found, judgement.cut, first)
    return replace(judgement, verdict=Verdict.FAIL, reasons=(headline_text, *rest))
