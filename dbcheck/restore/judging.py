"""The verdict on a restored copy: its evidence, and the commits that it must have.

The server that is read was never cut, so nothing here asks how deep a cut went.
Commits that were sent after a copy was taken show that another server is read than the
one that was copied: the copy has none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from dbcheck.judge import after_reading, headline, load_and_witness, settings, watched
from dbcheck.judge.case import Case
from dbcheck.judge.item import Item, ItemId, Status, doubt_of
from dbcheck.judge.verdict import Judgement, describe_earlier_alterations
from dbcheck.model.audited import list_alarms
from dbcheck.model.server import name_same_data
from dbcheck.model.verdict import Verdict, format_at_most, format_count
from dbcheck.restore import loss, pointed, volumes
from dbcheck.rows.copied import Copied
from dbcheck.rows.loss import LossKind
from dbcheck.rows.reconcile import Reconciliation

WHERE = "the restored copy"
_STATES = {
    "lost": "missing",
    "lost or damaged": "missing or damaged",
    "damaged": "damaged",
}
_OLDER = "the copy may be an older one, from before this run"
_NOT_SHIPPED = (
    "nothing of this run may have been shipped, or an older copy was restored"
)
_NOT_PROMOTED = "let the restore end its recovery, and run it again"
_NONE_AFTER = (
    "no commit was sent after it was taken: use more sessions, and copy it again"
)
_BEFORE_BEGUN = "before it was begun"
_ENOUGH = (Status.PRESENT, Status.ASSUMED)


def judge_taken(case: Case) -> Item:
    """Judge whether commits went on while the copy was taken."""
    copied, taken_s = case.copied, case.copy.taken_s if case.copy else None
    if taken_s is None:
        return Item(
            ItemId.COPY_TAKEN, Status.ABSENT, "no copy was taken", required=True
        )
    took = f"its program took {taken_s:,.1f} s"
    if copied is None:
        return Item(ItemId.COPY_TAKEN, Status.NOT_OBSERVABLE, took, required=True)
    meanwhile = copied.by_order + copied.open
    status = Status.PRESENT if meanwhile else Status.ABSENT
    came = format_count(meanwhile, "commit") if meanwhile else "no commit"
    reason = f"{took}, and {came} came meanwhile"
    return Item(ItemId.COPY_TAKEN, status, reason, required=True)


def judge_apart(case: Case) -> Item | None:
    """Judge whether the copy ends where it was taken; None if no row was compared.

    The original itself, and a standby that still follows it, have later commits; one
    that follows it with a delay may not have them yet.  Where nothing was copied, it
    must follow no server.
    """
    copied = case.copied
    if copied is None:
        return None
    if case.manifest.is_cut or pointed.is_to_point(case):
        return _judge_follows_nobody(case)
    follows = _find_server_followed(case)
    sent = f"the {format_count(copied.after, 'commit')} sent after it was taken"
    status, reason = Status.PRESENT, f"it has none of {sent}"
    if copied.after_kept:
        status = Status.CONTRADICTED
        reason = f"it has {copied.after_kept:,} of {sent}: it is the server itself, or"
        reason += " follows it"
    elif follows:
        status, reason = Status.CONTRADICTED, follows
    elif not copied.after:
        status, reason = Status.ABSENT, _NONE_AFTER
    return Item(ItemId.COPY_APART, status, reason, required=True)


def _judge_follows_nobody(case: Case) -> Item:
    """Judge whether the restored server has ended its recovery.

    One that was a replica of the lost server, and is none any more, has all that it
    received.
    """
    refill = case.after.refill
    if refill is not None and refill.unknown and not refill.cloned:
        reason = f"the server that was read {refill.how}. {refill.advice}"
        return Item(ItemId.COPY_APART, Status.NOT_OBSERVABLE, reason, required=True)
    follows = _find_server_followed(case)
    if follows and not (refill is not None and refill.ended):
        reason = f"{follows}: {_NOT_PROMOTED}"
        return Item(ItemId.COPY_APART, Status.CONTRADICTED, reason, required=True)
    reason = "the server that was read follows no other"
    return Item(ItemId.COPY_APART, Status.PRESENT, reason, required=True)


def _find_server_followed(case: Case) -> str:
    """Return how the server that was read follows another one, "" if it does not."""
    refill = case.after.refill
    if refill is None or refill.cloned or refill.unknown:
        return ""
    return f"the server that was read {refill.how}"


def judge_of_server(case: Case) -> Item | None:
    """Judge whose copy it is, by its rows and by the names of its data.

    A dump that is loaded elsewhere has other names, and a clone has, too.  None if
    nothing was read.
    """
    facts, missing = case.after.facts, case.after.missing
    nothing = "not all tables of this run" if missing else "no row of this run"
    if facts is None and not missing:
        return None
    if case.found is None and not case.after.failure:
        return None
    names = facts.identity if facts is not None else {}
    is_same = name_same_data(case.writer.facts.identity, names)
    status, reason = Status.PRESENT, "it has rows of this run"
    if case.found is None and not missing:
        reason = "it has the tables of this run"
    elif has_no_row(case) and is_same:
        reason = f"it has {nothing}, but the identity of this server"
    elif has_no_row(case):
        status = Status.ABSENT
        reason = f"it has {nothing}, and not the identity of this server"
    return Item(ItemId.COPY_OF_SERVER, status, reason, required=True)


def has_no_row(case: Case) -> bool:
    """Return True if no row of this run was read in the copy."""
    copied = case.copied
    return case.none_there and not (copied and copied.open_kept + copied.after_kept)


def judge_restore(case: Case) -> Item | None:
    """Show how long the restore took; None if that is not known."""
    if case.copy is None or case.copy.restore_s is None:
        return None
    reason = f"its program took {case.copy.restore_s:,.1f} s"
    return Item(ItemId.RESTORED, Status.PRESENT, reason, required=False)


def judge_settings(case: Case) -> Item | None:
    """Judge the settings of the server that was copied, as a cut would find them.

    A snapshot of storage finds them so, too: it has what was written by then.  None
    where an objective allows to lose commits: they may be the newest of the log, too.
    """
    plan = case.manifest.copy
    if plan is not None and plan.rpo_s:
        return None
    return settings.collect_settings(case).item(kept=False)


_BESIDE_LOAD: tuple[Callable[[Case], Item | None], ...] = (
    judge_taken,
    volumes.judge_volumes,
)
_AFTER_LOSS: tuple[Callable[[Case], Item | None], ...] = (
    load_and_witness.judge_load_at_the_cut,
    load_and_witness.judge_witness_at_the_cut,
    load_and_witness.judge_witness_host,
    *loss.EVIDENCE,
)
_OF_EACH: tuple[Callable[[Case], Item | None], ...] = (
    judge_restore,
    judge_of_server,
    judge_apart,
    after_reading.judge_prepared_transactions,
    after_reading.judge_table_check,
    after_reading.judge_dropped_tables,
    watched.judge_looks_during_load,
    load_and_witness.judge_witness_log,
    judge_settings,
)


def judge_restored(case: Case) -> Judgement:
    """Return the verdict on the restored copy of *case*, with what it rests on."""
    own = _AFTER_LOSS if case.manifest.is_cut else _BESIDE_LOAD
    if pointed.is_to_point(case):
        own = pointed.EVIDENCE
    judged = (each(case) for each in (*own, *_OF_EACH))
    items = tuple(item for item in judged if item is not None)
    judgement = _judge_with_index(case, items)
    return replace(judgement, reasons=_add_volumes(judgement.reasons, items))


def _add_volumes(reasons: tuple[str, ...], items: tuple[Item, ...]) -> tuple[str, ...]:
    """Return *reasons*, and that the volumes were not copied at one moment, if so."""
    apart = [
        doubt_of(item)
        for item in items
        if item.id is ItemId.ONE_INSTANT and item.status is Status.CONTRADICTED
    ]
    return (*reasons, *(text for text in apart if text not in reasons))


def _judge_with_index(case: Case, items: tuple[Item, ...]) -> Judgement:
    judgement = _judge(case, items)
    if judgement.other_data:
        return judgement
    if (index := case.after.index) is None:
        return judgement
    text = f"an index and its table disagree: {index.reason}"
    if judgement.verdict is Verdict.FAIL:
        return replace(judgement, reasons=(*judgement.reasons, text))
    if case.copied is not None:
        due = format_count(case.copied.due, "commit")
        text = f"{WHERE} has all of the {due} that it must have, but {text}"
    return replace(judgement, verdict=Verdict.FAIL, reasons=(text,))


def _judge(case: Case, items: tuple[Item, ...]) -> Judgement:
    found, copied, after = case.found, case.copied, case.after

    def concluded(verdict: Verdict, *reasons: str, other: bool = False) -> Judgement:
        return Judgement(verdict, reasons, items, other_data=other, cut=WHERE)

    if case.damage:
        advice = "Check the witness's disk, or use another witness; then run it again"
        return concluded(Verdict.INCONCLUSIVE, f"{case.damage}. {advice}")
    if after.unanswered:
        return concluded(Verdict.INCONCLUSIVE, after.unanswered)
    if (other := _find_other_server(items)) is not None:
        return concluded(Verdict.INCONCLUSIVE, _doubt(case, other), other=True)
    if after.failure and (not after.missing or _must_have_tables(case)):
        return concluded(Verdict.FAIL, *_describe_failure(case))
    if found is None or copied is None:
        lacking = (item for item in items if _is_lacking(item) and case.manifest.is_cut)
        doubts = [_doubt(case, item) for item in lacking]
        unread = "the rows of the copy were not read"
        return concluded(Verdict.INCONCLUSIVE, *(doubts or [unread]))
    altered = describe_earlier_alterations(found)
    if found.counts:
        lost = describe_loss(case, found, copied) + describe_excess(case)
        lost += pointed.describe_shortfall(case) if pointed.is_to_point(case) else ""
        lost += f"; {_explain_no_row(case)}" if has_no_row(case) else ""
        return concluded(Verdict.FAIL, lost, *altered)
    doubts = [*altered, *_list_doubts(case, found, items)]
    if doubts:
        return concluded(Verdict.INCONCLUSIVE, *doubts)
    return concluded(Verdict.PASS, _describe_kept(case, copied), *_list_assumed(items))


def _find_other_server(items: tuple[Item, ...]) -> Item | None:
    """Return the item that shows that no copy of this server was read, or None.

    A replica may still apply what it received, so what is missing need not be lost.
    """
    wrong = (
        (ItemId.COPY_APART, Status.CONTRADICTED),
        (ItemId.COPY_APART, Status.NOT_OBSERVABLE),
        (ItemId.POINT_STOP, Status.CONTRADICTED),
        (ItemId.COPY_OF_SERVER, Status.ABSENT),
    )
    return next((item for item in items if (item.id, item.status) in wrong), None)


def _doubt(case: Case, item: Item) -> str:
    """Return why *item* keeps a copy from counting, then the remedy."""
    text = doubt_of(item)
    if case.manifest.is_cut:
        return text.replace("copy it again", "run it again")
    if pointed.is_to_point(case):
        text = text.replace("copy it again", "run it again")
        return text.replace("cut again", "run it again")
    return text.replace("cut again", "copy it again")


def _must_have_tables(case: Case) -> bool:
    """Return True if a copy must have the tables of the run.

    Each of them has rows from before the load, so it must have them if one of these is
    due.  After a loss of unknown moment it may be that nothing is.
    """
    if not case.manifest.is_cut:
        return True
    law = loss.find_law(case)
    return (
        law is not None and case.load is not None and case.load.began_us <= law.due_us
    )


def _explain_no_row(case: Case) -> str:
    """Return why a copy may have no row, or no table, of the run."""
    if pointed.is_to_point(case):
        return pointed.EARLIER
    return _NOT_SHIPPED if case.manifest.is_cut else _OLDER


def _describe_failure(case: Case) -> tuple[str, str]:
    """Return the headline for a copy that has a table that is gone or damaged."""
    acks = format_count(sum(log.acks for log in case.logs), "acknowledged commit")
    text = f"a table of this run ({acks} in all) is gone or damaged in {WHERE}"
    if case.after.missing:
        why = _explain_no_row(case)
        text = f"{WHERE} has not all tables of this run ({acks} in all); {why}"
    return (
        f"{text}: {case.after.failure}",
        f"{LossKind.UNRECOVERABLE.value}: {case.after.failure}",
    )


def describe_loss(case: Case, found: Reconciliation, copied: Copied) -> str:
    """Return the headline of a copy that lacks commits, or is damaged."""
    commits, how = headline.count_commits_hit(found)
    parts = [*headline.list_losses_beside(found)]
    if commits:
        due = format_count(copied.due, "commit")
        of = "" if commits == copied.due == 1 else f"{commits:,} of "
        hit = f"{of}the {due} that {WHERE} must have"
        parts.insert(0, f"{hit} {'is' if commits == 1 else 'are'} {_STATES[how]}")
    text = "; ".join(parts)
    if commits and copied.by_order:
        when = "long enough before the loss" if case.manifest.is_cut else _BEFORE_BEGUN
        when = pointed.BEFORE if pointed.is_to_point(case) else when
        text += (
            f". Of these {due}, {copied.by_order:,} must be there since later commits"
            f" are there, and the rest since they were acknowledged {when}"
        )
    return text


def describe_excess(case: Case) -> str:
    """Return by how much an objective was missed, "" if there is none or it was met."""
    plan, reach = case.manifest.copy, loss.measure_reach(case)
    if plan is None or plan.rpo_s is None or reach is None:
        return ""
    if reach.least_s <= plan.rpo_s:
        return ""
    objective = f"the objective is {plan.rpo_s:g} s"
    if not plan.rpo_s:
        objective = "no commit may be lost"
    return (
        f". The oldest missing commit was acknowledged {reach.least_s:,.1f} s before"
        f" the loss, and {objective}"
    )


def _describe_kept(case: Case, copied: Copied) -> str:
    alarms = list_alarms(case.writer.audit or ())
    if case.manifest.is_cut:
        text = _describe_kept_after_loss(case, copied)
    elif pointed.is_to_point(case):
        text = pointed.describe_kept(copied, WHERE)
    else:
        text = _describe_kept_beside_load(copied)
    return text + headline.describe_alarms(alarms)


def _describe_kept_after_loss(case: Case, copied: Copied) -> str:
    plan, reach = case.manifest.copy, loss.measure_reach(case)
    assert plan is not None and plan.rpo_s is not None
    if not copied.missing or reach is None or reach.most_s is None:
        due = format_count(copied.due + copied.open, "acknowledged commit")
        return f"no commit was lost with the server: {WHERE} has all {due}"
    return (
        f"the recovery point objective of {plan.rpo_s:g} s was met: {WHERE} lacks"
        f" {format_count(copied.missing, 'commit')}, the oldest acknowledged at most"
        f" {format_at_most(reach.most_s)} s before the loss, and has all that came"
        " before it"
    )


def _describe_kept_beside_load(copied: Copied) -> str:
    before = copied.due - copied.by_order
    text = (
        f"every commit that was acknowledged before the copy was begun ({before:,}) is"
        f" in {WHERE}"
    )
    if meanwhile := copied.by_order + copied.open:
        kept = copied.by_order + copied.open_kept
        text += f"; of the {meanwhile:,} that came meanwhile it has "
        text += f"{kept:,}, without a gap" if kept else "none"
    return text


def _list_doubts(
    case: Case, found: Reconciliation, items: tuple[Item, ...]
) -> Iterator[str]:
    """Yield what keeps a copy without a loss from a PASS."""
    if not found.confirmed and not case.manifest.is_cut:  # an item says it then
        none = "no commit is on record from before the copy was begun. Copy it again"
        yield pointed.NOTHING_BEFORE if pointed.is_to_point(case) else none
    if found.foreign:
        rows = format_count(found.foreign, "row")
        yield f"{rows} of another run: a second dbcheck may have been running"
    for item in items:
        if _is_lacking(item):
            yield _doubt(case, item)


def _is_lacking(item: Item) -> bool:
    """Return True if *item* keeps a copy without a loss from a PASS."""
    lacks = item.required and item.status not in _ENOUGH
    return item.status is Status.CONTRADICTED or lacks


def _list_assumed(items: tuple[Item, ...]) -> Iterator[str]:
    for item in items:
        if item.status is Status.ASSUMED:
            yield f"assumed, not seen: {item.id.value} ({item.reason})"
