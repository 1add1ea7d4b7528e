"""Asks the target's host about a run that another client may have made.

A stranger may have chosen the names of folders and files in the run's manifest, and the
host's agent, which may be root, would read or remove them.  So the agent is asked only
about paths that the server at the user's own URL names now.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import replace

from dbcheck.base.errors import EngineError, HostError
from dbcheck.cycle.host import await_host, finish_host_inspection, inspect_host_again
from dbcheck.cycle.own_data import find_own_data, require_data_directory
from dbcheck.cycle.recovery.pods_again import read_pods_again
from dbcheck.cycle.rig import Rig
from dbcheck.cycle.stored_run import RowStore
from dbcheck.model.host import COLLECTOR, HostAfter, HostBefore, LogMarks, TargetFacts
from dbcheck.model.records import Manifest, NodeAfter
from dbcheck.model.server import ServerFacts
from dbcheck.ports.site import Site
from dbcheck.rows.plans.registry import tables_of
from dbcheck.runs.folder import RunFolder

CANARY = "dbcheck-canary"  # ends the name of each folder of canaries, see hosts


def ask_nodes(
    rig: Rig,
    run: RunFolder,
    manifest: Manifest,
    server: ServerFacts | None,
    *,
    remove_canaries: bool = True,
) -> dict[str, NodeAfter]:
    """Inspect each node again; return the findings by name, none of a node kept off.

    server: the facts of the server whose rows are read, None if it does not answer.
    remove_canaries: whether the canaries are deleted after that.
    """
    found: dict[str, NodeAfter] = {}
    for name in rig.site.nodes:
        if name in rig.site.kept_off:  # its host has no power
            found[name] = NodeAfter(None)
            continue
        facts = (
            server if name == rig.site.reader_name else _read_node_facts(rig.site, name)
        )
        host = _ask_of_run(rig, run, manifest, name, facts, remove=remove_canaries)
        stored = replace(facts, hostname="") if facts else None
        is_read = name == rig.site.reader_name == manifest.writer_name
        pods = read_pods_again(
            rig.site.nodes[name],
            rig.listener,
            manifest.nodes[name].pod,
            host,
            is_primary=is_read and bool(server) and not rig.site.kind.is_group,
            waits=not any(node.pods and node.pods.failure for node in found.values()),
        )
        found[name] = NodeAfter(stored, host, pods)
    return found


def _read_node_facts(site: Site, name: str) -> ServerFacts | None:
    """Return the facts of a node that is not read, None if they are not needed.

    They are needed if all nodes of a group were cut: the nodes give each other what
    they lost, so each must have started anew.
    """
    if not (site.kind.is_group and site.promise and site.promise.cuts_all):
        return None
    with contextlib.suppress(EngineError):
        return site.nodes[name].engine.facts()
    return None


def _ask_of_run(
    rig: Rig,
    run: RunFolder,
    manifest: Manifest,
    name: str,
    server: ServerFacts | None,
    *,
    remove: bool,
) -> HostAfter | None:
    """Inspect the host again, as far as the manifest of *run* may be trusted.

    server: the facts of that node's server, None if it does not answer.
    """
    node, recorded = rig.site.nodes[name], manifest.nodes[name]
    if node.host is None or recorded.host is None or run.is_own():
        absent = server is None and name == rig.site.reader_name
        return inspect_host_again(
            node, rig.listener, recorded, remove=remove, absent=absent
        )
    if server is None:
        return None
    try:
        places = node.engine.places(tables_of(manifest.workload))
        directory = require_data_directory(server)
        await_host(node.host, rig.listener)
        process = 0  # of the host itself, unless a container has the server's data
        with contextlib.suppress(HostError):
            process = find_own_data(node.host, server)
        facts = node.host.facts(directory, places, process)
    except (EngineError, HostError) as error:
        return HostAfter(None, None, None, str(error))
    before = drop_untrusted_names(
        recorded.host, facts, (node.log_path, server.server_log)
    )
    return finish_host_inspection(
        node.host, rig.listener, before, server, places, remove=remove
    )


def find_log_of_run(
    site: Site, run: RowStore, manifest: Manifest, server: ServerFacts
) -> HostBefore | None:
    """Return the record in *manifest* of the log of the server that is read.

    None if that record must not be used.  server: the facts of that server now.
    """
    recorded = manifest.nodes[site.reader_name].host
    if recorded is None or run.is_own():
        return recorded
    logs = (site.reader.log_path, server.server_log)
    marks = _filter_marks(recorded, logs)
    return None if marks is None else replace(recorded, log_marks=marks)


def drop_untrusted_names(
    recorded: HostBefore, facts: TargetFacts, logs: Sequence[str]
) -> HostBefore:
    """Return *recorded* without file names that the server and its host do not give.

    facts: of the host, now.  logs: the paths of its log that the user or the server
    names.
    """
    marks = _filter_marks(recorded, logs)
    found = facts.data_directory, facts.container
    return replace(
        recorded,
        facts=replace(recorded.facts, data_directory=found[0], container=found[1]),
        canary_folder=_filter_folder(recorded.canary_folder, facts),
        log_path=recorded.log_path if marks is not None else "",
        log_marks=marks or {},
        elsewhere=tuple(
            replace(each, folder=_filter_folder(each.folder, facts))
            for each in recorded.elsewhere
        ),
    )


def _filter_marks(recorded: HostBefore, logs: Sequence[str]) -> LogMarks | None:
    """Return the marks of files that *logs* name, None if they name another log.

    A server does not name the file to which its standard error goes.
    """
    path, marks = recorded.log_path, recorded.log_marks
    if path not in logs:
        return None
    if path.startswith(COLLECTOR):
        folder = "/" + path.partition("//")[2]
        return {
            file: mark
            for file, mark in marks.items()
            if os.path.dirname(file) == folder
        }
    return marks if path.startswith("/") else None


def _filter_folder(folder: str, facts: TargetFacts) -> str:
    """Return *folder* if it lies where canaries of this server do, else ""."""
    places = {path for volume in facts.volumes for path in volume.places.values()}
    parent, name = os.path.split(folder)
    beside = {os.path.dirname(path) for path in places}
    may_hold_canaries = name.endswith(CANARY) and parent in places | beside
    return folder if may_hold_canaries else ""
