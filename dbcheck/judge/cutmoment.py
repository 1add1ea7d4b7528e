"""Finds the moment at which the power of a stored run was cut, and its evidence.

A lab knows the moment.  A switch cuts at some time between the request and its report
of the cut.  If the report comes more than a second after the last ack, the network may
have failed first and the power gone later, when the drive had had time to write, so the
moment is assumed.  A cut by hand comes at a moment that the client never learns.  These
signs bound it:

- The server went silent, and so did its host: a power cut looks like that.  The host's
  last report is taken to be the moment of the cut, or the last ack where no report came
  after it.  That is assumed, never seen: a network that failed first looks the same.
- The connections broke: a power cut leaves silence, so the server ended by itself, and
  the power was cut at some time after that.  What the drive held may have been written.
- The host still answered when the load was over: the power was cut after that.

Where drives alone lose their power the host answers on, and the server ends by itself
once it sees errors: the cut came between the request and the moment at which the host
saw them gone, and is taken to be the last ack.

The last two signs hold for a switch that acts late, too.  If the client stood still
when the server went, nothing dates a cut whose moment no lab knows: replies that came
meanwhile were read afterwards, and the silence may have begun at any time.  If blocks
of the canaries survived that were written after the last report, the host had its power
until they were written.

A server or host that answered had power when it was asked: no such cut is dated before
that moment.  See find_last_life_of_server_us().

The time from a moment of the load to a later observation is taken from clocks that may
step.  The wall clock may be set meanwhile, as by NTP once a network is back.
CLOCK_BOOTTIME is never set, and counts while the machine is suspended.  It begins anew
with each boot, and stands still with a virtual machine that is paused, as does the wall
clock until it is set forward.  So at least the time that CLOCK_BOOTTIME shows has
passed, and perhaps more if the wall clock shows more.  Between clocks of two machines,
or of two boots, no time is known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dbcheck.judge.case import Case
from dbcheck.model.cut import Gone
from dbcheck.model.depth import find_last_write_us
from dbcheck.model.host import ClientClocks
from dbcheck.model.records import LoadRecord, NodeAtTheCut
from dbcheck.model.unobserved import Observed, find_newest

_UNKNOWN = (
    "the client's clocks at the load are not on record, or were of another boot or"
    " machine"
)
_UNSURE = "the client's clock was set meanwhile, or the client stood still"
LAST_ACK_AGE_MAX_S = 1.0
# The last ack may be LAST_ACK_AGE_MAX_S old, and its commit have taken another second.
SENT_AGE_MAX_S = 2.0
_AGAIN = "cut again, while the server works"
_ENDED_FIRST = (
    "the server closed its connections, which no power cut does: it ended by "
    f"itself, and how much later its power was cut by hand is not known; {_AGAIN}"
)
_SWITCHED_LATER = (
    "the server closed its connections, which no power cut does: it ended by "
    "itself, and its switch may have cut the power up to {:.1f} s later"
    f"; {_AGAIN}"
)
_CUT_LATER = (
    "the host still answered when the load was over: how much later its power was cut "
    f"is not known; {_AGAIN}"
)
_NOT_CHECKED = (
    "it was not checked whether the host still answered when the load was over, so how"
    f" much later its power was cut is not known; {_AGAIN}"
)
_STOOD_STILL = (
    "the client stood still for {:.1f} s, by the {} clock, when the server went: what"
    f" it read afterwards has no known age; {_AGAIN}"
)


@dataclass(frozen=True, slots=True)
class Elapsed:
    """The limits between which a time lies, in seconds; infinite if not known."""

    least_s: float = -math.inf
    most_s: float = math.inf

    @property
    def known(self) -> bool:
        """True if the time has a lower limit."""
        return math.isfinite(self.least_s)

    @property
    def doubt(self) -> str:
        """The reason why the limits are not closer."""
        return _UNSURE if self.known else _UNKNOWN

    def less(self, seconds: float) -> Elapsed:
        """Return the limits of a time that is shorter by *seconds*."""
        return Elapsed(self.least_s - seconds, self.most_s - seconds)

    def __str__(self) -> str:
        """Return the limits in words."""
        least, most = f"{self.least_s:.1f}", f"{self.most_s:.1f}"
        return f"{least} s" if least == most else f"{least} to {most} s"


UNKNOWN = Elapsed()


def measure_elapsed(
    load: LoadRecord, moment_us: int, now: ClientClocks | None
) -> Elapsed:
    """Measure the time from a moment of *load* to *now* on the client's clocks.

    moment_us: on the clock of the load, and not after its end.  The machine may have
    been suspended while the load ran.  A suspension after the moment is a part of the
    time, and one before it is not.
    """
    if load.clocks is None or now is None:
        return UNKNOWN
    began, ended = load.clocks
    if {began.boot, ended.boot} != {now.boot}:
        return UNKNOWN
    least_us = now.boot_us - ended.boot_us + ended.clock_us - moment_us
    passed_us = max(now.boot_us - began.boot_us, now.wall_us - began.wall_us)
    most_us = max(least_us, passed_us + began.clock_us - moment_us)
    return Elapsed(least_us / 1e6, most_us / 1e6)


def find_newest_observation(load: LoadRecord) -> Observed:
    """Return the observation of the newest ack, as far as that is on record."""
    return find_newest(load.observed or ()) or Observed(load.last_ack_us)


def find_newest_ack_us(load: LoadRecord) -> int | None:
    """Return the earliest moment at which the newest ack may have come, None if none.

    LoadRecord.last_ack_us is the latest such moment, for an order of events.
    """
    seen = find_newest_observation(load)
    return None if seen.last_ack_us is None else seen.came_us(seen.last_ack_us)


def measure_longest_passed_s(seen: Observed, from_us: int, to_us: int) -> float:
    """Measure the time between two moments, by the clock that shows most."""
    return (to_us - from_us + seen.hidden_us(from_us, to_us)) / 1e6


def find_cut_us(case: Case) -> int | None:
    """Return the moment of the cut as well as it is known, or None.

    In microseconds of the client's clock.  The cut cannot be earlier than the moment at
    which the switch was asked, whatever happened to the sessions before; nor than the
    last one at which the server or its host surely lived; nor, if it was made by hand,
    than the last report of the canaries on the host.
    """
    load, cut, heard_us = case.load, case.cut, case.at_the_cut.heard_us
    if load is None or explain_missing_date(case):
        return None
    if cut is not None and cut.exact_us is not None:
        return cut.exact_us
    if cut is None or (cut.asked_us is None and load.gone_us is None):
        return load.gone_us
    known_us = [
        _find_last_word_of_server_us(case, load),
        cut.asked_us,
        find_last_life_of_server_us(case),
    ]
    if cut.by_hand:
        known_us.append(heard_us)
    return max(moment_us for moment_us in known_us if moment_us is not None)


def find_last_life_of_server_us(case: Case) -> int | None:
    """Return the last moment at which the tested server surely lived, by its answers.

    In microseconds of the client's clock: each answer is dated by its question, each
    report of the canaries by when it was sent.  None if nothing shows it, if a lab
    knows the moment of the cut, and where drives alone are cut: all else lives on, as
    a lab's host does in any case.
    """
    load, cut, seen = case.load, case.cut, case.at_the_cut
    if load is None or cut is None or cut.exact_us is not None or case.drive_only:
        return None
    before_us = max(load.last_ack_us or load.began_us, cut.asked_us or 0)
    known_us = (
        [] if case.manifest.lab else [_find_last_life_of_host_us(seen, before_us)]
    )
    if case.tested_name == case.manifest.writer_name:
        looked = filter(None, (load.watched, load.sessions_watched))
        known_us += [watched.lived_us(before_us) for watched in looked]
        if load.replication is not None:  # asked over one connection, before the load
            known_us.append(load.replication.last_us)
    return max((life_us for life_us in known_us if life_us is not None), default=None)


def _find_last_life_of_host_us(seen: NodeAtTheCut, before_us: int) -> int | None:
    """Return the last moment at which a node's host surely lived, or None.

    before_us: a moment before the cut; only answers over connections made by then count
    (see Watched.lived_us()).
    """
    reports = (seen.canaries, *seen.canaries_elsewhere)
    known_us = [report.as_of_us for report in reports if report is not None]
    if seen.host_watched is not None:
        known_us.append(seen.host_watched.lived_us(before_us))
    return max((life_us for life_us in known_us if life_us is not None), default=None)


def _find_last_word_of_server_us(case: Case, load: LoadRecord) -> int:
    """Return the server's last sign of life, as far as it dates a switch's cut.

    Drives that alone lost their power answer nothing at first, and the server's
    connections break only once the kernel gives the drives up.
    """
    gone_us = load.gone_us or 0
    if case.drive_only and load.last_ack_us is not None:
        return min(gone_us, load.last_ack_us)
    return gone_us


def find_last_canary_write_us(case: Case) -> int | None:
    """Return the last moment of a canary's write; None if a cut is dated."""
    cut, canaries, after = case.cut, case.at_the_cut.canaries, case.host
    dated = cut is None or cut.exact_us is not None
    if dated or canaries is None or after is None or after.remains is None:
        return None
    return find_last_write_us(canaries, after.remains)


