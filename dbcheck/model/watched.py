"""Facts that are looked at while a load runs, and values that differed meanwhile."""

from __future__ import annotations

import enum
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from dbcheck.model.host import TargetFacts, Volume
from dbcheck.rows.table import Definition

SEEN_MAX = 100  # values that are kept; toggling one setting shows two values


class FactKind(enum.Enum):
    """Subject of a fact; the value names it in records.

    PLACE: where a place lies, see describe_location().
    CHANGE_TIME: when the server last loaded or set something, by its own clock.
    TABLE, TABLE_VERSION: see Definition.
    CHANGE_COUNT: how many changes of triggers, and the like, the server has counted.
    """

    SETTING = "setting"
    MOUNT = "mount options"
    WRITE_CACHE = "write cache"
    PLACE = "place"
    CANARY = "crash canary"
    CHANGE_TIME = "time of a change"
    TABLE = "table"
    TABLE_VERSION = "version of a table"
    CHANGE_COUNT = "count of changes"


class Fact(NamedTuple):
    """One fact.

    of: the setting, mount point, block device or place that it is about; "" for a kind
        that has a single fact.
    """

    kind: FactKind
    of: str = ""


CANARY = Fact(FactKind.CANARY)
THERE, GONE = "there", "gone"  # values of CANARY: the crash canary's row

Looked = Mapping[Fact, str]
# Where a place lies: path, filesystem and device number of its own folder, links
# followed, then of the folders on other devices that hold files of it.  () if nowhere.
Folders = tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True)
class Seen:
    """A value that a fact had for a time while the load ran, unlike before the load.

    kind, of: see Fact.  value: "" if the fact was not there.
    looks:  how many looks showed the value.  first_us, last_us: when the first and the
            last of these looks were asked for, on the client's monotonic clock.
    answered_us: when the first of these looks was answered.
    """

    kind: FactKind
    of: str
    value: str
    looks: int
    first_us: int
    last_us: int
    answered_us: int = 0


@dataclass(frozen=True, slots=True)
class Watched:
    """Facts that one server, or one host, showed while the load ran.

    Times are on the client's monotonic clock, in microseconds; each look is dated by
    its question, so that its answer does not seem newer than it is.

    facts: how many facts of each kind were looked at.
    looks: number of looks.  first_us, last_us: times of the first and the last look.
    gap_us: the longest time between two looks.
    seen:  values that were unlike before the load, at most SEEN_MAX.
    ended: why the last attempts to look failed, "" if the last attempt succeeded.
    gaps:  (from, to) of each time without a look that was longer than every earlier
           one; () if that is not known.
    connections: (when the connection was there, when the last look was asked for that
           it answered) of the newest SEEN_MAX connections; () if that is not known.  A
           client that does not date its connections counts as one connection.
    """

    facts: Mapping[FactKind, int]
    looks: int
    first_us: int
    last_us: int
    gap_us: int
    seen: tuple[Seen, ...] = ()
    ended: str = ""
    gaps: tuple[tuple[int, int], ...] = ()
    connections: tuple[tuple[int, int], ...] = ()

    def lived_us(self, before_us: int) -> int | None:
        """Return the last moment at which the server or host surely ran, None if none.

        before_us: some moment before its cut.  No connection outlives a cut, so only
        answers over a connection made by *before_us* count: a later connection may have
        reached a server that had started again.  If a record does not date its
        connections, all answers are taken to have come over one connection.
        """
        lived = [
            last for there_us, last in self.connections_made if there_us <= before_us
        ]
        return max(lived, default=None)

    @property
    def connections_made(self) -> tuple[tuple[int, int], ...]:
        """The connections; if none is dated, a connection that answered every look."""
        return self.connections or ((self.first_us, self.last_us),) * bool(self.looks)

    def has_look_by(self, until_us: int | None) -> bool:
        """Return True if a look came by *until_us*; None: at any time."""
        return bool(self.looks) and (until_us is None or self.first_us <= until_us)

    def moved(self, by_us: int) -> Watched:
        """Return this record by another clock, which shows *by_us* more."""
        return replace(
            self,
            first_us=self.first_us + by_us,
            last_us=self.last_us + by_us,
            seen=tuple(
                replace(
                    seen,
                    first_us=seen.first_us + by_us,
                    last_us=seen.last_us + by_us,
                    answered_us=seen.answered_us + by_us,
                )
                for seen in self.seen
            ),
            gaps=tuple((begun + by_us, end + by_us) for begun, end in self.gaps),
            connections=tuple(
                (there + by_us, last + by_us) for there, last in self.connections
            ),
        )

    def of(self, *kinds: FactKind) -> list[Seen]:
        """Return the changes of the facts of these kinds."""
        return [change for change in self.seen if change.kind in kinds]

    def find_longest_gap_us(self, until_us: int) -> int:
        """Return the longest time between two looks, as far as it is before *until_us*.

        If the record does not date its gaps, return the longest gap of all.
        """
        if not self.gaps:
            return self.gap_us
        return max(0, *(min(to_us, until_us) - from_us for from_us, to_us in self.gaps))

    def find_last_look_before(self, until_us: int) -> int:
        """Return the last look before *until_us*, or a moment that is no later.

        If looks went on after *until_us*, only those gaps are dated that were longer
        than every earlier gap, so any other gap may have been as long as the longest.
        """
        if self.last_us <= until_us:
            return self.last_us
        lived_us = self.lived_us(until_us)
        if lived_us is not None and lived_us <= until_us:
            return lived_us
        begins_of_gaps_around = [
            from_us for from_us, to_us in self.gaps if from_us <= until_us < to_us
        ]
        if begins_of_gaps_around:
            return begins_of_gaps_around[0]
        gaps_before_us = [
            to_us - from_us for from_us, to_us in self.gaps if to_us <= until_us
        ]
        return until_us - max(gaps_before_us, default=self.gap_us)


