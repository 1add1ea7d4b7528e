"""Was the cycle a fair test?  Facts in, standings and a verdict out."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dbcheck.core.cutclass import CutClass
from dbcheck.core.depth import Depth
from dbcheck.core.loss import LossKind
from dbcheck.core.reconcile import Reconciliation

LAST_ACK_AGE_MAX_S = 1.0
PLACES = "places"
UNSAFE_SHUTDOWNS = "unsafe shutdowns"
SAME, RESTORED = "same server", "not restored"  # items that a loss must not contradict
TABLE = "same table"


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
    """How an item of evidence stands.

    ASSUMED: it rests on what a human was asked to do or declared, or on what something
    else would explain as well but nothing contradicts; a PASS names it.
    """

    PRESENT = "present"
    ASSUMED = "assumed"
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
    other_data: other data may have been read than those that the load was written to.
    """

    verdict: Verdict
    reasons: tuple[str, ...]
    items: tuple[Item, ...]
    other_data: bool = False


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


# What names the data themselves (see ServerFacts.identity), and how to read it.
_NAMES_OF_DATA = {
    "system_identifier": "on PostgreSQL, let the account execute pg_control_system(), "
    "pg_current_wal_lsn() and pg_walfile_name()",
    "server_uuid": "on MySQL, SHOW VARIABLES shows server_uuid",
    "dbcheck.identity": "on MariaDB, let the account create and select from the table "
    "identity in dbcheck's database",
}


def same_server(before: Mapping[str, str], after: Mapping[str, str]) -> Item:
    """Judge whether the server that came back is the one that took the load."""
    shared = sorted(before.keys() & after.keys())
    other = [name for name in shared if before[name] != after[name]]
    if other:
        of_data = [name for name in other if name in _NAMES_OF_DATA]
        name = "timeline" if "timeline" in other else (of_data or other)[0]
        said = f"{name} was {before[name]} and is {after[name]}"
        cluster = "system_identifier"
        if name == "timeline" and before.get(cluster) == after.get(cluster):
            said += (
                ": a failover, a standby was promoted in place of the one that was cut"
            )
        elif of_data or name == "timeline":
            said += ": this is another one"
        else:
            said += ": it was changed, or this is another one"
        return Item(SAME, Standing.CONTRADICTED, said, True)
    named = before.keys() & _NAMES_OF_DATA.keys()
    if unread := sorted(named - after.keys()):
        said = f"{unread[0]} was read before the cut and could not be read after it"
        said += f": {_NAMES_OF_DATA[unread[0]]}"
        return Item(SAME, Standing.NOT_OBSERVABLE, said, True)
    if not named:
        hints = "; ".join(_NAMES_OF_DATA.values())
        said = f"nothing that names its data was read before the cut: {hints}"
        return Item(SAME, Standing.NOT_OBSERVABLE, said, True)
    return Item(SAME, Standing.PRESENT, f"same {', '.join(shared)}", True)