def find_last_sign_of_power_us(case: Case) -> int | None:
    """Return the last moment at which the host was known to have power, or None.

    It is the moment of the cut if a lab knows that, or if the host keeps running.
    """
    went_us, cut, heard_us = find_cut_us(case), case.cut, case.at_the_cut.heard_us
    exact = cut is not None and cut.exact_us is not None
    if went_us is None or exact or case.drive_only or heard_us is None:
        return went_us
    return max(went_us, heard_us)


def measure_switch_lag_s(case: Case) -> float | None:
    """Measure the time from asking the switch to the loss of power, None if unknown.

    The loss is dated by when the host was last heard, or saw its drives gone.
    """
    cut = case.cut
    if cut is None or cut.asked_us is None or explain_missing_date(case):
        return None
    went_us = cut.exact_us
    if went_us is None and case.drive_only:
        went_us = case.drives_gone_us
    elif went_us is None and case.at_the_cut.heard_us is not None:
        went_us = find_last_sign_of_power_us(case)
    return None if went_us is None else max(0, went_us - cut.asked_us) / 1e6


def find_latest_cut_us(case: Case) -> int | None:
    """Return the latest moment of a switch's cut; None if it is dated, or by hand."""
    load, cut, drives_us = case.load, case.cut, case.drives_gone_us
    if load is None or cut is None or cut.by_hand or cut.exact_us is not None:
        return None
    if drives_us is None or load.switched_us is None:
        return load.switched_us
    return min(drives_us, load.switched_us)


