"""Judges which commits of a load a copy of the server has to hold.

A copy that is taken beside the load is the state of the server at one moment, and so
is one that is restored to a point of its log.  An archive, or a receiver of the log,
has the state of a moment before the loss of the server.  Which commits each has to
hold, and which it cannot hold, follows from the order of the client's own readings of
one clock: no clocks of two machines are compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from dbcheck.base.points import Point, PointKind
from dbcheck.rows.acks import NEVER, TIME_UNIT_US, AckArray, Ints, SessionTimes
from dbcheck.rows.loss import CODES, MISSING, Losses, number_operations
from dbcheck.rows.reconcile import Reconciliation
from dbcheck.rows.summary import AckStream
from dbcheck.rows.survivors import Flags, find_distinct, is_among_distinct

LATEST_US = int(np.iinfo(np.int64).max)  # later than any commit
_CODES_OF_MISSING = np.array([CODES[kind] for kind in MISSING])


@dataclass(frozen=True, slots=True)
class CopyLaw:
    """The moments that decide which commits a copy has to hold.

    Both are in microseconds of the client's monotonic clock.
    due_us:  each commit that was acknowledged by then has to be there.
    none_us: no commit that was sent from then on can be there; None if any can be.
    """

    due_us: int
    none_us: int | None


@dataclass(frozen=True, slots=True)
class CopyPlan:
    """A copy of the server that is to be restored elsewhere, and read there.

    target: the URL, without a password, of the server that is started on the copy.
    rpo_s:  the recovery point objective in seconds: the server's power is cut, and what
            was shipped elsewhere by then is restored.  None for a copy that is taken
            beside the load, without a cut.
    until:  the kind of the point of the server's log to which its archive is restored,
            without a cut; None if it is restored whole.
    """

    target: str
    rpo_s: float | None = None
    until: PointKind | None = None

    @property
    def is_after_loss(self) -> bool:
        """True if the server is lost, and what was shipped by then is restored."""
        return self.rpo_s is not None


@dataclass(frozen=True, slots=True)
class VolumeNumbers:
    """The numbers in restored copies of volumes, which were written to these in turn.

    until:  the copies have all numbers from 1 to this one.
    newest: of each folder the newest number in it, 0 without one.
    """

    until: int
    newest: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class VolumesRecord:
    """Record of the numbers that were written to the volumes of a server in turn.

    nonce:   names them, in hex.
    before:  the newest that was flushed just before the copy was begun.
    after:   the newest whose writing had begun once the copy was complete; None before.
    longest_s: the longest time from one number to the next while the copy was taken.
    numbers: those in the restored copies; None as long as these were not read.
    failure: why nothing is known of the volumes, "" if something is.
    folders: on the server's host, to which they were written in turn.
    """

    nonce: str
    before: int = 0
    after: int | None = None
    longest_s: float = 0.0
    numbers: VolumeNumbers | None = None
    failure: str = ""
    folders: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CopyRecord:
    """Record of a copy, and of its restore.

    Times in microseconds of the client's monotonic clock.
    began_us: just before the program that takes the copy beside the load was started,
              or the server was asked for its point; None where the server was lost, and
              what was shipped by then is restored.
    ended_us: once that program had ended well, or the server had answered; None if it
              did not.
    restore_s: seconds that the program took which restored the copy; None before that.
    stayed_off: whether the lost server had no power yet once the copy was restored;
              None if that is not known, and where no server was lost.
    point:    to which the archive is restored; None if a copy is restored whole.
    volumes:  what was written to the server's volumes; None if that was not asked.
    """

    began_us: int | None = None
    ended_us: int | None = None
    restore_s: float | None = None
    stayed_off: bool | None = None
    point: Point | None = None
    volumes: VolumesRecord | None = None

    @property
    def law(self) -> CopyLaw | None:
        """The moments that a copy beside the load is judged by; None without one.

        They are those of a point, too, see base.points.
        """
        if self.began_us is None or self.ended_us is None:
            return None
        return CopyLaw(self.began_us, self.ended_us)

    @property
    def taken_s(self) -> float | None:
        """The seconds that the program took which takes the copy; None if it failed.

        None also for a point, for which no program is run.
        """
        law = self.law
        if self.point is not None or law is None or law.none_us is None:
            return None
        return (law.none_us - law.due_us) / 1e6

    @property
    def read_s(self) -> float | None:
        """The seconds that reading the point took; None without one."""
        if self.point is None or self.began_us is None or self.ended_us is None:
            return None
        return (self.ended_us - self.began_us) / 1e6

    def __post_init__(self) -> None:
        """Refuse times that no clock can have measured."""
        began_us, ended_us = self.began_us, self.ended_us
        if ended_us is not None and (began_us is None or ended_us < began_us):
            raise ValueError("no copy ends before it begins")
        if self.point is not None and ended_us is None:
            raise ValueError("no point is known without when it was read")
        if self.restore_s is not None and not 0 <= self.restore_s < math.inf:
            raise ValueError(f"no restore takes {self.restore_s} s")


@dataclass(frozen=True, slots=True)
class Copied:
    """How the acknowledged commits of a load stand in a restored copy.

    due:       commits that the copy has to hold: acknowledged by CopyLaw.due_us, or
               before a commit was sent that is there.
    by_order:  those of *due* that are due only because of such a commit.
    due_kept:  those of *due* that are there, intact.
    open:      commits that it may hold or lack.  open_kept: those that are there.
    after:     commits that were sent from CopyLaw.none_us on.  after_kept: those that
               are there although no copy can hold them.
    until_us:  each commit that was acknowledged by then is one of *due*.
    oldest_missing_us: when the oldest commit was acknowledged that is missing, whether
               it is due or not; None if none is.
    """

    due: int
    by_order: int
    due_kept: int
    open: int
    open_kept: int
    after: int
    after_kept: int
    until_us: int
    oldest_missing_us: int | None

    @property
    def missing(self) -> int:
        """The acknowledged commits that are not there, or damaged, due or not."""
        lost = self.due - self.due_kept
        return lost + self.open - self.open_kept + self.after - self.after_kept


def judge_copy(
    acks: AckStream, found: Reconciliation, law: CopyLaw
) -> tuple[Reconciliation, Copied]:
    """Judge a copy by *law*: return *found* with the losses that break it, and counts.

    found: the rows of the copy compared with all acks of the load, so that a commit
    after the copy counts as missing there.

    A commit that is missing although a commit was sent after its acknowledgement that
    is there breaks the law, too: no moment of the server looked like that.  Damage
    breaks it always.
    """
    missing = _find_missing_operations(found)
    oldest_us = _find_oldest_missing(found)
    newest_sent_us = _find_newest_kept_sending(acks, missing)
    until_us = max(law.due_us, newest_sent_us)
    columns = found.losses.columns
    breaks_law = ~_flag_missing(found.losses) | (columns["acked_us"] <= until_us)
    losses = Losses(columns[breaks_law])
    copied = _count(acks, missing, losses, law, until_us, oldest_us)
    judged = replace(found, confirmed=copied.due, kept=copied.due_kept, losses=losses)
    return judged, copied


def keep_due(acks: AckStream, copied: Copied) -> AckStream:
    """Return the stream of those acks that a copy has to hold."""

    def batches() -> Iterator[AckArray]:
        for batch in acks():
            yield batch[batch["acked_us"] <= copied.until_us]

    return batches


def _flag_missing(losses: Losses) -> Flags:
    flags: Flags = np.isin(losses.columns["kind"], _CODES_OF_MISSING)
    return flags


def _find_missing_operations(found: Reconciliation) -> Ints:
    """Return the acked operations that are not there, each once and in order."""
    columns = found.losses.columns[_flag_missing(found.losses)]
    return find_distinct(number_operations(columns))


def _find_oldest_missing(found: Reconciliation) -> int | None:
    """Return when the oldest commit that is missing was acknowledged, or None."""
    acked_us = found.losses.columns[_flag_missing(found.losses)]["acked_us"]
    acked_us = acked_us[acked_us >= 0]
    return int(acked_us.min()) if acked_us.size else None


class _Batch(NamedTuple):
    """Acks: when each was received, when it was sent at the earliest, if it is there.

    The log rounds times up, and a session sends an operation once the client has read
    the clock for the ack before.  sent_us: NEVER for the first of a session.
    """

    acked_us: Ints
    sent_us: Ints
    is_kept: Flags


def _list_batches(acks: AckStream, missing: Ints) -> Iterator[_Batch]:
    """Yield the acks; *missing*: the operations that are not there."""
    sessions = SessionTimes()
    for batch in acks():
        sent_us = sessions.sent_after_us(batch)
        sent_us[sent_us != NEVER] -= TIME_UNIT_US
        is_kept = ~is_among_distinct(number_operations(batch), missing)
        yield _Batch(batch["acked_us"], sent_us, is_kept)


def _find_newest_kept_sending(acks: AckStream, missing: Ints) -> int:
    """Return when the newest commit that is there was sent; NEVER without one."""
    sent_us = (batch.sent_us[batch.is_kept] for batch in _list_batches(acks, missing))
    return max((int(part.max()) for part in sent_us if part.size), default=NEVER)


def _count(
    acks: AckStream,
    missing: Ints,
    losses: Losses,
    law: CopyLaw,
    until_us: int,
    oldest_us: int | None,
) -> Copied:
    """Count the acks by their place before, between and after the moments of *law*.

    losses: those that break the law.  until_us: all that was acked by then is due.
    oldest_us: see Copied.oldest_missing_us.
    """
    none_us = LATEST_US if law.none_us is None else law.none_us
    names = ("due", "by_order", "open", "open_kept", "after", "after_kept")
    counts = dict.fromkeys(names, 0)
    for acked_us, sent_us, is_kept in _list_batches(acks, missing):
        is_due, is_after = acked_us <= until_us, sent_us >= none_us
        is_open = ~is_due & ~is_after
        flags_of_batch = (
            is_due,
            is_due & (acked_us > law.due_us),
            is_open,
            is_open & is_kept,
            is_after,
            is_after & is_kept,
        )
        for name, flags in zip(names, flags_of_batch, strict=True):
            counts[name] += int(np.count_nonzero(flags))
    own = losses.columns[losses.columns["acked_us"] >= 0]
    own = own[own["acked_us"] <= until_us]
    lost = len(find_distinct(number_operations(own)))
    return Copied(
        **counts,
        due_kept=counts["due"] - lost,
        until_us=until_us,
        oldest_missing_us=oldest_us,
    )
