"""When the power of a stored run went, by what evidence.

A lab knows the cut itself, and a switch was asked at a moment that the client knows.  A
cut by hand comes at a moment that nobody tells.  What is known of it:

- The server went silent, and so did its host: a power cut looks like that.  The host's
  last report is taken to be the moment of the cut, or the last ack where no report came
  after it.  That is assumed, never seen: a network that failed first looks the same.
- The connections broke: a power cut leaves silence, so the server ended by itself, and
  the power was cut at some time after that.  What the drive held may have been written.
- The host still answered when the load was over: the power was cut after that.  So it
  is with a switch that acts late.
"""

from __future__ import annotations

from dbcheck.core.ended import BROKEN
from dbcheck.core.evidence import AtTheCut
from dbcheck.runs import LoadRecord

_AGAIN = "cut again, while the server works"
_ENDED_FIRST = (
    "the server closed its connections, and a power cut leaves silence: it ended by "
    f"itself, and how much later its power was cut by hand is not known; {_AGAIN}"
)
_CUT_LATER = (
    "the host still answered when the load was over: how much later its power was cut "
    f"is not known; {_AGAIN}"
)


def at_the_cut(load: LoadRecord | None, window_acks: int) -> AtTheCut | None:
    """Return the load at the moment of the cut, None if its record was lost.

    window_acks: see runs.Manifest.
    """
    if load is None:
        return None
    return AtTheCut(
        last_ack_us=load.last_ack_us,
        cut_us=cut_us(load),
        asked=load.cut is not None,
        gone=load.gone,
        in_flight=load.in_flight,
        farewells=load.farewells,
        by_hand=load.cut is not None and load.cut.by_hand,
        undated=_undated(load),
        window_full=sum(one.acks for one in load.windows) >= window_acks,
    )


def cut_us(load: LoadRecord | None) -> int | None:
    """Return the moment of the cut as well as it is known, or None.

    In microseconds of the client's clock.  The cut cannot be earlier than the moment at
    which the switch was asked, whatever happened to the sessions before; nor, if it was
    made by hand, than the last report of the canaries on the host.
    """
    if load is None or _undated(load):
        return None
    if load.cut is not None:
        if load.cut.exact_us is not None:
            return load.cut.exact_us
        if load.cut.asked_us is not None:
            return max(load.cut.asked_us, load.gone_us or 0)
        if load.gone_us is not None and load.heard_us is not None:
            return max(load.gone_us, load.heard_us)
    return load.gone_us


def _undated(load: LoadRecord) -> str:
    """Return why nothing dates a cut, "" if something does."""
    if load.cut is None or load.cut.exact_us is not None:
        return ""
    if load.cut.by_hand and load.gone == BROKEN:
        return _ENDED_FIRST
    return _CUT_LATER if load.host_lived else ""
