"""Whether the witness is on another host than the target."""

from __future__ import annotations

import enum

from dbcheck.core.evidence import Item, Standing


class Apart(enum.Enum):
    """What was compared before the load; on one host the run is refused."""

    IDS = "ids"  # machine and boot ids that both hosts told
    ADDRESSES = "addresses"


def same_host(ours: tuple[str, str], theirs: tuple[str, str]) -> bool | None:
    """Return whether two (machine id, boot id) are of one host, None if unknown.

    The boot id decides where both are known: it is drawn at each boot, and one for all
    containers of a kernel (random(4)), while clones of an image can share a machine id.
    """
    (our_machine, our_boot), (their_machine, their_boot) = ours, theirs
    if our_boot and their_boot:
        return our_boot == their_boot
    if our_machine and their_machine:
        return our_machine == their_machine
    return None


def witness_apart(compared: Apart) -> Item:
    """Say what showed that the witness is not on the target's host."""
    name = "witness apart"
    if compared is Apart.IDS:
        said = "the target's host and the witness have different ids"
        return Item(name, Standing.PRESENT, said, False)
    said = (
        "only addresses were compared, and a tunnel or forwarder hides whose they are;"
        " name the host (--target-host)"
    )
    return Item(name, Standing.NOT_OBSERVABLE, said, False)
