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

_HOST_KEPT = "the host and its controllers kept their power, so it leaves them untested"
_ENOUGH = (Status.PRESENT, Status.ASSUMED)  # for a PASS
NO_COMMIT = (
    "the witness confirmed no commit before the cut. Check the witness, and cut later"
)
# Contradicted, they show that what was read need not be what the load was written to:
# other data, or a node that need not have it.
_OF_THE_DATA = (
    ItemId.SAME_SERVER,
    ItemId.SAME_TABLE,
    ItemId.NOT_RESTORED,
    ItemId.NOT_REFILLED,
    ItemId.WRITER_OFF,
    ItemId.PROMOTED,
    ItemId.ALL_APPLIED,
    ItemId.IN_SYNC,
)
# Of a node that took over, or of a group: without them a row that the node which was
# read lacks is not lost for sure.
_BEFORE_BLAME = (
    ItemId.WRITER_OFF,
    ItemId.PROMOTED,
    ItemId.ALL_APPLIED,
    ItemId.MEMBERS,
)


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict and what it rests on.

    reasons: sentences, the most important first.
    control: what a control showed, None of an ordinary cycle.
    other_data: other data may have been read than those that the load was written to.
    cut: what was cut, see headline.cut_named().
    """

    verdict: Verdict
    reasons: tuple[str, ...]
    items: tuple[Item, ...]
    control: ControlOutcome | None = None
    other_data: bool = False
    cut: str = "this cut"


def find_item_of_other_data(items: Sequence[Item]) -> Item | None:
    """Return the item that shows that other data answered, None if none does."""
    for item in items:
        if item.id in _OF_THE_DATA and item.status is Status.CONTRADICTED:
            return item
    return None


def explain_blameless_node(items: Sequence[Item], lost: str) -> str:
    """Explain why a node that took over cannot be blamed for what is *lost*, or "".

    Another node may serve it, this one may be of another cluster, or may have it and
    not have applied it.
    """
    for item in items:
        if item.id in _BEFORE_BLAME and item.status not in _ENOUGH:
            return f"{lost}; but {doubt_of(item)}"
    return ""


def _find_item(items: Sequence[Item], which: ItemId) -> Item | None:
    """Return the item with that id, None if there is none; no two have the same."""
    return next((item for item in items if item.id is which), None)


def _find_reason(items: Sequence[Item], which: ItemId, status: Status) -> str:
    """Return the reason of the item with that id if it stands so, else ""."""
    item = _find_item(items, which)
    return item.reason if item is not None and item.status is status else ""


def find_evidence_against_cut(items: Sequence[Item]) -> str:
    """Return the server's own evidence that it was not cut, "" if there is none.

    A record that is absent contradicts no cut.
    """
    return _find_reason(items, ItemId.RESTARTED, Status.CONTRADICTED)


def explain_replaced_table(found: Reconciliation, items: Sequence[Item]) -> str:
    """Explain why missing rows prove nothing if the table was replaced, else "".

    After such a statement nothing shows which rows were there before it.  A cut takes
    the table's own creation back only with all that was committed since.
    """
    lost = _count_missing_rows(found)
    rows = f"{format_count(lost, 'row')} {'is' if lost == 1 else 'are'}"
    why = _find_reason(items, ItemId.SAME_TABLE, Status.ABSENT)
    if not lost or not why:
        return ""
    return (
        f"{rows} missing from the table, but {why}; a cut does that only if it undoes"
        " everything committed since the table was created. Find out who changed the"
        " table, and cut again"
    )


def _count_missing_rows(found: Reconciliation) -> int:
    """Count the missing rows, those of earlier runs among them."""
    return sum(found.counts.get(kind.value, 0) for kind in MISSING)


def _refilled(found: Reconciliation, items: Sequence[Item]) -> str:
    """Return the reason for which rows that differ prove nothing, "" if they do.

    Other servers may have written them.  A row that is missing although other servers
    gave back what they had is lost, and the rest is then judged with it.  If none is
    missing, all other differences (corrupt, resurrected, stale ...) may have come from
    those servers.
    """
    why = _find_writes_by_other_servers(items)
    return why if not _count_missing_rows(found) else ""


def _find_writes_by_other_servers(items: Sequence[Item]) -> str:
    """Return the sign that other servers may have written to this one, "" if none."""
    item = _find_item(items, ItemId.NOT_REFILLED)
    return "" if item is None or item.status in _ENOUGH else item.reason


def _explain_total_loss(items: Sequence[Item], explained: bool) -> str:
    """Explain why the loss of all that a run wrote proves nothing, "" if it does.

    Its first rows are committed, and checkpointed, before the load begins.
    """
    item = _find_item(items, ItemId.NOT_RESTORED)
    if explained or (item is not None and item.status is Status.PRESENT):
        return ""
    why = f" ({item.reason})" if item else ""
    return (
        "no row of this run survived, not even those from before the load:"
        " an older copy was restored, somebody dropped or emptied the table, or the"
        f" drive lost everything; nothing shows which of these happened{why}. Find out"
        " who changed the data; --target-host tells a copy from a drive that lost all"
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
    cut, depth: what was cut, and how deep that went, None if it was not measured.  Both
    are None if the node that was read kept its power.
    explained: a setting was in force that can lose everything.
    alarms: what the audit before the cut found; a PASS names it.
    survived: what a cluster survived, None of a single server.
    clients: the losses that clients of the server caused.
    never_cut: the server ended, and its power was not cut.
    A loss is a FAIL, unless other data may have been read, see
    _find_evidence_of_other_data(), or something excuses it, see
    _find_excuse_for_losses().  Without one, each required item must be
    present, and none contradicted, for a PASS.
    """
    if doubt := _find_evidence_of_other_data(found, items, explained):
        return Judgement(Verdict.INCONCLUSIVE, (doubt,), tuple(items), other_data=True)
    assert found is not None
    altered = describe_earlier_alterations(found)
    where = cut_named(cut, depth, items, survived, never_cut=never_cut)
    if found.counts:
        if doubt := _find_excuse_for_losses(found, items, clients):
            reasons = (doubt, *altered)
            return Judgement(Verdict.INCONCLUSIVE, reasons, tuple(items), cut=where)
        reasons = (
            headline.lost(found, where, clients.losses),
            *clients.reasons,
            *altered,
        )
        return Judgement(Verdict.FAIL, reasons, tuple(items), cut=where)
    doubts = altered + tuple(
        doubt_of(item)
        for item in items
        if item.status is Status.CONTRADICTED
        or (item.required and item.status not in _ENOUGH)
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
        return Judgement(Verdict.INCONCLUSIVE, doubts, tuple(items), cut=where)
    claim = headline.kept(found, items, where, survived, alarms)
    reasons = (claim, *_left_open(items, cut, depth))
    return Judgement(Verdict.PASS, reasons, tuple(items), cut=where)


def _find_excuse_for_losses(
    found: Reconciliation, items: Sequence[Item], clients: ByClients
) -> str:
    """Return the excuse of the server for the losses, "" if it has none.

    - Another node took over, which may not have had to have them:
      explain_blameless_node().
    - No row is missing, and what deviates may be another server's: _refilled().
    - The server itself shows that it was not cut: find_evidence_against_cut().
    - Clients of the server caused them all.
    """
    lost = headline.differing(found)
    if doubt := explain_blameless_node(items, lost):
        return doubt
    if others := _refilled(found, items):
        return f"{lost}; but {others}"
    if kept := find_evidence_against_cut(items):
        return f"{lost}; but no cut took them: {kept}"
    if clients.losses >= sum(found.counts.values()):
        return f"{lost}; but {'; '.join(clients.reasons)}"
    return ""


def _find_evidence_of_other_data(
    found: Reconciliation | None, items: Sequence[Item], explained: bool
) -> str:
    """Return the sign that other data than the load's may have been read, or ""."""
    if other := find_item_of_other_data(items):
        return other.reason
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
    reason, they = f"{rows:,} rows of earlier runs do", "they"
    if rows == 1:
        reason, they = "1 row of an earlier run does", "it"
    return (
        f"{reason} not have the content that was written, and {they} may have been"
        " altered before this load; dbcheck clean removes the table",
    )


def _left_open(
    items: Sequence[Item], cut: CutClass | None, depth: Depth | None
) -> Iterator[str]:
    """Yield what a PASS leaves open, and what it only assumes."""
    if open_by_class := cut.leaves_open(depth) if cut else "":
        yield open_by_class
    if _find_item(items, ItemId.DRIVES_GONE) is not None:
        yield _HOST_KEPT
    yield from (item.reason for item in items if headline.leaves_open(item))
    for item in items:
        ended = item.id is ItemId.NOT_SHUT_DOWN
        if cut is CutClass.FAILOVER and ended and item.status is not Status.PRESENT:
            yield f"whether the former server crashed was not seen ({item.reason})"
        counted = item.id is ItemId.UNSAFE_SHUTDOWNS
        shallow = depth is not Depth.DRIVE and cut in (CutClass.AC, CutClass.DC_RAIL)
        if shallow and counted and item.status is Status.ABSENT:
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
    spared: bool = False,
    cut: str = "this cut",
    acks: int = 0,
    answers: bool = True,
) -> Judgement:
    """Return the verdict on a server, or a table, that did not come back.

    missing: the server has no such table, and nothing else is wrong with it.
    never_cut: it is the server that is gone, and its power was not cut: it ended
    otherwise and was not started again, so its data were not read.
    spared: the cut destroyed no more than the server's memory, as was measured.
    cut: see headline.cut_named().  acks: that the witness holds.
    answers: the server takes queries, so it is a table that did not come back.
    What a server that answers lacks is no loss either, if it shows that it was not cut.
    """
    if never_cut:
        doubt = (
            f"the server is gone, but no power cut was recorded: {reason}. Start it,"
            " and cut again"
        )
        return Judgement(Verdict.INCONCLUSIVE, (doubt,), tuple(items))
    if kept := find_evidence_against_cut(items):
        damage = f"{LossKind.UNRECOVERABLE.value}: {reason}"
        doubt = (
            f"a table is gone or damaged; but no cut did that: {kept}. Find out what"
            " did"
        )
        return Judgement(Verdict.INCONCLUSIVE, (doubt, damage), tuple(items))
    if not explained and (copied := _find_restored_copy(items)):
        damage = f"{LossKind.UNRECOVERABLE.value}: {reason}"
        doubt = f"a table is gone or damaged; but no cut need have done that: {copied}"
        return Judgement(Verdict.INCONCLUSIVE, (doubt, damage), tuple(items))
    if missing and (doubt := _explain_total_loss(items, explained)):
        return Judgement(Verdict.INCONCLUSIVE, (doubt,), tuple(items))
    if missing and spared and not explained:
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
    text = headline.not_back(reason, cut, acks, answers=answers)
    details = f"{LossKind.UNRECOVERABLE.value}: {reason}"
    if missing:
        details += "; unless somebody dropped the table, the cut removed it"
    return Judgement(Verdict.FAIL, (text, details), tuple(items), cut=cut)


