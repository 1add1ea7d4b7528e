"""The time to recover: how long clients could commit nothing that lasted.

It runs from the last ack of the load to the first ack of a probe whose row is found on
the node that was read.  An old writer that nothing keeps off answers at once: its acks
do not last.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from dbcheck.model.host import ClientClocks
from dbcheck.model.records import AfterRecord, LoadRecord, Manifest, RestoreRecord

# A clock of the boot that went further by this than the monotonic one: the client was
# suspended, and the monotonic clock stood still.
STOOD_STILL_US = 50_000
# A commit that was answered later had to wait, as for the view of a group: the server
# held it, and would have held any other.
WAITED_US = 500_000
PROGRAM = "the program "  # begins the Probed.target of a program of the user's
INTERRUPTED = "the client was interrupted before it had read the rows"
NO_RECORD = "the client was interrupted, or its dbcheck did not measure it yet"


@dataclass(frozen=True, slots=True)
class ProbeAck:
    """One commit of a probe that was answered; times in us of the monotonic clock.

    seq:      with the place of its address, the key of the row that it inserted.
    tried_us: until then the try before it at this address shows that none could commit:
              when that try began, or, if its commit waited, when it was given up (at
              the address of clients: sent); None if this was the first try.
    began_us: when the probe began to connect.  sent_us: when its commit was sent.
    acked_us: when the answer had come.
    lasted:   its row was found on the node that was read; None if nobody looked.
    """

    seq: int
    tried_us: int | None
    began_us: int
    sent_us: int
    acked_us: int
    lasted: bool | None = None


@dataclass(frozen=True, slots=True)
class Probed:
    """The tries to commit at one address.

    target:  its URL without a password, or which program of the user's committed.
    node:    the name of the node whose URL it is, "" for the address of the clients.
    acks:    in the order in which they came.
    refused: tries that certainly committed nothing: no connection, or an error.
    hung:    commits without an answer in time; they may be there.
    unknown: commits during which the connection broke; they may be there.
    error:   what the newest try that failed met, "" if none failed.
    tried_us: of the newest try, as in ProbeAck; None if there was none.
    given_up: why no more tries were made, "" if they went on to the end.
    """

    target: str
    node: str = ""
    acks: tuple[ProbeAck, ...] = ()
    refused: int = 0
    hung: int = 0
    unknown: int = 0
    error: str = ""
    given_up: str = ""
    tried_us: int | None = None

    @property
    def failed(self) -> int:
        """The number of tries that were not acked."""
        return self.refused + self.hung + self.unknown

    def shown_us(self, ack: ProbeAck) -> int | None:
        """Return until when no commit is known to have been possible before *ack*.

        None if that is not known.  A commit that was sent and had to wait shows it: at
        a node's own address until its answer.  At the address of clients only until it
        was sent, as a new connection might have led to another server since.
        """
        if ack.acked_us - ack.sent_us <= WAITED_US:
            return ack.tried_us
        return ack.acked_us if self.node else ack.sent_us


@dataclass(frozen=True, slots=True)
class OutageRecord:
    """Record of the probes after a cut; times in us of the client's monotonic clock.

    began_us:  when the first try was made: the server was gone.  None: none was made.
    ended:     the client's clocks when the last try was over; None if not known.
    probed:    by the place of each address; the rows name it as their session.
    by_clients: the one address is that which clients use, as the user named it, or it
               is a program of the user's that committed.
    gaps:      from when until when the prober was not scheduled.
    restored_us: when the switch had reported that the power was back, None if it did
               not, or was not to.
    unread:    why it is not known which acks lasted, "" if it is.
    not_begun: why nothing was probed, "" if anything was.
    """

    began_us: int | None = None
    ended: ClientClocks | None = None
    probed: tuple[Probed, ...] = ()
    by_clients: bool = False
    gaps: tuple[tuple[int, int], ...] = ()
    restored_us: int | None = None
    unread: str = ""
    not_begun: str = ""

    def with_rows(self, keys: Collection[tuple[int, int]]) -> OutageRecord:
        """Return the record with what lasted: *keys* are (session, seq) of the rows."""
        found = set(keys)
        probed = tuple(
            replace(
                each,
                acks=tuple(
                    replace(ack, lasted=(place, ack.seq) in found) for ack in each.acks
                ),
            )
            for place, each in enumerate(self.probed)
        )
        return replace(self, probed=probed, unread="")

    @property
    def lasting(self) -> list[tuple[Probed, ProbeAck]]:
        """The acks whose rows were found, with their addresses, the first one first."""
        found = [(each, ack) for each in self.probed for ack in each.acks if ack.lasted]
        return sorted(found, key=lambda one: one[1].acked_us)

    @property
    def not_lasting(self) -> Mapping[str, int]:
        """The number of acks whose rows were not found, by the URL of the address."""
        counts = {
            each.target: sum(ack.lasted is False for ack in each.acks)
            for each in self.probed
        }
        return {target: count for target, count in counts.items() if count}

    def list_acks_elsewhere(self, node: str) -> list[ProbeAck]:
        """List the acks of another server than the one that was read, where it shows.

        node: whose own address counts; so does the address of the clients.
        """
        return [
            ack
            for each in self.probed
            if each.node in (node, "")
            for ack in each.acks
            if ack.lasted is False
        ]

    def find_tries(self, node: str) -> Probed | None:
        """Return the tries at a node's own address, None if there were none."""
        return next((each for each in self.probed if each.node == node), None)


