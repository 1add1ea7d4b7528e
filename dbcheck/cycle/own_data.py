"""Finds the server's own data on its host, also in a container."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError
from dbcheck.model.host import TargetFacts
from dbcheck.model.places import (
    FoundData,
    Place,
    find_missing_mark,
    find_sign_of_other_data,
    find_sign_of_other_names,
)
from dbcheck.model.server import ServerFacts
from dbcheck.ports.host import TargetHost


def require_data_directory(server: ServerFacts) -> str:
    """Return the server's data directory; raise HostError if it is not readable."""
    for name in ("data_directory", "datadir"):
        if name in server.identity:
            return server.identity[name]
    raise HostError(
        "the server's data_directory cannot be read: "
        + server.unreadable.get("data_directory", "the server shows none"),
        id=ErrorId.PRIVILEGE_MISSING,
        hint="dbcheck grants prints every right that the account needs, with reasons.",
    )


def mark_nothing() -> str:
    """Stand for Engine.mark_data() where nothing may be written."""
    return ""


def find_own_data(
    host: TargetHost, server: ServerFacts, mark_data: Callable[[], str] = mark_nothing
) -> int:
    """Return the process that has the server's data in a container, 0 if none has.

    mark_data: marks the server's data, and returns the mark, see Engine.mark_data().
    Raise HostError unless one directory on the host holds the server's own data.
    """
    directory = require_data_directory(server)
    found = host.find_data(directory)
    signs = {
        each.process: find_sign_of_other_data(
            server.identity,
            server.started_us,
            each.names,
            is_standby=server.is_standby,
        )
        for each in found
    }
    if not all(signs.values()) and (mark := mark_data()):
        # A container may have ended or started meanwhile: only this look counts.
        found = host.find_data(directory)
        signs = {
            each.process: signs.get(each.process) or find_missing_mark(mark, each.names)
            for each in found
        }
    own = [process for process, sign in signs.items() if not sign]
    if len(own) > 1:
        own = find_same_hostname(server, found, own) or own
    if not own:
        raise HostError(
            f"{directory} on the target's host is not the data directory of this "
            f"server: {'; '.join(dict.fromkeys(signs.values()))}",
            id=ErrorId.DATA_DIRECTORY_NOT_ON_HOST,
            hint="Name the host that the server runs on, and log in there as root or, "
            "unless it runs in a container, as the server's user. Or run without "
            "--target-host.",
        )
    if len(own) > 1:
        named = [
            f"process {each} in a container" if each else "one in no container"
            for each in own
        ]
        raise HostError(
            f"several servers on the target's host have the data directory {directory} "
            f"with this server's id: {', '.join(named)}",
            id=ErrorId.DATA_DIRECTORY_AMBIGUOUS,
            hint="One was copied from the other, or both are MariaDB, whose data have "
            "no id but the mark that a run writes, and have the same hostname. Stop "
            "the one that is not the target. Or run without --target-host.",
        )
    return own[0]


def find_same_hostname(
    server: ServerFacts, found: Sequence[FoundData], own: Sequence[int]
) -> list[int]:
    """Return the one process of *own* whose hostname the server reports, [] if unsure.

    A host may have been renamed since the server started, so this only decides between
    directories that nothing else tells apart, and only if all hostnames are known.
    """
    hostnames = {each.process: each.hostname for each in found if each.process in own}
    same = [each for each, name in hostnames.items() if name == server.hostname]
    return same if len(same) == 1 and all(hostnames.values()) else []


def read_own_facts(
    host: TargetHost,
    server: ServerFacts,
    places: Sequence[Place],
    mark_data: Callable[[], str] = mark_nothing,
) -> TargetFacts:
    """Return the facts of the host, and of the server's own data and *places* there.

    See find_own_data().  Raise HostError, also if one of the server's processes finds
    other files at a path.
    """
    process = find_own_data(host, server, mark_data)
    facts = host.facts(require_data_directory(server), places, process)
    for place, text in facts.seen_otherwise.items():
        raise HostError(
            f"the server finds its {place} elsewhere than the target's host: {text}",
            id=ErrorId.SERVER_FINDS_OTHER_FILES,
            hint="A process of the server has mounts of its own (a container, or "
            "BindPaths= of a service), so its depth cannot be measured there. Mount "
            "that path for the whole host. Or run without --target-host.",
        )
    return facts


def read_facts_again(
    host: TargetHost,
    before: TargetFacts,
    server: ServerFacts,
    places: Sequence[Place],
    *,
    absent: bool = False,
) -> TargetFacts:
    """Return the facts of a host that *before* described; raise HostError.

    The container has another process now.  If several servers have the server's id, the
    one with the directory from before is taken.
    absent: the server does not answer, so its container may have no process, as with
    data that keep it from starting, and what is found may be a neighbour's.  Then the
    host is asked about its own paths.
    """
    if before.container is None:
        return host.facts(before.data_directory, places)
    try:
        found = _read_facts_of_new_process(host, before, server, places)
        if not absent or found.data_directory == before.data_directory:
            return found
    except HostError:
        if not absent:
            raise
    of_host = [
        Place(name, path)
        for volume in before.volumes
        for name, path in volume.places.items()
    ]
    return host.facts(before.data_directory, of_host)


def _read_facts_of_new_process(
    host: TargetHost,
    before: TargetFacts,
    server: ServerFacts,
    places: Sequence[Place],
) -> TargetFacts:
    """Return the facts as the process of the container that came back finds them.

    If several have data of the server's names, that with the directory from before is
    taken.  Raise HostError.
    """
    directory = require_data_directory(server)
    found: list[TargetFacts] = []
    failure: HostError | None = None
    for each in host.find_data(directory):
        if find_sign_of_other_names(server.identity, each.names):
            continue
        try:
            found.append(host.facts(directory, places, each.process))
        except HostError as error:  # it may be another server's
            failure = failure or error
    same = [each for each in found if each.data_directory == before.data_directory]
    if same:
        return same[0]
    if failure:
        raise failure
    if len(found) == 1:
        return found[0]
    raise HostError(
        f"the server's data directory is not {before.data_directory} on the target's "
        f"host any more: {len(found) or 'no'} containers there have data with its id",
        id=ErrorId.DATA_DIRECTORY_MOVED,
        hint="Have the container come back on the same host with the same volume, "
        "then run it again.",
    )
