"""Facts of the audit by what was read on a host."""

from __future__ import annotations

from collections.abc import Callable

from dbcheck.audit.subject import Fact
from dbcheck.model.host import Reading

AS_ROOT = (
    "log in there as root (--target-host ssh://root@HOST, or ansible_user in the"
    " inventory)"
)
_DENIED = (
    *("permission denied", "operation not permitted", "must be root"),
    "administrator rights",  # ssacli
)


def known(value: str, how: str) -> Fact:
    """Return a fact that the host shows, or does not."""
    return Fact(value, how) if value else Fact(None, how, "not reported by the host")


def fact_of(reading: Reading | None, parse: Callable[[str], str | None]) -> Fact:
    """Return the fact that *parse* finds in a reading, or why it is not known."""
    if reading is None:
        return Fact(None, "", "nothing on this host shows it")
    value = parse(reading.text)
    if value is not None:
        return Fact(value, reading.how)
    why = reading.why or f"{reading.how} does not show it"
    return Fact(None, reading.how, why, remedy_of(reading.why))


def remedy_of(why: str) -> str:
    """Return the remedy for a reading that failed, "" if none is known."""
    if "not installed" in why:
        return f"install it there: {why.split()[0]}"
    return AS_ROOT if any(each in why.lower() for each in _DENIED) else ""
