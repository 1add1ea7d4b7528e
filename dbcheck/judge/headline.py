"""The first sentence of a verdict: how many commits were lost, or survived, and what.

No kind of loss is named here: the report lists and explains each below it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dbcheck.judge.item import Item, ItemId, Status
from dbcheck.model.audited import Flag, format_alarm_counts
from dbcheck.model.cut import CutClass
from dbcheck.model.depth import Depth
from dbcheck.model.verdict import format_count
from dbcheck.rows.loss import LossKind, Trait, list_codes, number_operations
from dbcheck.rows.reconcile import Reconciliation
from dbcheck.rows.survivors import find_distinct

# Contradicted, they show that what ended the server may not have been the cut.
_OF_THE_CUT = (
    ItemId.LOAD,
    ItemId.NOT_SHUT_DOWN,
    ItemId.HOST_DOWN,
    ItemId.DRIVES_GONE,
    ItemId.POWER_CYCLES,
    ItemId.RESTARTED,
    ItemId.NODES_CUT,
)
_HEAD, _TAIL = 90, 300  # characters of a long reason
_UNRECORDED = "a stop for which no power cut is on record"
# Items that a PASS does not require, and that it names where they stand so.
_LEAVES_OPEN = {
    ItemId.PLACES: (Status.NOT_OBSERVABLE,),
    ItemId.AGREE: (Status.NOT_OBSERVABLE, Status.ABSENT),
}


@dataclass(frozen=True, slots=True)
class Survived:
    """The failure that the commits of a cluster survived, and the node that took over.

    what: the failure, in words.  by: name of the node, "" if none took over.
    """

    what: str
    by: str


def cut_named(
    cut: CutClass | None,
    depth: Depth | None,
    items: Sequence[Item],
    survived: Survived | None = None,
    *,
    never_cut: bool = False,
) -> str:
    """Return the name of a cut, with its depth, to follow "survived" or "in".

    cut: None if the node that was read kept its power.  depth: None if not measured.
    survived: the failure of a cluster, None for a single server.
    never_cut: True if the server ended although its power was not cut.
    """
    if never_cut:
        return _UNRECORDED
    named = (
        survived.what if survived else f"this {(cut or CutClass.UNKNOWN).description}"
    )
    if any(item.id is ItemId.DRIVES_GONE for item in items):
        named += " alone" if cut is CutClass.LAB_DRIVE else " of the drives alone"
    took = cut.took(depth) if cut else ""
    named += f" ({took})" if took else ""
    contradicted = [one for one in items if one.status is Status.CONTRADICTED]
    if any(one.id in _OF_THE_CUT for one in contradicted):
        named += ", which the evidence contradicts"
    return named


def lost(
    found: Reconciliation, where: str, survived: Survived | None, by_clients: int
) -> str:
    """Return the headline of a FAIL: the commits lost, then all other losses, counted.

    where: the cut, as cut_named() names it.  survived: of a cluster.  by_clients: how
    many of the losses clients of the server may have caused.
    """
    who = "the cluster" if survived else "the server"
    commits, how = count_commits_hit(found)
    parts = [*list_losses_beside(found)]
    if commits:
        of = f"{commits:,} of the {format_count(found.confirmed, 'commit')}"
        parts.insert(0, f"{who} {how} {of} that it had acknowledged, in {where}")
    else:
        parts = [f"{', and '.join(parts)}, in {where}", _count_intact(found)]
    if survived and survived.by:
        parts.append(f"{survived.by} took over")
    if by_clients:
        parts.append(f"other clients may have caused {by_clients:,} of these losses")
    return "; ".join(parts)


def differing(found: Reconciliation) -> str:
    """Return the same where nothing shows that the server lost it in the cut."""
    commits, how = count_commits_hit(found)
    acked = format_count(found.confirmed, "acknowledged commit")
    own = f"{commits:,} of the {acked} {_was(commits)} {how}"
    return "; ".join(
        (own if commits else _count_intact(found), *list_losses_beside(found))
    )


def _count_intact(found: Reconciliation) -> str:
    acked = format_count(found.confirmed, "acknowledged commit")
    return f"all {acked} of this cycle are intact"


def count_commits_hit(found: Reconciliation) -> tuple[int, str]:
    """Return the number of acknowledged commits that are not intact, and a verb.

    The verb is "lost", "lost or damaged" or "damaged".
    """
    acked = found.losses_of_commits
    is_gone = np.isin(acked["kind"], list_codes(Trait.GONE))
    every = len(find_distinct(number_operations(acked)))
    gone = len(find_distinct(number_operations(acked[is_gone])))
    how = ("lost" if gone == every else "lost or damaged") if gone else "damaged"
    return every, how


def list_losses_beside(found: Reconciliation) -> Iterator[str]:
    """Yield what is wrong although all acknowledged commits may be intact."""
    gone, altered = sum(found.earlier_lost.values()), found.earlier_damaged
    for rows, what in ((gone, "lost"), (sum(altered.values()), "damaged")):
        if rows:
            yield f"{_rows(rows)} of earlier cycles {_was(rows)} {what}"
    beside = found.counts_beside_commits
    if rows := beside.pop(LossKind.UNEXPECTED.value, 0):
        yield f"{_rows(rows)} {_was(rows)} there that this run cannot have written"
    if rows := beside.pop(LossKind.DUPLICATE.value, 0):
        yield f"{_rows(rows)} {_was(rows)} there once more than written"
    if rows := sum(beside.values()):
        unknown = "of commits whose acknowledgement the witness does not hold"
        yield f"{_rows(rows)} {unknown} {_was(rows)} wrong"


def _rows(rows: int) -> str:
    return format_count(rows, "row")


def _was(rows: int) -> str:
    return "was" if rows == 1 else "were"


def not_back(reason: str, where: str, acks: int, *, answers: bool) -> str:
    """Return that the server did not come back from a cut, or a table, and why.

    where: see cut_named().  acks: that the witness holds.  answers: it takes queries.
    """
    acked = format_count(acks, "acknowledged commit")
    why = _shortened(" ".join(line.strip(" |") for line in reason.split("\n")))
    if answers:
        return f"a table of this run ({acked}) is gone or damaged after {where}: {why}"
    return f"the server did not come back after {where}, nor did its {acked}: {why}"


def _shortened(text: str) -> str:
    """Return a long text without its middle: what was seen first, the log's words."""
    if len(text) <= _HEAD + _TAIL:
        return text
    return f"{text[:_HEAD].rpartition(' ')[0]} ... {text[-_TAIL:].partition(' ')[2]}"