def judge_index(
    judgement: Judgement, found: Reconciliation | None, index: IndexLoss | None
) -> Judgement:
    """Return FAIL if the *index* disagrees with its table, else *judgement*.

    The server confirmed a row, and a query for it does not find it.
    """
    if index is None:
        return judgement
    text = f"an index and its table disagree: {index.reason}"
    return _fail_for_loss(judgement, found, text)


def judge_conditions(
    judgement: Judgement, found: Reconciliation | None, check: ConditionCheck | None
) -> Judgement:
    """Return FAIL if a condition does not hold among the rows, else *judgement*.

    Every transaction that wrote them keeps it, so one of them is there in part.
    """
    if check is None or not check.broken:
        return judgement
    text = f"the sums over the rows do not agree: {check.reason}"
    return _fail_for_loss(judgement, found, text, written=True)


def judge_after_second_reading(
    judgement: Judgement, found: Reconciliation | None, again: SecondReading | None
) -> Judgement:
    """Return FAIL if a second reading shows a loss, else *judgement*.

    What was committed and read once must be there after a clean restart, too.
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

    reason: how, "" if they do not.  Each had applied all, and clients may be sent to
    any of them.
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
    """Return FAIL for what the server itself shows, beside the rows that were read.

    reasons: what that is and how it was seen, then what else there is to say.
    written: statements that other servers sent could do it; no FAIL if they may have.
    Data that are not this run's, or may not be, cause no FAIL.
    """
    items = judgement.items
    unknown = (
        found is None or found.all_gone or find_item_of_other_data(items) is not None
    )
    unknown = unknown or (
        found is not None and bool(explain_replaced_table(found, items))
    )
    if unknown and judgement.verdict is not Verdict.FAIL:
        return judgement
    by_others = written and bool(_find_writes_by_other_servers(items))
    excused = by_others or find_evidence_against_cut(items)
    if judgement.verdict is Verdict.FAIL or (
        excused and judgement.verdict is Verdict.INCONCLUSIVE
    ):
        return replace(judgement, reasons=(*judgement.reasons, *reasons))
    first, *rest = reasons
    text = headline.but(found, judgement.cut, first)
    return replace(judgement, verdict=Verdict.FAIL, reasons=(text, *rest))