@dataclass(frozen=True, slots=True)
class OutageResult:
    """The time to recover of one run; seconds by the client's monotonic clock.

    seconds:   from the last ack before the cut to the first lasting one after it; null
               if that was not measured.
    least_s:   no client could commit for at least so long: then a try began that
               failed, or whose commit did not last.  null if there was no such try.
    why:       why it was not measured, "" if it was.
    addresses: the URLs at which probes tried to commit.  by_clients: it is the one that
               clients use, as the user named it.
    by:        the URL where the first lasting ack came from, "" if none came.
    power_off_s: of it, without power, as the switch of the node that was read reports;
               null if that node was not cut, or its switch does not show that.
    by_hand:   a person cut and restored the power, and took that time.
    promotion_s: of it, from the cut, or from the return of the power, until dbcheck
               asked for the promotion; null if it asked for none.
    recovering_s: the rest of it; null if it was not measured.
    refused, hung, unknown: tries before the first lasting ack, or all if none lasted.
    acked:     the acks of probes.  not_lasting: by the URL of the address, how many of
               their rows are not on the node that was read: a client would have lost
               these commits.
    gaps_s:    the longest time for which the prober was not scheduled.
    """

    seconds: float | None = None
    least_s: float | None = None
    why: str = ""
    addresses: tuple[str, ...] = ()
    by_clients: bool = False
    by: str = ""
    power_off_s: float | None = None
    by_hand: bool = False
    promotion_s: float | None = None
    recovering_s: float | None = None
    refused: int = 0
    hung: int = 0
    unknown: int = 0
    acked: int = 0
    not_lasting: Mapping[str, int] = field(default_factory=dict)
    gaps_s: float = 0.0

    @property
    def over_s(self) -> float | None:
        """The time that was exceeded, if nothing lasted; None if that is not known."""
        return self.least_s if self.seconds is None else None

    @property
    def spread_s(self) -> float | None:
        """By how much the time may be shorter than *seconds*; None if not known."""
        if self.seconds is None or self.least_s is None:
            return None
        return max(0.0, round(self.seconds - self.least_s, 2))


def measure_outage(
    record: OutageRecord | None,
    manifest: Manifest,
    load: LoadRecord | None,
    restore: RestoreRecord | None,
    after: AfterRecord,
) -> OutageResult | None:
    """Return the time to recover, or why it was not measured; None of a control."""
    if manifest.control:
        return None
    if record is None:
        return OutageResult(why=NO_RECORD)
    result = _count_tries(record)
    if why := _explain_unmeasured(record, manifest, load):
        return replace(result, why=why)
    assert load is not None
    assert load.last_ack_us is not None
    if not record.lasting:
        return replace(
            result,
            why=_explain_none_lasting(record),
            least_s=_count_least_s(record, load.last_ack_us),
        )
    (by, first), *_ = record.lasting
    total_s = (first.acked_us - load.last_ack_us) / 1e6
    least_s = _count_least_s(record, load.last_ack_us)
    return _split(
        replace(
            result,
            seconds=round(total_s, 2),
            least_s=None if least_s is None else min(least_s, round(total_s, 2)),
            by=by.target,
        ),
        load,
        restore,
        after,
        record.restored_us,
    )


def _count_tries(record: OutageRecord) -> OutageResult:
    gaps = [(until_us - from_us) / 1e6 for from_us, until_us in record.gaps]
    return OutageResult(
        addresses=tuple(each.target for each in record.probed),
        by_clients=record.by_clients,
        refused=sum(each.refused for each in record.probed),
        hung=sum(each.hung for each in record.probed),
        unknown=sum(each.unknown for each in record.probed),
        acked=sum(len(each.acks) for each in record.probed),
        not_lasting=record.not_lasting,
        gaps_s=round(max(gaps, default=0.0), 2),
    )


def _explain_unmeasured(
    record: OutageRecord, manifest: Manifest, load: LoadRecord | None
) -> str:
    """Return why no figure can be given, "" if the acks decide."""
    if record.not_begun:
        return record.not_begun
    if load is None or record.began_us is None or record.ended is None:
        return INTERRUPTED
    if not any(node.cut for node in load.nodes.values()):
        return "no cut of the power is on record"
    if manifest.own_clocks:
        return "the sessions ran on other machines, by whose clocks the acks came"
    if load.last_ack_us is None:
        return "no commit was acknowledged before the cut"
    if load.clocks is None or load.clocks[0].boot != record.ended.boot:
        return "the client's clock before the cut cannot be compared"
    began = load.clocks[0]
    hidden_us = (record.ended.boot_us - began.boot_us) - (
        record.ended.clock_us - began.clock_us
    )
    if hidden_us > STOOD_STILL_US:
        return f"the client's clock stood still for {hidden_us / 1e6:.1f} s"
    return record.unread