def join_watched(one: Watched | None, other: Watched | None) -> Watched | None:
    """Join two records of looks at the same facts, as if one client had looked.

    The joined record dates no gaps; it holds only the length of the longest gap.
    """
    if one is None or other is None:
        return one or other
    seen = {(change.kind, change.of, change.value): change for change in one.seen}
    for change in other.seen:
        known = seen.get(key := (change.kind, change.of, change.value))
        seen[key] = change if known is None else _join_seen(known, change)
    apart_us = max(one.first_us - other.last_us, other.first_us - one.last_us)
    connections = sorted(
        (*one.connections_made, *other.connections_made),
        key=lambda connection: connection[1],
    )
    return Watched(
        one.facts,
        one.looks + other.looks,
        min(one.first_us, other.first_us),
        max(one.last_us, other.last_us),
        max(one.gap_us, other.gap_us, apart_us),
        tuple(seen.values())[:SEEN_MAX],
        one.ended or other.ended,
        connections=tuple(connections[-SEEN_MAX:]),
    )


def _join_seen(one: Seen, other: Seen) -> Seen:
    return replace(
        min(one, other, key=lambda seen: seen.first_us),
        looks=one.looks + other.looks,
        last_us=max(one.last_us, other.last_us),
    )


class WatchTally:
    """Adds looks up to a Watched."""

    def __init__(self, before: Looked) -> None:
        """Compare with *before*, or with the first look if *before* lacks a fact."""
        self._before = dict(before)
        self._counts: Counter[FactKind] = Counter()
        self._looks = self._first_us = self._last_us = self._gap_us = 0
        self._gaps: list[tuple[int, int]] = []
        self._seen: dict[tuple[Fact, str], Seen] = {}
        # When the newest connection was there, if it has answered no look yet.
        self._connected_us: int | None = None
        self._connections: deque[tuple[int, int]] = deque(maxlen=SEEN_MAX)

    def connected(self, there_us: int) -> None:
        """Note that the next looks come over a connection made by *there_us*."""
        self._connected_us = there_us

    def add(self, asked_us: int, found: Looked, answered_us: int) -> None:
        """Count the answer to a question that was asked at *asked_us*.

        The looks of several sessions are added in the order of their answers.
        """
        if self._looks:
            if asked_us - self._last_us > self._gap_us:
                self._gap_us = asked_us - self._last_us
                self._gaps.append((self._last_us, asked_us))
        else:
            self._first_us = asked_us
            self._before = {f: self._before.get(f, value) for f, value in found.items()}
            self._counts.update(fact.kind for fact in found)
        self._first_us = min(self._first_us, asked_us)
        self._looks, self._last_us = self._looks + 1, max(self._last_us, asked_us)
        self._note_answer(asked_us)
        for fact, before in self._before.items():
            if (value := found.get(fact, "")) != before:
                self._note_difference(fact, value, asked_us, answered_us)

    def _note_answer(self, asked_us: int) -> None:
        """Note that the newest connection answered what was asked at *asked_us*."""
        there_us, self._connected_us = self._connected_us, None
        if there_us is None and self._connections:
            there_us, _ = self._connections.pop()
        if there_us is not None:
            self._connections.append((there_us, asked_us))

    def _note_difference(
        self, fact: Fact, value: str, asked_us: int, answered_us: int
    ) -> None:
        known = self._seen.get((fact, value))
        if known is not None:
            first_us = min(known.first_us, asked_us)
            last_us = max(known.last_us, asked_us)
            longer_seen = replace(
                known, looks=known.looks + 1, first_us=first_us, last_us=last_us
            )
            self._seen[fact, value] = longer_seen
        elif len(self._seen) < SEEN_MAX:
            seen = Seen(*fact, value, 1, asked_us, asked_us, answered_us)
            self._seen[fact, value] = seen

    def watched(self, ended: str = "") -> Watched:
        """Return the record of all looks; ended: see Watched."""
        return Watched(
            dict(self._counts),
            self._looks,
            self._first_us,
            self._last_us,
            self._gap_us,
            tuple(self._seen.values()),
            ended,
            tuple(self._gaps),
            tuple(self._connections),
        )


