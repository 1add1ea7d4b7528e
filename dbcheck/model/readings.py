"""What files and tools of a host show, as they show it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reading:
    """One text that was read on the host.

    of:   the block device or ZFS dataset that it is about, "" the host itself.
    what: names it, see hosts.agent.readings.
    how:  the file or command, for reports.
    text: what it held; of a tool also what it printed before it failed.
    why:  the reason if it could not be read, else "".
    """

    of: str
    what: str
    how: str
    text: str
    why: str


class Readings:
    """All that was read of one host."""

    def __init__(self, found: Iterable[Reading] = ()) -> None:
        """Hold what was *found*; of readings with one name the first counts."""
        self._found: dict[tuple[str, str], Reading] = {}
        for each in found:
            self._found.setdefault((each.of, each.what), each)

    def get(self, of: str, what: str) -> Reading | None:
        """Return one of them, None if nothing of that name was tried."""
        return self._found.get((of, what))

    def text(self, of: str, what: str) -> str:
        """Return its text, "" if it could not be read."""
        found = self.get(of, what)
        return "" if found is None or found.why else found.text.strip()

    def named(self, *whats: str) -> list[Reading]:
        """Return those with one of these names, whatever they are of."""
        return [each for each in self._found.values() if each.what in whats]