def difference(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Return why another server answers, "" if nothing shows that."""
    item = same_server(before, after)
    return item.reason if item.standing is Standing.CONTRADICTED else ""


def same_settings(
    before: Mapping[str, str], *later: tuple[str, Mapping[str, str]]
) -> Item:
    """Judge whether the durability settings stayed as they were.

    later: (when, settings) for each time that they were read again.
    """
    name = "same settings"
    compared: list[str] = []
    unread = [when for when, settings in later if before and not settings]
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
    if unread:
        said = f"they could not be read {' and '.join(unread)}"
        return Item(name, Standing.NOT_OBSERVABLE, said, True)
    return Item(name, Standing.PRESENT, ", ".join(compared), True)


@dataclass(frozen=True, slots=True)
class AtTheCut:
    """The load at the moment of the cut; times on the client's clock, microseconds.

    last_ack_us: the last ack that was received, None if there was none.
    cut_us:      when the power went, as well as it is known; None if not at all.
    asked:       the power was to be cut before the server went.
    gone:        "broken", "silent"; "stalled" if it then went on answering, "unseen"
                 if the client stopped looking, "" if it never went.
    in_flight:   sessions that waited for a reply when the server went; in lockstep or
                 under a rate also for their turn, within a second of an ack.
    farewells:   what the server said to sessions that it ended itself.
    window_full: as many acks waited for the witness as may, so that no session sent.
    latest_us:   when a switch had surely cut, None if cut_us is exact or by hand.
    by_hand:     a human cut, so that its moment is at best assumed.
    undated:     why the moment of the cut is not known, "" if it is known or assumed.
    wrote_us:    when the host surely still wrote, None if nothing shows that.
    """

    last_ack_us: int | None
    cut_us: int | None
    asked: bool
    gone: str
    in_flight: int
    farewells: Sequence[str] = ()
    latest_us: int | None = None
    by_hand: bool = False
    undated: str = ""
    window_full: bool = False
    wrote_us: int | None = None


_ENOUGH = (Standing.PRESENT, Standing.ASSUMED)  # for a PASS
_NOT_GONE = {
    "": (Standing.CONTRADICTED, "the server went on answering: no cut"),
    "stalled": (Standing.CONTRADICTED, "the server stalled, and then went on: no cut"),
    "unseen": (
        Standing.NOT_OBSERVABLE,
        "the witness or the switch failed before the server was seen to go",
    ),
}


_LOAD = "load at the cut"


def at_risk(load: AtTheCut | None) -> Item:
    """Judge whether commits were under way when the power went."""
    name = _LOAD
    if load is None:
        return Item(
            name,
            Standing.NOT_OBSERVABLE,
            "the client was lost before the cut, so the load may have been over",
            True,
        )
    if load.last_ack_us is None:
        return Item(name, Standing.ABSENT, "not one commit was acked", True)
    if odd := _NOT_GONE.get(load.gone):
        return Item(name, *odd, True)
    if not load.asked:
        said = "the server stopped before its power was cut"
        return Item(name, Standing.ABSENT, said, True)
    if not load.in_flight:
        why = "the witness lagged and held them back" if load.window_full else "idle"
        said = f"no session waited for a reply: {why}"
        return Item(name, Standing.ABSENT, said, True)
    if load.cut_us is None:
        said = load.undated or "the moment of the cut is not known"
        return Item(name, Standing.NOT_OBSERVABLE, said, True)
    return _by_the_moment(load, load.last_ack_us, load.cut_us)


def _by_the_moment(load: AtTheCut, last_ack_us: int, cut_us: int) -> Item:
    """Judge by when the power went, and how well that is known."""
    name = _LOAD
    age_s = max(0, cut_us - last_ack_us) / 1e6
    at_work = f"{load.in_flight} sessions in flight"
    said = f"last ack {age_s:.3f} s before the cut, {at_work}"
    if age_s >= LAST_ACK_AGE_MAX_S:
        return Item(name, Standing.ABSENT, f"{said}: idle or stalled", True)
    outlived_s = ((load.wrote_us or last_ack_us) - last_ack_us) / 1e6
    if outlived_s >= LAST_ACK_AGE_MAX_S:
        said = (
            f"the host wrote on for at least {outlived_s:.1f} s after the last ack, as "
            "its canaries show: the network or the server failed first and the power "
            "went later, when the drives had had time to write; cut again"
        )
        return Item(name, Standing.ABSENT, said, True)
    if load.by_hand:
        said = (
            f"{at_work}; when the power was cut by hand was not seen, so it is taken "
            "to be the moment at which the server was last heard, or its host, "
            f"{age_s:.3f} s after the last ack"
        )
        return Item(name, Standing.ASSUMED, said, True)
    latest_s = ((load.latest_us or last_ack_us) - last_ack_us) / 1e6
    if latest_s >= LAST_ACK_AGE_MAX_S:
        said = (
            f"{at_work}; the switch reported its cut {latest_s:.1f} s after the last "
            "ack, so the power is taken to have gone when the server fell silent, "
            f"{age_s:.3f} s after that ack"
        )
        return Item(name, Standing.ASSUMED, said, True)
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


def came_back(failed_before: str) -> tuple[Item, ...]:
    """Say that a server took queries only once it was repaired, () if it did before.

    failed_before: why it had not come back at an earlier look, "" if it had.
    """
    if not failed_before:
        return ()
    said = (
        f"the server did not come back after the cut ({failed_before}), and took"
        " queries only later; a PASS needs one that comes back by itself"
    )
    return (Item("came back", Standing.CONTRADICTED, said, True),)


def class_of_cut(cut: CutClass, depth: Depth | None, *, assumed: bool) -> Item | None:
    """Say that nobody declared what a human cut, None where nothing rests on that.

    depth: how deep the cut was seen to go, None if that was not measured.
    """
    if not assumed or depth is Depth.DRIVE:
        return None
    said = (
        f"a {cut.words} is assumed, as nobody declared what was cut by hand "
        "(--power-class or dbcheck_power_class declares it)"
    )
    return Item("class of the cut", Standing.ASSUMED, said, True)


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


def stranger(items: Sequence[Item]) -> Item | None:
    """Return the item that says that other data answered, None if none does."""
    for item in items:
        if item.name in (SAME, RESTORED) and item.standing is Standing.CONTRADICTED:
            return item
    return None


def same_tables(before: Mapping[str, str], after: Mapping[str, str]) -> list[Item]:
    """Compare the tables' identities before the load with those once they were read.

    By the table's name; "" if not known, as in runs that older versions of dbcheck
    stored.  Of no identity that is known, no item is returned.  A rewrite may keep
    every row, so another identity alone says nothing.
    """
    known = [name for name in before if before[name] and after.get(name)]
    if not known:
        return []
    others = [name for name in known if before[name] != after[name]]
    if not others:
        said = "not truncated, rewritten or recreated"
        return [Item(TABLE, Standing.PRESENT, f"{_named(known)} {said}", False)]
    said = "truncated, rewritten or recreated since the load began"
    return [Item(TABLE, Standing.ABSENT, f"{_named(others)} {said}", False)]


def _named(tables: Sequence[str]) -> str:
    verb = "was" if len(tables) == 1 else "were"
    return f"{', '.join(tables)} {verb}"


def replaced(found: Reconciliation, items: Sequence[Item]) -> str:
    """Return why missing rows say nothing if the table is another one, "" if it is not.

    After such a statement nothing shows which rows were there before it.  A cut takes
    the table's own creation back only with all that was committed since.
    """
    missing = {LossKind.MISSING_TAIL.value, LossKind.MISSING_HOLE.value}
    lost = sum(rows for kind, rows in found.counts.items() if kind in missing)
    rows = "1 row is" if lost == 1 else f"{lost:,} rows are"
    for item in items:
        if lost and item.name == TABLE and item.standing is Standing.ABSENT:
            return (
                f"{rows} missing from the table, but {item.reason}; no cut does that,"
                " unless it takes back all that was committed since the table was made"
            )
    return ""


def all_gone(found: Reconciliation) -> bool:
    """Say whether nothing of this run is there, nor what it began with."""
    missing = {LossKind.MISSING_TAIL, LossKind.MISSING_HOLE}
    some = found.kept or found.recovered or found.unconfirmed
    return not some and found.losses.counts.keys() <= missing


def _restored(items: Sequence[Item], explained: bool) -> str:
    """Return why the loss of all that a run wrote says nothing, "" if it does.

    Its first rows are committed, and checkpointed, before the load begins.
    """
    item = next((item for item in items if item.name == RESTORED), None)
    if explained or (item is not None and item.standing is Standing.PRESENT):
        return ""
    why = f" ({item.reason})" if item else ""
    return (
        "nothing of this run is there, not even the rows from before the load:"
        " an older copy was restored, somebody dropped or emptied the table, or the"
        f" drive lost everything; nothing shows which of these it was{why}"
    )


def judge(
    found: Reconciliation | None,
    items: Sequence[Item],
    cut: CutClass = CutClass.UNKNOWN,
    depth: Depth | None = None,
    *,
    explained: bool = False,
) -> Judgement:
    """Return the verdict on a cycle whose table was read to its end.

    found: None only if another server answered, whose table says nothing.
    cut, depth: what was cut, and how deep that went, None if it was not measured.
    explained: a setting was in force that can lose everything.
    A loss is a FAIL, unless the table was replaced and no setting explains it.  Without
    one, each required item must be present, and none contradicted, for a PASS.
    """
    if doubt := _other_data(found, items, explained):
        return Judgement(Verdict.INCONCLUSIVE, (doubt,), tuple(items), other_data=True)
    assert found is not None
    altered = altered_earlier(found)
    if found.counts:
        return Judgement(Verdict.FAIL, (_lost(found), *altered), tuple(items))
    doubts = altered + tuple(
        f"{item.name} {item.standing.value}: {item.reason}"
        for item in items
        if item.standing is Standing.CONTRADICTED
        or (item.required and item.standing not in _ENOUGH)
    )
    if found.foreign:
        said = (
            f"{found.foreign:,} rows belong to another run;"
            " was a second dbcheck running?"
        )
        doubts = (said, *doubts)
    if not found.confirmed:
        doubts = ("the witness confirmed no commit", *doubts)
    if doubts:
        return Judgement(Verdict.INCONCLUSIVE, doubts, tuple(items))
    return Judgement(Verdict.PASS, (_passed(found, items, cut, depth),), tuple(items))


def _other_data(
    found: Reconciliation | None, items: Sequence[Item], explained: bool
) -> str:
    """Return why other data may have been read than the load's, "" if they were not."""
    if other := stranger(items):
        return other.reason
    if found is None:
        return "the table was not read"
    if not explained and (doubt := replaced(found, items)):
        return doubt
    if found.counts and all_gone(found):
        return _restored(items, explained)
    return ""


def altered_earlier(found: Reconciliation) -> tuple[str, ...]:
    """Say that rows were perhaps altered before the load, () if none were."""
    rows = found.earlier_altered
    if not rows:
        return ()
    said, they = f"{rows:,} rows of earlier runs do", "they"
    if rows == 1:
        said, they = "1 row of an earlier run does", "it"
    return (
        f"{said} not have the content that was written, and {they} may have been"
        " altered before this load; dbcheck clean removes the table",
    )


def _lost(found: Reconciliation) -> str:
    """Return what was lost: of the confirmed commits, and beside them."""
    own = found.own_counts
    others = []
    if strange := own.pop(LossKind.UNEXPECTED.value, 0):
        others.append(f"{strange:,} unexpected")
    if earlier := sum(found.earlier_counts.values()):
        several = f"{earlier:,} rows of earlier cycles"
        others.append(several if earlier > 1 else "1 row of an earlier cycle")
    of = f"{found.confirmed:,} confirmed commits"
    if not own:
        return f"{', and '.join(others)}; all {of} of this cycle are intact"
    said = ", ".join(f"{rows:,} {kind}" for kind, rows in own.items())
    return ", and ".join((f"{said} of {of}", *others))


def _passed(
    found: Reconciliation, items: Sequence[Item], cut: CutClass, depth: Depth | None
) -> str:
    """Return what a PASS claims, what it leaves open and what it only assumes."""
    said = f"all {found.confirmed:,} confirmed commits survived this {cut.words}"
    if depth:
        said += f" at {depth.value} depth"
    assumed = [
        f"assumed, not seen: {item.name} ({item.reason})"
        for item in items
        if item.standing is Standing.ASSUMED
    ]
    unseen = [
        item.reason
        for item in items
        if item.name == PLACES and item.standing is Standing.NOT_OBSERVABLE
    ]
    left_open = (cut.leaves_open(depth), *unseen)
    if depth is not Depth.DRIVE and cut in (CutClass.AC, CutClass.DC_RAIL):
        left_open += tuple(
            f"unsafe shutdowns did not rise: {item.reason}, so this says nothing about "
            "the drives' caches"
            for item in items
            if item.name == UNSAFE_SHUTDOWNS and item.standing is Standing.ABSENT
        )
    return "; ".join(filter(None, (said, *left_open, *assumed)))


def judge_unrecoverable(
    reason: str,
    items: Sequence[Item],
    *,
    missing: bool,
    explained: bool,
    uncut: bool = False,
    spared: bool = False,
) -> Judgement:
    """Return the verdict on a server, or a table, that did not come back.

    missing: the server has no such table, and nothing else is wrong with it.
    uncut: it is the server that is gone, and its power was not cut: whoever ended it
    did not start it again, so its data were not asked.
    spared: the cut destroyed no more than the server's memory, as was measured.
    """
    if uncut:
        doubt = f"the server is gone, but no power cut was recorded: {reason}"
        return Judgement(Verdict.INCONCLUSIVE, (doubt,), tuple(items))
    if missing and (doubt := _restored(items, explained)):
        return Judgement(Verdict.INCONCLUSIVE, (doubt,), tuple(items))
    if missing and spared and not explained:
        doubt = (
            f"the table is gone ({reason}), but this cut spared the page cache, so it "
            "took no table: somebody dropped it"
        )
        return Judgement(Verdict.INCONCLUSIVE, (doubt,), tuple(items))
    said = f"unrecoverable: {reason}"
    if missing:
        said += "; unless somebody dropped the table, the cut took it"
    return Judgement(Verdict.FAIL, (said,), tuple(items))
