"""Whether the witness is on another host than the target."""

from __future__ import annotations

import enum

_START_US = 1000  # what one kernel shows twice differs by some microseconds


class Apart(enum.Enum):
    """What was compared before the load; on one host the run is refused."""

    IDS = "ids"  # machine and boot ids that both hosts reported
    ADDRESSES = "addresses"


def same_host(ours: tuple[str, str], theirs: tuple[str, str]) -> bool | None:
    """Return whether two (machine id, boot id) are of one host, None if unknown.

    The boot id decides where both are known: it is drawn at each boot, and one for all
    containers of a kernel (random(4)) but those of systemd-nspawn and LXC, see
    same_start(), while clones of an image can share a machine id.
    """
    (our_machine, our_boot), (their_machine, their_boot) = ours, theirs
    if our_boot and their_boot:
        return our_boot == their_boot
    if our_machine and their_machine:
        return our_machine == their_machine
    return None


def same_start(ours_us: int | None, theirs_us: int | None) -> bool:
    """Return whether two kernels started at the same moment, so that they may be one.

    In microseconds, by a clock of each; None where that is not known.
    """
    if ours_us is None or theirs_us is None:
        return False
    return abs(ours_us - theirs_us) <= _START_US