def explain_missing_date(case: Case) -> str:
    """Explain why nothing dates a cut; "" if something does, or no load is stored."""
    load, cut = case.load, case.cut
    if load is None:
        return ""
    if load.cut_failed:
        return f"whether the switch cut is not known: {load.cut_failed}"
    if cut is None or cut.exact_us is not None:
        return ""
    if why := _explain_unobserved_end(load):
        return why
    if cut.by_hand and load.gone is Gone.BROKEN:
        return _ENDED_FIRST
    if case.drive_only:  # the host runs on; the server ends when it sees errors
        return ""
    switched_us, gone_us = find_latest_cut_us(case), load.gone_us
    if switched_us is not None and gone_us is not None and load.gone is Gone.BROKEN:
        late_s = (switched_us - gone_us) / 1e6
        if late_s >= LAST_ACK_AGE_MAX_S:
            return _SWITCHED_LATER.format(late_s)
    if case.at_the_cut.host_lived is None:
        return _NOT_CHECKED
    return _CUT_LATER if case.at_the_cut.host_lived else ""


def _explain_unobserved_end(load: LoadRecord) -> str:
    """Explain why the end of the server was not observed, "" if it was."""
    seen = find_newest_observation(load)
    if seen.last_ack_us is None:
        return ""
    unseen_s = seen.unseen_us(seen.last_ack_us) / 1e6
    if unseen_s < LAST_ACK_AGE_MAX_S:
        return ""
    unanswered = [gap for gap in seen.gaps if gap.answered_us is None]
    longest = max(unanswered, key=lambda gap: gap.lasted_us)
    return _STOOD_STILL.format(unseen_s, longest.clock.value)
