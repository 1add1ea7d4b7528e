"""What identifies a host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta


@dataclass(frozen=True, slots=True)
class Identity:
    """What a host reports of itself; "" where it cannot.

    serial:  of the machine (DMI), which only root may read.
    boot_id: another one after each boot (random(4)).
    """

    hostname: str
    machine_id: str
    boot_id: str
    serial: str
    addresses: frozenset[str]


@dataclass(frozen=True, slots=True)
class Expected:
    """What the right host reports of itself; "" where nothing is expected."""

    hostname: Annotated[
        str,
        Meta(description="The host name that the host must report before a cut."),
    ] = ""
    serial: Annotated[
        str, Meta(description="The serial number that it must report.")
    ] = ""
    machine_id: Annotated[
        str, Meta(description="The machine id that it must report.")
    ] = ""
