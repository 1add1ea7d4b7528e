"""The verdict on a restored copy: its evidence, and the commits that it must have.

No power was cut, so nothing here asks how deep a cut went.  Commits that were sent
after the copy was taken show that another server is read than the one that was copied:
the copy has none of them.
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
from dbcheck.model.verdict import Verdict, format_count
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
_NONE_AFTER = (
    "no commit was sent after it was taken: use more sessions, and copy it again"
)
_ENOUGH = (Status.PRESENT, Status.ASSUMED)


def judge_taken(case: Case) -> Item:
    """Judge whether commits went on while the copy was taken."""
    copy, copied = case.copy, case.copied
    if copy is None or copy.ended_us is None:
        return Item(
            ItemId.COPY_TAKEN, Status.ABSENT, "no copy was taken", required=True
        )
    took = f"its program took {(copy.ended_us - copy.began_us) / 1e6:,.1f} s"
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
    that follows it with a delay may not have them yet.
    """
    copied, refill = case.copied, case.after.refill
    if copied is None:
        return None
    sent = f"the {format_count(copied.after, 'commit')} sent after it was taken"
    status, reason = Status.PRESENT, f"it has none of {sent}"
    if copied.after_kept:
        status = Status.CONTRADICTED
        reason = f"it has {copied.after_kept:,} of {sent}: it is the server itself, or"
        reason += " follows it"
    elif refill is not None and not (refill.cloned or refill.unknown):
        status, reason = Status.CONTRADICTED, f"the server that was read {refill.how}"
    elif not copied.after:
        status, reason = Status.ABSENT, _NONE_AFTER
    return Item(ItemId.COPY_APART, status, reason, required=True)


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


def judge_settings(case: Case) -> Item:
    """Judge the settings of the server that was copied, as a cut would find them.

    A snapshot of storage finds them so, too: it has what was written by then.
    """
    return settings.collect_settings(case).item(kept=False)


EVIDENCE: tuple[Callable[[Case], Item | None], ...] = (
    judge_taken,
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
    items = tuple(item for each in EVIDENCE if (item := each(case)) is not None)
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
        return concluded(Verdict.INCONCLUSIVE, _doubt(other), other=True)
    if after.failure:
        return concluded(Verdict.FAIL, *_describe_failure(case))
    if found is None or copied is None:
        return concluded(Verdict.INCONCLUSIVE, "the rows of the copy were not read")
    altered = describe_earlier_alterations(found)
    if found.counts:
        lost = describe_loss(found, copied)
        lost += f"; {_OLDER}" if has_no_row(case) else ""
        return concluded(Verdict.FAIL, lost, *altered)
    doubts = [*altered, *_list_doubts(found, items)]
    if doubts:
        return concluded(Verdict.INCONCLUSIVE, *doubts)
    return concluded(Verdict.PASS, _describe_kept(case, copied), *_list_assumed(items))


def _find_other_server(items: tuple[Item, ...]) -> Item | None:
    """Return the item that shows that no copy of this server was read, or None."""
    wrong = (
        (ItemId.COPY_APART, Status.CONTRADICTED),
        (ItemId.COPY_OF_SERVER, Status.ABSENT),
    )
    return next((item for item in items if (item.id, item.status) in wrong), None)


def _doubt(item: Item) -> str:
    """Return why *item* keeps a copy from counting, then the remedy."""
    return doubt_of(item).replace("cut again", "copy it again")


def _describe_failure(case: Case) -> tuple[str, str]:
    """Return the headline for a copy that has a table that is gone or damaged."""
    acks = format_count(sum(log.acks for log in case.logs), "acknowledged commit")
    text = f"a table of this run ({acks} in all) is gone or damaged in {WHERE}"
    if case.after.missing:
        text = f"{WHERE} has not all tables of this run ({acks} in all); {_OLDER}"
    return (
        f"{text}: {case.after.failure}",
        f"{LossKind.UNRECOVERABLE.value}: {case.after.failure}",
    )


def describe_loss(found: Reconciliation, copied: Copied) -> str:
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
        text += (
            f". It must have {copied.by_order:,} of them since later commits are there,"
            " and the rest since they were acknowledged before it was begun"
        )
    return text


def _describe_kept(case: Case, copied: Copied) -> str:
    before = copied.due - copied.by_order
    text = (
        f"every commit that was acknowledged before the copy was begun ({before:,}) is"
        f" in {WHERE}"
    )
    if meanwhile := copied.by_order + copied.open:
        kept = copied.by_order + copied.open_kept
        text += f"; of the {meanwhile:,} that came meanwhile it has "
        text += f"{kept:,}, without a gap" if kept else "none"
    alarms = list_alarms(case.writer.audit or ())
    return text + headline.describe_alarms(alarms)


def _list_doubts(found: Reconciliation, items: tuple[Item, ...]) -> Iterator[str]:
    """Yield what keeps a copy without a loss from a PASS."""
    if not found.confirmed:
        yield "no commit is on record from before the copy was begun. Copy it again"
    if found.foreign:
        rows = format_count(found.foreign, "row")
        yield f"{rows} of another run: a second dbcheck may have been running"
    for item in items:
        lacks = item.required and item.status not in _ENOUGH
        if item.status is Status.CONTRADICTED or lacks:
            yield _doubt(item)


def _list_assumed(items: tuple[Item, ...]) -> Iterator[str]:
    for item in items:
        if item.status is Status.ASSUMED:
            yield f"assumed, not seen: {item.id.value} ({item.reason})"