def but(found: Reconciliation | None, where: str, reason: str) -> str:
    """Return the headline of a cut after which something other than a row is wrong.

    where: the cut, as cut_named() names it.  reason: the fault.
    """
    if found is None or found.counts:
        return f"after {where} {reason}"
    acked = format_count(found.confirmed, "acknowledged commit")
    return f"all {acked} were read after {where}, but {reason}"


def kept(
    found: Reconciliation,
    items: Sequence[Item],
    where: str,
    survived: Survived | None,
    alarms: Sequence[Flag],
) -> str:
    """Return the headline of a PASS, with the items of evidence that it only assumes.

    where: the cut, as cut_named() names it.  alarms: unsafe settings that the audit
    before the cut found.
    """
    text = (
        f"all {format_count(found.confirmed, 'acknowledged commit')} survived {where}"
    )
    if survived and survived.by:
        text += f"; {survived.by} took over"
    assumed = _names(item for item in items if item.status is Status.ASSUMED)
    unseen = _names(item for item in items if leaves_open(item))
    text += f"; assumed, not seen: {assumed}" if assumed else ""
    text += f"; not checked: {unseen}" if unseen else ""
    return text + describe_alarms(alarms)


def describe_alarms(alarms: Sequence[Flag]) -> str:
    """Return the end of a PASS's headline that names unsafe settings; "" if none."""
    if not alarms:
        return ""
    facts = (f"{flag.fact} = {flag.value}" for flag in alarms)
    found_unsafe = f"{format_alarm_counts(alarms)}: {', '.join(dict.fromkeys(facts))}"
    return f"; but the audit before it found {found_unsafe}"


def leaves_open(item: Item) -> bool:
    """Return True if a PASS has to name *item*, which it does not require."""
    return item.status in _LEAVES_OPEN.get(item.id, ())


def _names(items: Iterable[Item]) -> str:
    return ", ".join(item.id.value for item in items)
