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
from dbcheck.model.cluster import ONLY_NODE, SiteKind
from dbcheck.model.places import OF_TABLES
from dbcheck.model.records import AfterRecord, Manifest, NodeBefore
from dbcheck.model.server import ServerFacts, find_difference_of_servers
from dbcheck.model.verdict import Verdict
from dbcheck.rows.earlier import count_losses_by_epoch
from dbcheck.rows.table import TableFacts
from dbcheck.runs.folder import RunFolder

# MySQL makes a new server_uuid for a data folder without auto.cnf (8.4 manual, 19.1.6).
_OF_A_NODES_DATA = {"timeline", "server_uuid", "server_id"}
NO_IDS: Mapping[str, Sequence[int]] = {}
WHO_REMOVED_ROWS = (
    "Find out who removed them (dbcheck clean, DROP, DELETE, a backup that was"
    " restored), whether the server lost them by itself (its log may show that), or"
    " whether a later cut did, after which no rows were read."
)


@dataclass(frozen=True, slots=True)
class KnownNode:
    """A node of a cluster, as the first cycle that saw it did.

    identity: see model.server.ServerFacts; without what a promotion changes, or new
              data for a node that was rebuilt: it is known by its place in the cluster
              and by the rows of earlier cycles.
    free_bytes: see Known.
    """

    identity: Mapping[str, str] = field(default_factory=dict)
    free_bytes: int | None = None

    @classmethod
    def of(cls, before: NodeBefore) -> KnownNode:
        """Return the node as the preflight of a cycle saw it."""
        host, identity = before.host, before.facts.identity
        kept = {n: identity[n] for n in identity if n not in _OF_A_NODES_DATA}
        return cls(kept, host.facts.data.free_bytes if host else None)