def make_facts_of_settings(settings: Mapping[str, str]) -> dict[Fact, str]:
    """Return settings, by name, as facts."""
    return {Fact(FactKind.SETTING, name): text for name, text in settings.items()}


def make_facts_of_tables(tables: Mapping[str, Definition]) -> dict[Fact, str]:
    """Make facts of the definitions of *tables*, which are by name."""
    facts: dict[Fact, str] = {}
    for name, (besides, columns, version) in tables.items():
        facts[Fact(FactKind.TABLE, name)] = besides
        facts[Fact(FactKind.TABLE_VERSION, name)] = f"{version} {columns}".strip()
    return {fact: value for fact, value in facts.items() if value}


def make_facts_of_volumes(volumes: Iterable[Volume]) -> dict[Fact, str]:
    """Make facts of the mounts of *volumes*, and of the caches the kernel assumes."""
    facts: dict[Fact, str] = {}
    for volume in volumes:
        facts[Fact(FactKind.MOUNT, volume.mount_point)] = volume.mount_options
        for layer in volume.layers:
            if layer.write_cache:
                facts[Fact(FactKind.WRITE_CACHE, layer.name)] = layer.write_cache
    return facts


def describe_location(folders: Folders, before: Folders = ()) -> str:
    """Return the location of a place, "" if it is nowhere.

    before: the folders when the place was measured.  Devices that held files of it then
    are still named: a file that cannot be seen now may be there, and a file that is
    gone from there lies where the depth was measured as well.
    """
    if not folders:
        return ""
    (path, *own), *others = folders
    text = f"{path} ({' '.join(own)})"
    others += before[1:]
    apart = sorted({f"{filesystem} {device}" for _, filesystem, device in others})
    return f"{text}, files of it on {', '.join(apart)}" if apart else text


def list_folders_of_places(
    facts: TargetFacts, names: Iterable[str]
) -> dict[str, Folders]:
    """Return the folders of each place in *names* all of whose files could be seen."""
    folder_of_label = {
        label: (path, volume.filesystem, volume.device)
        for volume in facts.volumes
        if volume.device
        for label, path in volume.places.items()
    }
    found = {}
    for name in names:
        files = f"{name} files"
        if name in folder_of_label and not any(
            label.startswith(files) for label in facts.unseen
        ):
            found[name] = (
                folder_of_label[name],
                *(folder_of_label[f] for f in folder_of_label if f.startswith(files)),
            )
    return found


def make_facts_of_places(facts: TargetFacts, names: Iterable[str]) -> dict[Fact, str]:
    """Make facts of the locations of the places *names*, as far as *facts* show."""
    found = list_folders_of_places(facts, names).items()
    return {
        Fact(FactKind.PLACE, name): describe_location(folders)
        for name, folders in found
    }
