"""Inspects the target's host before the load and after recovery, if one was named."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from dbcheck.base import interrupt
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError
from dbcheck.base.system import clocks_us
from dbcheck.cycle.own_data import (
    find_own_data,
    mark_nothing,
    read_facts_again,
    read_own_facts,
    require_data_directory,
)
from dbcheck.hosts import host as agent_host
from dbcheck.model.depth import Completed
from dbcheck.model.host import (
    ClientClocks,
    HostAfter,
    HostBefore,
    TargetFacts,
    Volume,
    VolumeCanaries,
)
from dbcheck.model.places import Place
from dbcheck.model.records import NodeBefore
from dbcheck.model.server import ServerFacts
from dbcheck.ports.engine import Engine
from dbcheck.ports.host import Canaries, TargetHost
from dbcheck.ports.listener import Listener, Phase
from dbcheck.ports.power import DriveScoped
from dbcheck.ports.site import Node, Site
from dbcheck.power.driveonly import Server
from dbcheck.remote.same_host import read_boot_id
from dbcheck.rows.table import LEDGER, TABLES

_PROCESS_ID = uuid.uuid4().hex  # a name for this process that no other has
BOOT_S = 60.0  # a booted host may refuse logins for so long while its server answers
POLL_S = 1.0
T = TypeVar("T")


def read_client_clocks() -> ClientClocks:
    """Read every clock of this machine."""
    return ClientClocks(_name_boot(), *clocks_us())


def _name_boot() -> str:
    """Return a name for this boot of the machine, and for its time namespace.

    Clocks of another time namespace differ (time_namespaces(7), since Linux 5.6).  If
    the system has no boot id, the name is that of this process.
    """
    boot = read_boot_id()
    if not boot:
        return _PROCESS_ID
    try:
        return f"{boot} {os.readlink('/proc/self/ns/time')}"
    except OSError:
        return boot


@dataclass(frozen=True, slots=True)
class HostCanaries:
    """The canaries that run on a host.

    data: the canaries beside the data directory.  elsewhere: the canaries of each other
    volume, in the order of the host's facts; None if they could not be started.
    """

    data: Canaries
    elsewhere: tuple[Canaries | None, ...] = ()

    def completed(self, *, host_kept: bool) -> tuple[Completed | None, ...]:
        """Return the progress of the canaries of each volume, the data's first.

        host_kept: the host was to lose its drives alone, and goes on to report.  Then
        its reports count up to the last one that shows newly written blocks.
        """
        return tuple(
            canaries.completed(canaries.last_progress_us() if host_kept else None)
            if canaries
            else None
            for canaries in (self.data, *self.elsewhere)
        )

    def reported_us(self) -> int | None:
        """Return the oldest time of the volumes' newest reports, None without reports.

        On the client's clock.
        """
        sent = [
            canaries.reported_us()
            for canaries in (self.data, *filter(None, self.elsewhere))
        ]
        return min(filter(None, sent), default=None)

    def answered(self) -> bool:
        """Return True if the host answered stop(), so it had its power until then."""
        return any(
            canaries.answered()
            for canaries in (self.data, *filter(None, self.elsewhere))
        )

    def stop(self) -> None:
        """End all canaries at once, as a host without power is slow; never raises."""
        running = [self.data, *filter(None, self.elsewhere)]
        ends = [
            threading.Thread(target=canaries.stop, daemon=True) for canaries in running
        ]
        for end in ends:
            end.start()
        for end in ends:
            end.join()


def inspect_host(
    node: Node,
    listener: Listener,
    server: ServerFacts,
    places: Sequence[Place] = (),
    *,
    may_write: bool = True,
) -> tuple[HostBefore | None, HostCanaries | None]:
    """Describe the node's host, note where the log ends, start canaries on each volume.

    may_write: the server takes writes of its own, so that its data can be marked.

    Raise HostError if the user named the host and this fails for the data directory.  A
    failure on another volume is only noted.
    """
    if node.host is None:
        return None, None
    mark_data = node.engine.mark_data if may_write else mark_nothing
    facts = read_own_facts(node.host, server, places, mark_data)
    if facts.container and isinstance(node.power, DriveScoped):
        raise HostError(
            f"the server runs in a container ({facts.container.named}), so its drives "
            "cannot be cut alone",
            id=ErrorId.CONTAINER_ON_CUT_DRIVE,
            hint="Cut the host: remove dbcheck_power_scope.",
        )
    log_path = node.log_path or _find_readable_log(
        listener, node.host, server.server_log, facts
    )
    return start_host_inspection(node.host, log_path, facts)


def start_host_inspection(
    host: TargetHost, log_path: str, facts: TargetFacts
) -> tuple[HostBefore, HostCanaries]:
    """Note where the log of a host ends that *facts* describe, start canaries there."""
    marks = host.mark_log(log_path) if log_path else {}
    data = host.start_canaries(facts.data_directory)
    others: list[Canaries | None] = []
    try:
        notes = []
        for volume in facts.volumes[1:]:
            canaries, note = _start_canaries_on_volume(host, volume)
            others.append(canaries)
            notes.append(note)
    except BaseException:
        end_host_canaries(host, HostCanaries(data, tuple(others)), remove=True)
        raise
    before = HostBefore(facts, data.folder, data.nonce, log_path, marks, tuple(notes))
    return before, HostCanaries(data, tuple(others))


def _find_readable_log(
    listener: Listener, host: TargetHost, path: str, facts: TargetFacts
) -> str:
    """Return where the host has the server's log, or "" if it cannot read it.

    path: as the server has it.
    """
    try:
        if path and facts.container:
            path = host.find_log(path, facts.container.process)
        if path:
            host.mark_log(path)
    except HostError as error:
        warning = f"the server's log is not read: {error} (set --server-log)"
        listener.phase(Phase.PREFLIGHT, warning)
        return ""
    return path


def _start_canaries_on_volume(
    host: TargetHost, volume: Volume
) -> tuple[Canaries | None, VolumeCanaries]:
    """Start canaries beside one of the places on a volume, if any allows it."""
    failure = ""
    for path in volume.places.values():
        try:
            canaries = host.start_canaries(path)
        except HostError as error:
            failure = failure or str(error)
        else:
            return canaries, VolumeCanaries(canaries.folder, canaries.nonce)
    return None, VolumeCanaries("", "", failure)


def describe_drive_server(
    engine: Engine, start: Callable[[], str] | None = None
) -> Server:
    """Return the server as the switch of its drives needs it; nothing is asked yet.

    start: starts the server; None to run the command of the switch's scope on the host.
    """

    def directory() -> str:
        return require_data_directory(engine.facts())

    def places() -> Sequence[str]:
        return [place.path for place in engine.places((LEDGER,))]

    return Server(directory, places, start)


def end_canaries(
    site: Site, canaries: Mapping[str, HostCanaries], *, remove: bool = False
) -> None:
    """Stop the canaries of each node, and forget connections that a cut has ended."""
    for name, running in canaries.items():
        if (host := site.nodes[name].host) is not None:
            end_host_canaries(host, running, remove=remove)


def end_host_canaries(
    host: TargetHost, canaries: HostCanaries, *, remove: bool = False
) -> None:
    """Stop the canaries of a host, and forget connections that a cut has ended."""
    canaries.stop()
    for of_volume in (
        (canaries.data, *filter(None, canaries.elsewhere)) if remove else ()
    ):
        with contextlib.suppress(HostError):
            host.remove_canaries(of_volume.folder)
    host.close()


def inspect_host_again(
    node: Node,
    listener: Listener,
    before: NodeBefore,
    *,
    remove: bool = True,
    absent: bool = False,
) -> HostAfter | None:
    """Describe the host after recovery; read its canaries' files and its log.

    remove: whether the canaries are deleted after that.  absent: the server does not
    answer.
    """
    if node.host is None or before.host is None:
        return None
    return finish_host_inspection(
        node.host,
        listener,
        before.host,
        before.facts,
        before.places,
        remove=remove,
        absent=absent,
    )


def finish_host_inspection(
    host: TargetHost,
    listener: Listener,
    before: HostBefore,
    server: ServerFacts,
    places: Sequence[Place],
    *,
    remove: bool = True,
    absent: bool = False,
) -> HostAfter:
    """Do what inspect_host_again() does, for a host that was asked before the load.

    server: its facts, from before the cut or after it.
    """
    try:
        await_host(host, listener)
    except HostError as error:
        left = before.canary_folders
        return HostAfter(None, None, None, str(error), left=left)
    failures: list[str] = []

    def answer(question: Callable[[], T]) -> T | None:
        try:
            return question()
        except HostError as error:
            failures.append(str(error))
            return None

    facts = answer(
        lambda: read_facts_again(host, before.facts, server, places, absent=absent)
    )
    read = read_client_clocks() if facts is not None else None
    remains, *elsewhere = (
        answer(partial(host.read_canaries, folder, nonce)) if folder else None
        for folder, nonce in (
            (before.canary_folder, before.canary_nonce),
            *((each.folder, each.nonce) for each in before.elsewhere),
        )
    )
    log = None
    if before.log_path:
        log = answer(lambda: host.read_log(before.log_path, before.log_marks))
    recorded = answer(
        lambda: host.shutdown_record(before.facts.boot_id, before.facts.clock_us)
    )
    failure = failures[0] if failures else ""
    left = before.canary_folders
    if remove:
        left = tuple(folder for folder in left if not _remove_canaries(host, folder))
    return HostAfter(
        facts,
        remains,
        log,
        failure,
        tuple(elsewhere),
        read,
        left,
        recorded,
    )


def _remove_canaries(host: TargetHost, folder: str) -> bool:
    """Remove canaries; return whether they are gone.

    The report names the folders of those that stay.
    """
    try:
        host.remove_canaries(folder)
    except HostError:
        return False
    return True


def await_host(host: TargetHost, listener: Listener) -> None:
    """Return once the host accepts a login; raise HostError if not within BOOT_S.

    The database may be started before sshd, or before sshd accepts logins: until the
    boot is over, pam_nologin(8) refuses ordinary users.  The wait is worth it: the host
    is read only once, and its answers are as final as the survivors.
    """
    ends_s, reported = time.monotonic() + BOOT_S, False
    while True:
        interrupt.raise_if_interrupted()
        try:
            return host.reach()
        except HostError as error:
            if time.monotonic() >= ends_s:
                raise
            if not reported:
                text = f"retrying its host for up to {BOOT_S:.0f} s: {error}"
                listener.phase(Phase.RESTORE, text)
                reported = True
        time.sleep(POLL_S)


def clear_canaries(host: agent_host.TargetHost, engine: Engine) -> agent_host.Cleared:
    """Remove canaries from wherever a run may have put them; raise HostError.

    A run puts them beside one of the places on each volume, or inside it.  Nothing is
    written there, and no directory that is not this server's is touched.
    """
    server, places = engine.facts(), engine.places(TABLES)
    directory = require_data_directory(server)
    facts = host.facts(directory, places, find_own_data(host, server))
    paths = dict.fromkeys(
        path for volume in facts.volumes for path in volume.places.values()
    )
    removed: dict[str, None] = {}
    kept: dict[str, str] = {}
    for path in paths:
        cleared = host.clear_canaries(path)
        removed |= dict.fromkeys(cleared.removed)
        kept |= cleared.kept
    return agent_host.Cleared(tuple(removed), kept)
