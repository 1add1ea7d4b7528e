"""Keeps facts from earlier cycles of a server for the next one.

A cut is judged by the rows in the table before it.  So a change between two cycles must
be found before the next one, or no cycle ever notices it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from dbcheck.audit import storage
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import TargetChanged
from dbcheck.cycle.outcome import Outcome
from dbcheck.cycle.recovery.survivors import DIFFERENT_MAX
from dbcheck.model.cluster import SiteKind
from dbcheck.model.places import OF_TABLES
from dbcheck.model.records import AfterRecord, Manifest, NodeBefore
from dbcheck.model.server import ServerFacts, find_difference_of_servers
from dbcheck.model.verdict import Verdict
from dbcheck.rows.earlier import count_losses_by_epoch
from dbcheck.rows.table import TableFacts
from dbcheck.runs.folder import RunFolder

NO_IDS: Mapping[str, Sequence[int]] = {}


@dataclass(frozen=True, slots=True)
class Known:
    """Facts that the runs of a campaign, a matrix or a control showed of a server.

    identity: see model.server.ServerFacts; each name has the value that it had first.
    run:      id of the last run whose rows were read, "" if none were.
    tables:   what that run left, by the table's name; {} if there is none.
    different: the same of the ids of the rows that its reading found changed, as far
              as that is known.  They stay in the table: a cut that changed one row must
              not count in every later cycle.
    free_bytes: what was free on the data directory's filesystem before the first load;
              None if that is not known.
    configured: settings, and what the places lie on, by name; places: the path of each
              place, links followed.  As the first cycles that count had each; {} of a
              cluster, whose writer may be another node each time.
    """

    identity: Mapping[str, str] = field(default_factory=dict)
    run: str = ""
    tables: Mapping[str, TableFacts] = field(default_factory=dict)
    different: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    free_bytes: int | None = None
    configured: Mapping[str, str] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)

    def with_run(
        self,
        manifest: Manifest,
        after: AfterRecord,
        different: Mapping[str, Sequence[int]] = NO_IDS,
    ) -> Known:
        """Return the facts once that run is over.

        different: by the table's name; see RunFolder.different_ids().
        """
        identity = {**manifest.writer.facts.identity, **self.identity}
        host, free = manifest.writer.host, self.free_bytes
        if free is None and host is not None:
            free = host.facts.data.free_bytes
        found = replace(self, identity=identity, free_bytes=free)
        if not after.tables:
            return found
        known = {n: ids for n, ids in self.different.items() if n not in after.tables}
        known |= {name: tuple(ids) for name, ids in different.items()}
        tables = {**self.tables, **after.tables}
        return replace(found, run=manifest.run_id, tables=tables, different=known)

    def without_rows(self) -> Known:
        """Return the facts once the tables are dropped.

        Where they lay does not count then: before they are made anew they are expected
        in a folder above, see model.places.list_moved_places().
        """
        places = {n: path for n, path in self.places.items() if n not in OF_TABLES}
        return replace(self, run="", tables={}, different={}, places=places)

    def without_setup(self) -> Known:
        """Return the facts without the server's setup, which may have changed."""
        return replace(self, configured={}, places={})

    def with_rows(
        self,
        tables: Mapping[str, TableFacts],
        different: Mapping[str, tuple[int, ...]],
    ) -> Known:
        """Return the facts once all rows of the *tables* were read outside of a run."""
        return replace(
            self,
            tables={**self.tables, **tables},
            different={**self.different, **different},
        )

    def with_outcome(self, outcome: Outcome) -> Known:
        """Return the facts once that judged run is over."""
        manifest, writer = outcome.manifest, outcome.manifest.writer
        found = self.with_run(
            manifest, outcome.after, read_different_ids(outcome.run, manifest)
        )
        counts = not manifest.control and outcome.verdict is not Verdict.INCONCLUSIVE
        if not counts or manifest.site is not SiteKind.SINGLE:
            return found
        return replace(
            found,
            configured={**_list_configuration(writer), **self.configured},
            places={**_list_places(writer), **self.places},
        )

    def complete_tables(
        self, tables: Mapping[str, TableFacts]
    ) -> dict[str, TableFacts]:
        """Return the facts of each of the *tables*, see of_table()."""
        return {name: self.of_table(name, table) for name, table in tables.items()}

    def of_table(self, name: str, table: TableFacts) -> TableFacts:
        """Return *table*, counted now, with the known facts of its contents.

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
        """Return True if every row of *table* was read, and none was changed."""
        left = self.tables.get(name, TableFacts({}, 0))
        return (
            not self.different.get(name)
            and table.rows_by_epoch == left.rows_by_epoch
            and table.weights_by_epoch == left.weights_by_epoch
        )

    @property
    def _read(self) -> str:
        """The time at which the known rows were read."""
        return f"run {self.run} was read" if self.run else "they were read just now"

    def require_same(self, target: str, facts: ServerFacts) -> None:
        """Raise TargetChanged if *target* leads to another server than before."""
        if other := find_difference_of_servers(self.identity, facts.identity):
            raise TargetChanged(
                f"{target} is not as it was in the earlier cycles: {other}",
                id=ErrorId.TARGET_CHANGED,
                hint="If this is another server, name the first one again; if it was"
                " changed, undo that. Or begin a new campaign: cuts of two servers, or"
                " versions of one, must not be counted together.",
            )

    def require_same_setup(self, node: NodeBefore) -> None:
        """Raise TargetChanged if a server, or what it lies on, is set up otherwise.

        What was not known at one of both times is not compared.  A table that was yet
        to be made was expected in a folder in which, or below which, it lies then.
        """
        now, where = _list_configuration(node), _list_places(node)
        changed = [
            f"{name} was {was} and is {now[name]}"
            for name, was in sorted(self.configured.items())
            if now.get(name, was) != was
        ]
        changed += [
            f"{name} was at {was} and is at {where[name]}"
            for name, was in sorted(self.places.items())
            if not PurePosixPath(where.get(name, was)).is_relative_to(was)
        ]
        if changed:
            raise TargetChanged(
                f"{node.target} is not set up as in the earlier cycles:"
                f" {'; '.join(changed)}",
                id=ErrorId.CONFIGURATION_CHANGED,
                hint="Undo that and continue with --resume, or begin a new campaign:"
                " cuts under two configurations must not be counted together.",
            )

    def require_rows(self, name: str, table: TableFacts) -> None:
        """Raise TargetChanged if rows that were left are not in *table* any more."""
        left = self.tables.get(name)
        if left is None:
            return
        lost = count_losses_by_epoch(
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


def _list_configuration(node: NodeBefore) -> dict[str, str]:
    """Return settings by name, those too that mounts imply, and what places lie on."""
    volumes = node.host.facts.volumes if node.host else ()
    options = [volume.mount_options for volume in volumes]
    found = {**node.facts.settings, **storage.parse_mount_settings(options)}
    found["version"] = f"{node.facts.product} {node.facts.version}"
    for volume in volumes:
        caches = {layer.write_cache for layer in volume.layers} - {""}
        for name in filter(_has_stable_name, volume.places):
            found[f"type of filesystem of {name}"] = volume.filesystem
            if volume.filesystem_uuid:
                found[f"filesystem of {name}"] = volume.filesystem_uuid
            if caches:
                found[f"write caches of {name}"] = ", ".join(sorted(caches))
    return found


def _list_places(node: NodeBefore) -> dict[str, str]:
    """Return the path of each place by its name, with links followed if known."""
    found = {each.name: each.path for each in node.places}
    for volume in node.host.facts.volumes if node.host else ():
        found |= volume.places
    return {
        name: path for name, path in found.items() if path and _has_stable_name(name)
    }


def _has_stable_name(name: str) -> bool:
    """Return True if a place keeps that name; numbered ones may change."""
    return not name[-1].isdecimal() and not name.endswith(" files")


def read_different_ids(run: RunFolder, manifest: Manifest) -> dict[str, list[int]]:
    """Return, by table, the ids of the rows that the run's reading found changed."""
    found = {name: run.different_ids(name) for name in manifest.tables}
    return {name: ids for name, ids in found.items() if ids is not None}


NOTHING_KNOWN = Known()