def _explain_none_lasting(record: OutageRecord) -> str:
    given_up = next(
        (f"{each.target}: {each.given_up}" for each in record.probed if each.given_up),
        "",
    )
    acked = sum(record.not_lasting.values())
    if acked:
        why = f"none of the {acked:,} commits that were answered after the cut lasted"
    else:
        why = "no commit was answered after the cut"
    errors = list(dict.fromkeys(each.error for each in record.probed if each.error))
    return "; ".join(filter(None, (why, given_up or (errors[-1] if errors else ""))))


def _count_least_s(record: OutageRecord, last_ack_us: int) -> float | None:
    """Return for how long certainly no client could commit, None if not known.

    At each address that is until the newest try that failed, or did not last, before
    the first ack that lasted.  The shortest such time counts: of several addresses a
    client needs one alone.
    """
    if not record.lasting:
        tried = [each.tried_us for each in record.probed if each.tried_us is not None]
        return _since(min(tried, default=None), last_ack_us)
    firsts: dict[str, int | None] = {}
    for each, ack in record.lasting:
        firsts.setdefault(each.target, each.shown_us(ack))
    shown = list(firsts.values())
    known = [moment_us for moment_us in shown if moment_us is not None]
    return _since(min(known), last_ack_us) if len(known) == len(shown) else None


def _since(moment_us: int | None, last_ack_us: int) -> float | None:
    if moment_us is None:
        return None
    return max(0.0, round((moment_us - last_ack_us) / 1e6, 2))


def _split(
    result: OutageResult,
    load: LoadRecord,
    restore: RestoreRecord | None,
    after: AfterRecord,
    restored_us: int | None,
) -> OutageResult:
    """Split the time: without power, until a promotion was asked for, and the rest."""
    assert result.seconds is not None
    assert load.last_ack_us is not None
    cuts = [node.cut for node in load.nodes.values() if node.cut]
    by_hand = any(cut.by_hand for cut in cuts)
    off_s = restore.off_s.get(after.reader_name) if restore else None
    if off_s is None and by_hand and restored_us is not None:
        off_s = (restored_us - load.last_ack_us) / 1e6
    promotion_s = None
    asked_us = after.promotion.asked_us if after.promotion else None
    if asked_us is not None:
        passed_s = (asked_us - load.last_ack_us) / 1e6 - (off_s or 0.0)
        promotion_s = round(max(0.0, passed_s), 2)
    rest_s = result.seconds - (off_s or 0.0) - (promotion_s or 0.0)
    return replace(
        result,
        power_off_s=None if off_s is None else round(off_s, 2),
        by_hand=by_hand,
        promotion_s=promotion_s,
        recovering_s=round(max(0.0, rest_s), 2),
    )


# A 95th percentile of fewer cuts would be their longest time, or close to it.
P95_CUTS_MIN = 60


@dataclass(frozen=True, slots=True)
class OutageTotal:
    """The times to recover of several cuts that count, in seconds.

    measured: of how many of the cuts the time was measured.
    longer, longer_s: after how many other cuts no commit lasted as long as dbcheck
              tried, and the longest time of these.
    median_s, max_s, p95_s: of both together, by the nearest rank but for the median.
              null where the time of such another cut counts, and p95_s also of fewer
              than P95_CUTS_MIN cuts.
    not_lasting: how many commits were answered after a cut and did not last, all
              together.
    """

    measured: int
    median_s: float | None
    max_s: float | None
    p95_s: float | None
    not_lasting: int = 0
    longer: int = 0
    longer_s: float | None = None


def sum_up_outages(
    times_s: Sequence[float], longer_s: Sequence[float] = (), not_lasting: int = 0
) -> OutageTotal | None:
    """Return what several cuts show together; None if none was measured.

    times_s: the measured times.  longer_s: of other cuts, for how long at least no
    client could commit; their own times are longer, and count as longer than all.
    """
    if not times_s and not longer_s:
        return None
    ordered = [*sorted(times_s), *([math.inf] * len(longer_s))]
    p95_s = None
    if len(ordered) >= P95_CUTS_MIN:
        p95_s = _round_known(ordered[math.ceil(0.95 * len(ordered)) - 1])
    return OutageTotal(
        measured=len(times_s),
        median_s=_round_known(median(ordered)),
        max_s=_round_known(ordered[-1]),
        p95_s=p95_s,
        not_lasting=not_lasting,
        longer=len(longer_s),
        longer_s=max(longer_s, default=None),
    )


def sum_up_results(outages: Iterable[OutageResult]) -> OutageTotal | None:
    """Return what the times of several runs show together; None without any."""
    known = list(outages)
    return sum_up_outages(
        [each.seconds for each in known if each.seconds is not None],
        [each.over_s for each in known if each.over_s is not None],
        sum(sum(each.not_lasting.values()) for each in known),
    )


def _round_known(seconds: float) -> float | None:
    return None if math.isinf(seconds) else round(seconds, 2)
