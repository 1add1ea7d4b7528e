"""Was the cycle a fair test?  Facts in, standings and a verdict out."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dbcheck.core.depth import Depth
from dbcheck.core.loss import LossKind
from dbcheck.core.reconcile import Reconciliation

LAST_ACK_AGE_MAX_S = 1.0
SAME, RESTORED = "same server", "not restored"  # items that a loss must not contradict


class Verdict(enum.Enum):
    """The outcome of a cycle."""

    PASS = "PASS"
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the worst of *verdicts*: FAIL, then INCONCLUSIVE, then PASS."""
    order = (Verdict.PASS, Verdict.INCONCLUSIVE, Verdict.FAIL)
    return max(verdicts, key=order.index)


class Standing(enum.Enum):
    """How an item of evidence stands."""

    PRESENT = "present"
    ABSENT = "absent"
    CONTRADICTED = "contradicted"
    NOT_OBSERVABLE = "not observable"


@dataclass(frozen=True, slots=True)
class Item:
    """One item of evidence.

    required: a PASS needs it present.  reason: what was seen, in words.
    """

    name: str
    standing: Standing
    reason: str
    required: bool


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict and what it rests on.

    reasons: sentences, the most important first.
    """

    verdict: Verdict
    reasons: tuple[str, ...]
    items: tuple[Item, ...]


def restarted(
    before_us: int, before_error_us: int, after_us: int, after_error_us: int
) -> Item:
    """Judge whether the server process is another one than before the cut.

    The times are the server's own clock when its process started, with errors.
    """
    apart_us = after_us - before_us
    if abs(apart_us) > before_error_us + after_error_us:
        said = f"it started {apart_us / 1e6:.1f} s after the one that took the load"
        if apart_us < 0:
            said = "another process answers; the server's clock went back meanwhile"
        return Item("server restarted", Standing.PRESENT, said, True)
    return Item(
        "server restarted",
        Standing.CONTRADICTED,
        "its start time did not change: the power of this server was not cut",
        True,
    )


def same_server(before: Mapping[str, str], after: Mapping[str, str]) -> Item:
    """Judge whether the server that came back is the one that took the load."""
    shared = sorted(before.keys() & after.keys())
    other = [name for name in shared if before[name] != after[name]]
    if other:
        name = other[0]
        return Item(
            SAME,
            Standing.CONTRADICTED,
            f"{name} was {before[name]} and is {after[name]}: this is another one",
            True,
        )
    if not shared:
        return Item(SAME, Standing.NOT_OBSERVABLE, "it names no identity", False)
    return Item(SAME, Standing.PRESENT, f"same {', '.join(shared)}", True)


def same_settings(
    before: Mapping[str, str], *later: tuple[str, Mapping[str, str]]
) -> Item:
    """Judge whether the durability settings stayed as they were.

    later: (when, settings) for each time that they were read again.
    """
    name = "same settings"
    compared: list[str] = []
    for when, settings in later:
        shared = sorted(before.keys() & settings.keys())
        for setting in shared:
            then, now = before[setting], settings[setting]
            if then != now:
                said = f"{setting} was {then}, and {now} {when}"
                return Item(name, Standing.CONTRADICTED, said, True)
        compared += [f"{len(shared)} compared {when}"] if shared else []
    if not compared:
        return Item(name, Standing.NOT_OBSERVABLE, "none was read again", True)
    return Item(name, Standing.PRESENT, ", ".join(compared), True)


@dataclass(frozen=True, slots=True)
class AtTheCut:
    """The load at the moment of the cut; times on the client's clock, microseconds.

    last_ack_us: the last ack that was received, None if there was none.
    cut_us:      when the power went, as well as it is known; None if not at all.
    asked:       the power was asked to go before the server went.
    gone:        "broken", "silent"; "stalled" if it then went on answering, "unseen"
                 if the client stopped looking, "" if it never went.
    in_flight:   sessions that waited for a reply when the server went; in lockstep or
                 under a rate also for their turn, within a second of an ack.
    farewells:   what the server said to sessions that it ended itself.
    """

    last_ack_us: int | None
    cut_us: int | None
    asked: bool
    gone: str
    in_flight: int
    farewells: Sequence[str] = ()


_NOT_GONE = {
    "": (Standing.CONTRADICTED, "the server went on answering: no cut"),
    "stalled": (Standing.CONTRADICTED, "the server stalled, and then went on: no cut"),
    "unseen": (
        Standing.NOT_OBSERVABLE,
        "the witness failed before the server was seen to go",
    ),
}


def at_risk(load: AtTheCut | None) -> Item:
    """Judge whether commits were under way when the power went."""
    name = "load at the cut"
    if load is None:
        return Item(
            name,
            Standing.NOT_OBSERVABLE,
            "the client did not live to see the cut, so the load may have been over",
            True,
        )
    if load.last_ack_us is None:
        return Item(name, Standing.ABSENT, "not one commit was acked", True)
    if odd := _NOT_GONE.get(load.gone):
        return Item(name, *odd, True)
    if not load.asked:
        said = "the server went before its power was asked to go"
        return Item(name, Standing.ABSENT, said, True)
    if not load.in_flight:
        return Item(name, Standing.ABSENT, "no session waited for a reply: idle", True)
    if load.cut_us is None:
        return Item(
            name, Standing.NOT_OBSERVABLE, "the moment of the cut is not known", True
        )
    age_s = max(0, load.cut_us - load.last_ack_us) / 1e6
    said = f"last ack {age_s:.3f} s before the cut, {load.in_flight} sessions in flight"
    if age_s >= LAST_ACK_AGE_MAX_S:
        return Item(name, Standing.ABSENT, f"{said}: idle or stalled", True)
    return Item(name, Standing.PRESENT, said, True)


def held_at_the_cut(newest_us: int | None, cut_us: int | None) -> Item:
    """Judge whether the witness holds acks that were young when the power went.

    newest_us: when the newest ack of the load came that it holds, None without any;
    cut_us: as AtTheCut.  Where the witness lagged when the power went and never came
    back, all that it holds may be old, and nothing of it was at risk.
    """
    name = "witness at the cut"
    if newest_us is None:
        return Item(name, Standing.ABSENT, "it holds not one ack of the load", True)
    if cut_us is None:
        said = "the moment of the cut is not known"
        return Item(name, Standing.NOT_OBSERVABLE, said, True)
    age_s = max(0, cut_us - newest_us) / 1e6
    said = f"the newest ack that it holds came {age_s:.3f} s before the cut"
    if age_s >= LAST_ACK_AGE_MAX_S:
        return Item(name, Standing.ABSENT, f"{said}: it lagged", True)
    return Item(name, Standing.PRESENT, said, True)


def without_power(
    meant_s: float | None, off_s: float | None, depth: Depth | None
) -> Item | None:
    """Judge whether the power was off for long enough, in seconds.

    meant_s: how long the switch meant to keep it off; None, and there is no item, if
    it keeps nothing off.  off_s: how long it was off, None if nobody measured that.
    depth: how deep the cut went, None if that was not measured.
    Supplies hold a charge for seconds: a drive's cache whose rail never fell cannot
    lose, and the cut would say nothing of the drive.
    """
    if meant_s is None:
        return None
    name = "time without power"
    if depth is Depth.DRIVE:
        said = "the drive's own cache lost its power, however long it was off"
        return Item(name, Standing.PRESENT, said, True)
    if off_s is not None and off_s >= meant_s:
        said = f"off for {off_s:.2f} s, {meant_s:g} s or more as was meant"
        return Item(name, Standing.PRESENT, said, True)
    said = f"nobody saw it stay off for {meant_s:g} s"
    if off_s is not None:
        said = f"it was back after {off_s:.2f} s, not {meant_s:g} s"
    said += ": a drive's cache may have kept its charge; cut again, and let it end"
    return Item(name, Standing.NOT_OBSERVABLE, said, True)


def since_checkpoint(
    begun: tuple[int, int], before: tuple[int, int], acked: int
) -> Item:
    """Judge whether something was at risk in the server's log alone.

    begun, before: bytes (written, checkpoint) of the log when the load began and just
    before the cut.  acked: acks of the load.
    """
    name = "since the checkpoint"
    size = before[0] - before[1]
    said = f"{size:,} bytes of log just before the cut"
    if size <= 0:
        return Item(name, Standing.ABSENT, f"{said}: all was checkpointed", False)
    if begun[1] == before[1]:
        said += f", with all {acked:,} acks of the load"
    return Item(name, Standing.PRESENT, said, False)


def not_shut_down(load: AtTheCut | None, canary: bool | None, exact: bool) -> Item:
    """Judge whether the server ended without an orderly shutdown.

    canary: whether the row that recovery from a crash removes was still there, None
            if nobody knows.
    exact:  the switch itself saw the power go, or the server's log tells of a crash.
    """
    name = "not shut down"
    if load is not None and load.farewells:
        said = f"it told a session {load.farewells[0]!r}: a shutdown, not a cut"
        return Item(name, Standing.CONTRADICTED, said, True)
    if canary is True:
        said = "recovery left the canary alone: it was shut down, not cut"
        return Item(name, Standing.CONTRADICTED, said, True)
    if canary is False:
        said = "recovery from a crash removed the canary"
        return Item(name, Standing.PRESENT, said, True)
    if exact:
        said = "the switch, or the server's own log, tells of a cut"
        return Item(name, Standing.PRESENT, said, True)
    if load is not None and load.gone == "silent":
        said = "it fell silent; a shutdown closes its connections"
        return Item(name, Standing.PRESENT, said, True)
    return Item(
        name,
        Standing.NOT_OBSERVABLE,
        "its connections were closed, as a shutdown does; a power cut leaves silence",
        True,
    )


def stranger(items: Sequence[Item]) -> Item | None:
    """Return the item that says that other data answered, None if none does."""
    for item in items:
        if item.name in (SAME, RESTORED) and item.standing is Standing.CONTRADICTED:
            return item
    return None


def all_gone(found: Reconciliation) -> bool:
    """Say whether nothing of this run is there, nor what it began with."""
    missing = {LossKind.MISSING_TAIL, LossKind.MISSING_HOLE}
    some = found.kept or found.recovered or found.unconfirmed
    return not some and found.losses.counts.keys() <= missing


def _restored(items: Sequence[Item], explained: bool) -> str:
    """Return why the loss of all that a run wrote says nothing, "" if it does.

    Its first rows are committed, and checkpointed, before the load begins.
    """
    known = any(i.name == RESTORED and i.standing is Standing.PRESENT for i in items)
    if known or explained:
        return ""
    return (
        "nothing of this run is there, not even the rows from before the load:"
        " an older copy was restored, or a drive lost all it was given; to tell, name"
        " the host (--target-host)"
    )


def judge(
    found: Reconciliation | None,
    items: Sequence[Item],
    depth: str = "",
    *,
    explained: bool = False,
) -> Judgement:
    """Return the verdict on a cycle whose table was read to its end.

    found: None only if another server answered, whose table says nothing.
    depth: how deep the cut went, by name, "" if it was not measured.
    explained: a setting was in force under which commits are lost.
    A loss is a FAIL.  Without one, each required item must be present, and none
    contradicted, for a PASS.
    """
    other = stranger(items)
    if other is not None or found is None:
        reason = other.reason if other else "the table was not read"
        return Judgement(Verdict.INCONCLUSIVE, (reason,), tuple(items))
    if found.counts and all_gone(found) and (doubt := _restored(items, explained)):
        return Judgement(Verdict.INCONCLUSIVE, (doubt,), tuple(items))
    if found.counts:
        said = ", ".join(f"{rows:,} {kind}" for kind, rows in found.counts.items())
        reason = f"{said} of {found.confirmed:,} confirmed commits"
        return Judgement(Verdict.FAIL, (reason,), tuple(items))
    doubts = tuple(
        f"{item.name} {item.standing.value}: {item.reason}"
        for item in items
        if item.standing is Standing.CONTRADICTED
        or (item.required and item.standing is not Standing.PRESENT)
    )
    if found.foreign:
        doubts = (f"{found.foreign:,} rows of another run: two at once?", *doubts)
    if not found.confirmed:
        doubts = ("the witness confirmed no commit", *doubts)
    if doubts:
        return Judgement(Verdict.INCONCLUSIVE, doubts, tuple(items))
    reason = f"all {found.confirmed:,} confirmed commits survived this cut"
    if depth:
        reason += f" at {depth} depth"
    return Judgement(Verdict.PASS, (reason,), tuple(items))


def judge_unrecoverable(
    reason: str,
    items: Sequence[Item],
    *,
    missing: bool,
    explained: bool,
    uncut: bool = False,
) -> Judgement:
    """Return the verdict on a server, or a table, that did not come back.

    missing: the server has no such table, and nothing else is wrong with it.
    uncut: it is the server that is gone, and its power was not cut: whoever ended it
    did not start it again, so its data were not asked.
    """
    if uncut:
        doubt = f"the server is gone, and no cut of its power is on record: {reason}"
        return Judgement(Verdict.INCONCLUSIVE, (doubt,), tuple(items))
    if missing and (doubt := _restored(items, explained)):
        return Judgement(Verdict.INCONCLUSIVE, (doubt,), tuple(items))
    return Judgement(Verdict.FAIL, (f"unrecoverable: {reason}",), tuple(items))
