"""What earlier cycles showed of a server, before the next one.

A cut is judged by what stood in the table before it.  So what changed between two
cycles has to be found before the next one, or no cycle ever misses it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from dbcheck.campaign.outcome import Outcome
from dbcheck.campaign.survivors import DIFFERENT_MAX
from dbcheck.core.earlier import lost_by_epoch
from dbcheck.core.records import AfterRecord, Manifest
from dbcheck.core.server import ServerFacts, difference
from dbcheck.core.table import TableFacts
from dbcheck.error_ids import ErrorId
from dbcheck.errors import TargetChanged
from dbcheck.runs import RunFolder

NO_IDS: Mapping[str, Sequence[int]] = {}


@dataclass(frozen=True, slots=True)
class Known:
    """What the runs of a campaign, a matrix or a control showed of their server.

    identity: see core.server.ServerFacts; each name has the value that it had first.
    run:      id of the last run whose rows were read, "" if none were.
    tables:   what that run left, by the table's name; {} if there is none.
    different: the same of the ids of the rows that its reading found changed, as far
              as that is known.  They stay in the table: a cut that changed one row must
              not count in every later cycle.
    free_bytes: what was free on the data directory's filesystem before the first load;
              None if that is not known.
    """

    identity: Mapping[str, str] = field(default_factory=dict)
    run: str = ""
    tables: Mapping[str, TableFacts] = field(default_factory=dict)
    different: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    free_bytes: int | None = None

    def with_run(
        self,
        manifest: Manifest,
        after: AfterRecord,
        different: Mapping[str, Sequence[int]] = NO_IDS,
    ) -> Known:
        """Return what is known once that run is over.

        different: by the table's name; see RunFolder.different_ids().
        """
        identity = {**manifest.writer.facts.identity, **self.identity}
        host, free = manifest.writer.host, self.free_bytes
        if free is None and host is not None:
            free = host.facts.data.free_bytes
        if not after.tables:
            return replace(self, identity=identity, free_bytes=free)
        known = {n: ids for n, ids in self.different.items() if n not in after.tables}
        known |= {name: tuple(ids) for name, ids in different.items()}
        tables = {**self.tables, **after.tables}
        return Known(identity, manifest.run_id, tables, known, free)

    def without_rows(self) -> Known:
        """Return what is known once the tables are dropped."""
        return replace(self, run="", tables={}, different={})

    def with_rows(
        self,
        tables: Mapping[str, TableFacts],
        different: Mapping[str, tuple[int, ...]],
    ) -> Known:
        """Return what is known once all rows of the *tables* were read, by no run."""
        return replace(
            self,
            tables={**self.tables, **tables},
            different={**self.different, **different},
        )

    def with_outcome(self, outcome: Outcome) -> Known:
        """Return what is known once that run, which is judged, is over."""
        return self.with_run(
            outcome.manifest, outcome.after, different_of(outcome.run, outcome.manifest)
        )

    def of_tables(self, tables: Mapping[str, TableFacts]) -> dict[str, TableFacts]:
        """Return what each of the *tables* holds, see of_table()."""
        return {name: self.of_table(name, table) for name, table in tables.items()}

    def of_table(self, name: str, table: TableFacts) -> TableFacts:
        """Return *table*, counted now, with what is known of its contents.

        Raise TargetChanged if rows that were left are not in it any more.
        An epoch that is counted and weighed otherwise than it was read has rows that
        were never read.  Where not every changed row is listed, none is shown to be
        sound.
        """
        self.require_rows(name, table)
        left, different = self.tables.get(name), self.different.get(name)
        if left is None or different is None:
            return table
        sound = tuple(
            epoch
            for epoch, weight in table.weights_by_epoch.items()
            if left.weights_by_epoch.get(epoch) == weight
            and left.rows_by_epoch.get(epoch) == table.rows_by_epoch.get(epoch)
        )
        whole = len(different) < DIFFERENT_MAX
        return replace(table, different=different, sound=sound if whole else ())

    def is_sound(self, name: str, table: TableFacts) -> bool:
        """Return whether every row of *table* was read, and none was changed."""
        left = self.tables.get(name, TableFacts({}, 0))
        return (
            not self.different.get(name)
            and table.rows_by_epoch == left.rows_by_epoch
            and table.weights_by_epoch == left.weights_by_epoch
        )

    @property
    def _read(self) -> str:
        """When the rows that are known were read."""
        return f"run {self.run} was read" if self.run else "they were read just now"

    def require_same(self, target: str, facts: ServerFacts) -> None:
        """Raise TargetChanged if *target* leads to another server than before."""
        if other := difference(self.identity, facts.identity):
            raise TargetChanged(
                f"{target} is not as it was in the earlier cycles: {other}",
                id=ErrorId.TARGET_CHANGED,
                hint="If this is another server, name the first one again; if it was"
                " changed, undo that. Or begin a new campaign: cuts of two servers, or"
                " versions of one, must not be counted together.",
            )

    def require_rows(self, name: str, table: TableFacts) -> None:
        """Raise TargetChanged if rows that were left are not in *table* any more."""
        left = self.tables.get(name)
        if left is None:
            return
        lost = lost_by_epoch(
            left.rows_by_epoch,
            left.weights_by_epoch,
            table.rows_by_epoch,
            table.weights_by_epoch,
        )
        if lost:
            raise TargetChanged(
                f"rows of earlier cycles in the table {name} are missing or changed"
                f" since {self._read} (at least {sum(lost.values())})",
                id=ErrorId.EARLIER_ROWS_LOST,
                hint="Find out who removed them (dbcheck clean, DROP, DELETE, a backup"
                " that was restored), whether the server lost them by itself (its log"
                " may show that), or whether a later cut did, after which no rows were"
                " read. Then begin a new campaign; an old one can be resumed only if"
                " they are restored.",
            )


def different_of(run: RunFolder, manifest: Manifest) -> dict[str, list[int]]:
    """Return, by table, the ids of the rows that the run's reading found changed."""
    found = {name: run.different_ids(name) for name in manifest.tables}
    return {name: ids for name, ids in found.items() if ids is not None}


NOTHING_KNOWN = Known()
