"""Sentences of a report on a restored copy: of a load, after a loss, to a point."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dbcheck.judge.result import CopyResult, RunResult
from dbcheck.model.verdict import Verdict, format_at_most, format_count

LIMITS = (
    "Only dbcheck's own tables were read: not your data, accounts or settings.",
    "It holds for this way to copy and to restore, under this load. Another program,"
    " storage or setting needs a check of its own.",
)
_NOT_FINAL = (
    "This is not final. Once the copy can be restored and its server takes queries,"
    " run: {command}"
)
_FROM_START = "from the start of its program to its end"


@dataclass(frozen=True, slots=True)
class _Words:
    """What is said of one kind of copy.

    look:   where the cause of a loss may lie that nothing read explains.
    passed, failed: how much the one copy proves.
    again, mend: what to do next, of which *command* is a part.
    sides:  of a moment that came before the copy, or its point, and of a later one.
    """

    scope: str
    look: str
    passed: str
    failed: str
    again: str
    mend: str
    command: str
    sides: tuple[str, str] = ("before the copy", "into the copy")


_BESIDE_LOAD = _Words(
    scope="Scope: one copy was taken under load, restored and read. No power was cut,"
    " so this says nothing about power cuts.",
    look="Files that are copied while the server writes are no copy of one moment,"
    " unless the server's own backup mode or one snapshot of all its volumes makes them"
    " one. See also whether the restore applied the log to its end, and whether it took"
    " the copy of this run.",
    passed="This copy is whole: copying and restoring worked, under this load. A fault"
    " that shows only now and then takes many tries to see.",
    failed="Whoever restores such a copy loses commits, or gets a state that the server"
    " never had.",
    again="Do it again after each change to how you copy and restore, and to the load:"
    " {command}.",
    mend="Do not rely on this backup. Find the cause below and fix it, then copy again:"
    " {command}. Keep this run: it is the evidence.",
    command="dbcheck snapshot",
)
_AFTER_LOSS = _Words(
    scope="Scope: the power of the server was cut once under load, and what had been"
    " shipped elsewhere by then was restored and read. This says nothing about the rows"
    " on the server itself: for these, leave --restore out.",
    look="See whether the log is shipped as often as the objective asks"
    " (archive_timeout, a receiver that streams), whether each segment is in the"
    " archive, and whether the restore applied the log to its end.",
    passed="This restore kept the objective, under this load. A fault that shows only"
    " now and then takes many tries to see.",
    failed="Whoever loses this server loses more commits than the objective allows, or"
    " gets a state that it never had.",
    again="Do it again after each change to how the log is shipped and restored, and to"
    " the load: {command}.",
    mend="Do not rely on this archive. Find the cause below and fix it, then run it"
    " again: {command}. Keep this run: it is the evidence.",
    command="dbcheck run NAME --restore",
)
_TO_POINT = _Words(
    scope="Scope: a point of the server's log was read under load, and the archive was"
    " restored to it and read. No power was cut, so this says nothing about power"
    " cuts.",
    look="See which target the restore was given, whether each segment up to it is in"
    " the archive, and whether it began at a base backup from before it.",
    passed="This restore ended at its point: it has what was committed by then, and"
    " nothing from after it. A fault that shows only now and then takes many tries to"
    " see.",
    failed="Whoever restores to a point like this loses commits from before it, or gets"
    " a state that the server never had.",
    again="Do it again after each change to how the log is shipped and restored, and to"
    " the load: {command}.",
    mend="Do not rely on this archive. Find the cause below and fix it, then run it"
    " again: {command}. Keep this run: it is the evidence.",
    command="dbcheck snapshot",
    sides=("before the point", "after the point"),
)
_IN_A_LAB = "dbcheck lab run --restore METHOD"


def _choose_words(result: RunResult) -> _Words:
    if result.copy is not None and result.copy.point_kind is not None:
        return _TO_POINT
    return _AFTER_LOSS if result.is_cut else _BESIDE_LOAD


def describe_scope(result: RunResult) -> str:
    """Return the scope of the run."""
    return _choose_words(result).scope


def say_where_to_look(result: RunResult) -> str:
    """Return where the cause of a loss may lie that nothing read explains."""
    return _choose_words(result).look


def prove(result: RunResult) -> str:
    """Return how much the one copy proves."""
    words = _choose_words(result)
    proof = {Verdict.PASS: words.passed, Verdict.FAIL: words.failed}
    return proof.get(result.verdict, "")


def choose_action(result: RunResult, reconcile: str) -> str:
    """Return what to do next.  reconcile: the command that continues the run."""
    words = _choose_words(result)
    command = _IN_A_LAB if result.lab else words.command
    if not result.final:
        return _NOT_FINAL.format(command=reconcile)
    if result.verdict is Verdict.FAIL:
        return words.mend.format(command=command)
    if result.verdict is Verdict.INCONCLUSIVE:
        return "Fix the cause, then run it again."
    return words.again.format(command=command)


def list_facts(copy: CopyResult) -> Iterator[tuple[str, str]]:
    """Yield the name and the value of what is known of a copy."""
    if copy.taken_s is not None:
        yield "copy", f"taken in {copy.taken_s:,.1f} s"
    if copy.point is not None and copy.read_s is not None:
        read = f"{copy.point_kind} {copy.point}, read in {copy.read_s * 1e3:,.1f} ms"
        yield "point", read
    if copy.restore_s is not None:
        yield "restored", f"in {copy.restore_s:,.1f} s, at {copy.target}"
    if copy.due is None or copy.due_kept is None or copy.open is None:
        return
    if copy.rpo_s is not None:
        yield from _list_facts_of_loss(copy)
        return
    due = format_count(copy.due, "commit")
    early = format_count(copy.due - (copy.by_order or 0), "commit")
    text = f"{due}, of which {_count(copy.due_kept)} there and intact"
    begun, taken = "the copy was begun", "it was taken"
    if copy.point is not None:
        begun, taken = "the point was read", "it was read"
    if copy.by_order:
        text += (
            f": {early} from before {begun}, and {copy.by_order:,} that came"
            " before a commit that is there"
        )
    yield "must be there", text
    came = format_count(copy.open, "more commit")
    kept = _count(copy.open_kept or 0)
    yield "may be there", f"{came} from while {taken}, of which {kept} there"
    sent = format_count(copy.after or 0, "commit")
    kept = _count(copy.after_kept or 0)
    yield "cannot be there", f"{sent} sent after {taken}, of which {kept} there"


def _list_facts_of_loss(copy: CopyResult) -> Iterator[tuple[str, str]]:
    """Yield what is known of a restore after the loss of the server."""
    if copy.due is None or copy.due_kept is None or copy.rpo_s is None:
        return
    yield "objective", _describe_objective(copy.rpo_s)
    due = format_count(copy.due, "commit")
    yield "must be there", f"{due}, of which {_count(copy.due_kept)} there and intact"
    came = format_count(copy.open or 0, "more commit")
    kept = _count(copy.open_kept or 0)
    if copy.open:
        yield "may be missing", f"{came}, of which {kept} there"
    yield "lost", describe_reach(copy)


def _describe_objective(rpo_s: float) -> str:
    return f"lose at most {rpo_s:g} s" if rpo_s else "lose no acknowledged commit"


def describe_reach(copy: CopyResult) -> str:
    """Return how many commits were lost with the server, and from how long before."""
    if not copy.missing:
        return "no commit"
    commits = format_count(copy.missing, "commit")
    if copy.reached_s is None:
        return commits
    least, most = f"{copy.reached_s[0]:,.1f}", format_at_most(copy.reached_s[1])
    span = f"{most} s" if least == most else f"{least} to {most} s"
    return f"{commits}, the oldest acknowledged {span} before the loss"


def _count(commits: int) -> str:
    """Return a number with its verb."""
    if not commits:
        return "none is"
    return "1 is" if commits == 1 else f"{commits:,} are"


def list_tiles(copy: CopyResult) -> Iterator[tuple[str, str, str]]:
    """Yield name, value and note of the figures that are read at a glance."""
    if copy.due is not None and copy.due_kept is not None:
        of = f"of {format_count(copy.due, 'commit')} that must be there"
        yield "commits lost", f"{copy.due - copy.due_kept:,}", of
    if copy.rpo_s is not None and copy.missing and copy.reached_s is not None:
        note = f"before the loss; the objective is to {_describe_objective(copy.rpo_s)}"
        yield "oldest lost commit", f"{format_at_most(copy.reached_s[1])} s", note
    if copy.point is not None:
        kept, of = copy.after_kept or 0, f"of {copy.after or 0:,} sent after the point"
        yield "commits from after it", f"{kept:,}", of
    for name, seconds in (("copy", copy.taken_s), ("restore", copy.restore_s)):
        if seconds is not None:
            yield name, f"{seconds:,.1f} s", _FROM_START


def describe_ages(
    result: RunResult, first_s: float | None, last_s: float | None
) -> str:
    """Return when losses were acknowledged, as seen from when the copy was begun.

    Of a restore to a point it is when the point was read.  first_s, last_s: seconds
    before it, less than 0 after it; None if not known.
    """
    sides = _choose_words(result).sides
    if first_s is None or last_s is None:
        return "-"
    first, last = (f"{abs(age):.3f}" for age in (first_s, last_s))
    first_side, last_side = (sides[age < 0] for age in (first_s, last_s))
    if first_side != last_side:
        return f"{first} s {first_side} - {last} s {last_side}"
    span = first if first == last else f"{first} - {last}"
    return f"{span} s {first_side}"