@dataclass(frozen=True, slots=True)
class Known:
    """Facts that the runs of a campaign, a matrix or a control showed of a server.

    identity: what identifies the server (see model.server.ServerFacts), as the first
              cycle with each name saw it.
    run:      id of the last run whose rows were read, "" if none were.
    tables:   name of a table -> its rows after that run; {} if there is no such run.
    different: name of a table -> ids of the rows that the reading found changed, as
              far as they are known.  These rows stay in the table, and a cut that
              changed one must not count again in each later cycle.
    free_bytes: the free space on the data directory's filesystem before the first load;
              None if that is not known.
    configured: the settings, and what the places lie on, by name.
    places:   the path of each place, links followed.
    Both are as the first cycle that counts and has the name saw them; {} for a cluster,
    whose writer may be another node each time.
    nodes:    of a cluster, by name, in place of *identity* and *free_bytes*.
    """

    identity: Mapping[str, str] = field(default_factory=dict)
    run: str = ""
    tables: Mapping[str, TableFacts] = field(default_factory=dict)
    different: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    free_bytes: int | None = None
    configured: Mapping[str, str] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)
    nodes: Mapping[str, KnownNode] = field(default_factory=dict)

    def with_run(
        self,
        manifest: Manifest,
        after: AfterRecord,
        different: Mapping[str, Sequence[int]] = NO_IDS,
    ) -> Known:
        """Return the facts after the run of *manifest*.

        different: name of a table -> ids of the rows that its reading found changed.
        """
        if manifest.site.is_cluster:
            seen = {name: KnownNode.of(node) for name, node in manifest.nodes.items()}
            known = replace(self, nodes={**seen, **self.nodes})
        else:
            identity = {**manifest.writer.facts.identity, **self.identity}
            free = self.free_bytes
            if free is None:
                free = KnownNode.of(manifest.writer).free_bytes
            known = replace(self, identity=identity, free_bytes=free)
        if not after.tables:
            return known
        changed = {n: ids for n, ids in self.different.items() if n not in after.tables}
        changed |= {name: tuple(ids) for name, ids in different.items()}
        tables = {**self.tables, **after.tables}
        return replace(known, run=manifest.run_id, tables=tables, different=changed)

    def without_rows(self) -> Known:
        """Return the facts after the tables were dropped.

        The places of the tables are left out: before tables are made anew they are
        expected in a folder above, see model.places.list_moved_places().
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
        """Return the facts after all rows of the *tables* were read outside of a run.

        different: name of a table -> ids of the rows that this reading found changed.
        """
        return replace(
            self,
            tables={**self.tables, **tables},
            different={**self.different, **different},
        )

    def with_outcome(self, outcome: Outcome) -> Known:
        """Return the facts after the judged run of *outcome*."""
        manifest, writer = outcome.manifest, outcome.manifest.writer
        known = self.with_run(
            manifest, outcome.after, read_different_ids(outcome.run, manifest)
        )
        counts = not manifest.control and outcome.verdict is not Verdict.INCONCLUSIVE
        if not counts or manifest.site is not SiteKind.SINGLE:
            return known
        return replace(
            known,
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

        Raise TargetChanged if rows of earlier cycles are not in it any more.  An epoch
        whose count or weight differs from that of the last reading has rows that were
        never read, so it is not sound.  If the list of changed rows may be incomplete,
        no epoch is.
        """
        self.require_rows(name, table)
        earlier, different = self.tables.get(name), self.different.get(name)
        if earlier is None or different is None:
            return table
        sound = tuple(
            epoch
            for epoch, weight in table.weights_by_epoch.items()
            if earlier.weights_by_epoch.get(epoch) == weight
            and earlier.rows_by_epoch.get(epoch) == table.rows_by_epoch.get(epoch)
        )
        is_complete = len(different) < DIFFERENT_MAX
        return replace(table, different=different, sound=sound if is_complete else ())

    def is_sound(self, name: str, table: TableFacts) -> bool:
        """Return True if every row of *table* was read, and none was changed."""
        earlier = self.tables.get(name, TableFacts({}, 0))
        return (
            not self.different.get(name)
            and table.rows_by_epoch == earlier.rows_by_epoch
            and table.weights_by_epoch == earlier.weights_by_epoch
        )

    @property
    def _when_read(self) -> str:
        """A text that says when the known rows were read."""
        return f"run {self.run} was read" if self.run else "they were read just now"

    def find_node(self, name: str) -> KnownNode:
        """Return the known facts of a node, or of the only server."""
        if name == ONLY_NODE:
            return KnownNode(self.identity, self.free_bytes)
        return self.nodes.get(name, KnownNode())

    def require_same(self, name: str, target: str, facts: ServerFacts) -> None:
        """Raise TargetChanged if *target* leads to another server than before.

        name: of the node at *target*.
        """
        known = self.find_node(name).identity
        if difference := find_difference_of_servers(known, facts.identity):
            raise TargetChanged(
                f"{target} is not as it was in the earlier cycles: {difference}",
                id=ErrorId.TARGET_CHANGED,
                hint="If this is another server, name the first one again; if it was"
                " changed, undo that. Or begin a new campaign, or a new go-live check:"
                " cuts of two servers, or versions of one, must not be counted"
                " together.",
            )

    def require_same_nodes(self, manifest: Manifest) -> None:
        """Raise TargetChanged if a node of *manifest* is another server than before.

        Also one that only follows: it may be the one that is read.
        """
        for name, node in manifest.nodes.items():
            self.require_same(name, node.target, node.facts)

    def require_same_setup(self, node: NodeBefore) -> None:
        """Raise TargetChanged if a server, or what it lies on, is set up otherwise.

        A fact that is not known of both times is not compared.  A place may lie below
        its earlier path: before a table is made, it is expected in a folder above.
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
                hint="Undo that and continue with --resume, or begin a new campaign,"
                " or a new go-live check: cuts under two configurations must not be"
                " counted together.",
            )

    def require_rows(self, name: str, table: TableFacts) -> None:
        """Raise TargetChanged if rows of earlier cycles are not in *table* any more."""
        earlier = self.tables.get(name)
        if earlier is None:
            return
        lost = count_losses_by_epoch(
            earlier.rows_by_epoch,
            earlier.weights_by_epoch,
            table.rows_by_epoch,
            table.weights_by_epoch,
        )
        if lost:
            raise TargetChanged(
                f"rows of earlier cycles in the table {name} are missing or changed"
                f" since {self._when_read} (at least {sum(lost.values())})",
                id=ErrorId.EARLIER_ROWS_LOST,
                hint=f"{WHO_REMOVED_ROWS} Then begin a new campaign; an old one can be"
                " resumed only if they are restored.",
            )


def _list_configuration(node: NodeBefore) -> dict[str, str]:
    """Return settings by name, also those of mounts, and what the places lie on."""
    volumes = node.host.facts.volumes if node.host else ()
    options = [volume.mount_options for volume in volumes]
    configuration = {**node.facts.settings, **storage.parse_mount_settings(options)}
    configuration["version"] = f"{node.facts.product} {node.facts.version}"
    for volume in volumes:
        caches = {layer.write_cache for layer in volume.layers} - {""}
        for name in filter(_has_stable_name, volume.places):
            configuration[f"type of filesystem of {name}"] = volume.filesystem
            if volume.filesystem_uuid:
                configuration[f"filesystem of {name}"] = volume.filesystem_uuid
            if caches:
                configuration[f"write caches of {name}"] = ", ".join(sorted(caches))
    return configuration | (node.pod.list_volumes() if node.pod else {})


def _list_places(node: NodeBefore) -> dict[str, str]:
    """Return the path of each place by its name, with links followed if known."""
    paths = {place.name: place.path for place in node.places}
    for volume in node.host.facts.volumes if node.host else ():
        paths |= volume.places
    return {
        name: path for name, path in paths.items() if path and _has_stable_name(name)
    }


def _has_stable_name(name: str) -> bool:
    """Return True if the place keeps this name; names with a number may change."""
    return not name[-1].isdecimal() and not name.endswith(" files")


def read_different_ids(run: RunFolder, manifest: Manifest) -> dict[str, list[int]]:
    """Return, by table, the ids of the rows that the run's reading found changed."""
    ids_of_table = {name: run.different_ids(name) for name in manifest.tables}
    return {name: ids for name, ids in ids_of_table.items() if ids is not None}


NOTHING_KNOWN = Known()
