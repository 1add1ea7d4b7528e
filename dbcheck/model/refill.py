"""Where a server may have got rows back from that it had lost itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refill:
    """What a server that is tested alone took from other servers since its start.

    how:      a sentence's beginning, without its subject: "is a member of ...".
    advice:   what to do for a verdict next time; a sentence without its full stop.
    replaces: its data may be another server's copy, in which a row may be missing that
              this one had, so none is judged.  Otherwise what came can only have
              hidden a loss.
    unknown:  the server did not show whether it took anything; how says what it may
              have taken.
    """

    how: str
    advice: str
    replaces: bool = False
    unknown: bool = False


def of_both(earlier: Refill | None, later: Refill | None) -> Refill | None:
    """Return which of two looks at a server counts; None if neither showed any.

    What a server showed counts more than what it did not show, and a copy of another
    server's data more than other rows; of two alike the earlier counts.
    """
    return later if _weight(later) > _weight(earlier) else earlier


def _weight(refill: Refill | None) -> tuple[bool, bool, bool]:
    if refill is None:
        return False, False, False
    return True, not refill.unknown, refill.replaces
