"""Checks the interlocks of an unattended switch, and collects what they compare."""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, OtherProduct, UsageError
from dbcheck.cycle.own_data import find_own_data
from dbcheck.inventory.entry import Entry
from dbcheck.model.cluster import Promise, SiteKind
from dbcheck.model.cut import CutClass, OtherUsers
from dbcheck.model.host import Expected, Identity
from dbcheck.model.managed import SERVICE
from dbcheck.model.replication import RebuiltBy
from dbcheck.model.server import ServerFacts
from dbcheck.ports.engine import Engine
from dbcheck.ports.feature import Feature
from dbcheck.power import consent, interlock
from dbcheck.remote.same_host import locate_target
from dbcheck.runner import assemble

# A connection that was just closed is seen for a moment.
_TRIES, _RETRY_S = 10, 0.2


def check_interlocks(
    entry: Entry,
    engine: Engine,
    *,
    yes: bool,
    i_know: bool,
    loads_server: bool = True,
) -> str:
    """Check the interlocks; return the host's identity; raise UsageError to refuse.

    Raise HostError if a server in a pod is not on the host that would be cut.
    A human at the plug and a lab need no guard.
    loads_server: the cut comes during a load, which a server that is down cannot take.
    """
    if not entry.power.guarded:
        return ""
    require_unshared_switch(entry)
    host = assemble.make_power_host(entry)
    seen = host.identity() if host else None
    name = entry.switched_host.title
    interlock.require_other_machine(name, seen)
    server, found = _read_server_and_users(
        engine, i_know=i_know, loads_server=loads_server
    )
    if entry.standbys:
        found = replace(
            found, connections=_count_other_connections(entry, engine, found)
        )
    service = server.settings.get(SERVICE, "") if server else ""
    recognised = ""
    nothing_known = seen is None and entry.expected == Expected()
    if service and entry.power.cut_class is CutClass.FAILOVER and nothing_known:
        recognised = service
    elif entry.name:
        identity = dict(server.identity) if server else {}
        if entry.kubernetes:
            identity.pop("hostname", "")  # the pod's
        recognised = interlock.require_host(name, entry.expected, seen, identity)
    if not entry.kubernetes:
        _require_addresses(name, engine, seen, i_know=i_know)
    elif host and server and not loads_server:  # a cycle does that before its load
        find_own_data(host, server, engine.mark_data)
    interlock.require_no_other_users(name, found, i_know=i_know)
    consent.require_consent(entry.switched_host, yes=yes)
    return recognised


def _require_addresses(
    name: str, engine: Engine, seen: Identity | None, *, i_know: bool
) -> None:
    """Raise UsageError if the target's URL leads to another host than was *seen*.

    An address of this host is not compared: it may be a tunnel to the target.  A pod
    and a service have addresses of their own: such a server is found by its data.
    """
    for addresses in locate_target(engine.endpoints()).others.values():
        interlock.require_address(name, seen, addresses, i_know=i_know)


def _count_other_connections(entry: Entry, engine: Engine, found: OtherUsers) -> int:
    """Return the number of connections that are not of the cluster's own standbys.

    The nodes of a group are connected to each other otherwise than as clients.
    """
    if SiteKind(entry.topology).is_group or not engine.has(Feature.REPLICATION):
        return found.connections
    try:
        with contextlib.closing(engine.open_followers()) as followers:
            connected = len(followers.read())
    except EngineError:
        return found.connections
    return max(0, found.connections - min(connected, len(entry.standbys)))


def require_passable(entry: Entry) -> None:
    """Raise UsageError if no cut by this switch could get a PASS.

    A cut of a supply passes only if its time without power is known, or if the canaries
    on the host see the drive's own cache lost (judge.timeoff).
    """
    if not entry.power.returns_by_itself or entry.host:
        return
    cut_class = entry.power.cut_class
    if cut_class is CutClass.UNKNOWN or cut_class.keeps_power:
        return
    name = f"host {entry.name}: " if entry.name else ""
    raise UsageError(
        f"{name}no cut by this switch could get a PASS: its class is declared as "
        f"{cut_class.value!r}, and without a restore command the time without power is "
        "not measured",
        id=ErrorId.SWITCH_CANNOT_PASS,
        hint="Add the command that gives the power back (--restore-command, or "
        "dbcheck_power_restore). If it comes back by itself, add --target-host (or "
        "dbcheck_ask_host): the canaries on that host may show that the drive's own "
        "cache lost its power.",
    )


def choose_promise(entry: Entry, name: str | None) -> Entry:
    """Return *entry* with the one promise that a single cut of a cluster tests.

    name: of the promise, None to take the only one.  Raise UsageError if there are
    several, or if it is none of them.
    """
    listed = [promise.value for promise in entry.promises]
    if name is not None and name not in listed:
        other = f"dbcheck_survives is {', '.join(listed)}"
        raise UsageError(
            f"{entry.title or entry.target} is not tested for {name}:"
            f" {other if listed else 'only a cluster has promises'}",
            id=ErrorId.PROMISE_UNCLEAR,
            hint="Name one of dbcheck_survives, or add it there (docs/clusters.md)."
            if listed
            else "Leave --promise out, or name a group that is a cluster.",
        )
    if name is None and len(listed) > 1:
        raise UsageError(
            f"{entry.title} has several promises, {', '.join(listed)}, and this tests"
            " one",
            id=ErrorId.PROMISE_UNCLEAR,
            hint=f"Name it: --promise {listed[0]}; or test all of them: dbcheck"
            f" campaign {entry.title}.",
        )
    return replace(entry, survives=name or entry.survives)


# Who can rebuild an old writer whose commits no other node has, so that none is left.
_REPLACING_DATA = {
    # By SQL PostgreSQL's old writer is left to dbcheck_rebuild.
    SiteKind.STREAMING: (RebuiltBy.COMMAND, RebuiltBy.SQL, RebuiltBy.AUTO),
    SiteKind.SEMI_SYNC: (RebuiltBy.CLONE, RebuiltBy.COMMAND, RebuiltBy.AUTO),
}


def require_control_possible(entry: Entry) -> None:
    """Raise UsageError if *entry* is a cluster of which no control can be run.

    Where another node takes over, a control leaves commits on the old writer that no
    other node has, and that must be gone before that writer is a node of the cluster
    again.  Where the writer comes back, its sessions are acknowledged before a flush.
    A standby of PostgreSQL has nothing of that, as the writer sends what it has flushed
    alone (walsender.c, XLogSendPhysical()).  MySQL and MariaDB send a transaction
    before their log is flushed, once the flush of each is off.
    """
    if not entry.standbys:
        return
    kind = SiteKind(entry.topology)
    if kind.is_group:
        raise UsageError(
            f"{entry.title}: no control of {kind.value}: the old writer would join"
            " again with rows that no other node has",
            id=ErrorId.CONTROL_NOT_SUPPORTED,
            hint="Leave --control out.",
        )
    for promise in entry.promises:
        if not promise.writer_returns:
            _require_replaced(entry, kind)
        elif kind is not SiteKind.STREAMING:
            gone = Promise.ALL_WRITER_GONE if promise.cuts_all else Promise.WRITER_GONE
            raise UsageError(
                f"{entry.title}: no control with the promise {promise.value}: what the"
                " writer loses in the cut, its replicas may have, and it would give"
                " the numbers of these transactions to others",
                id=ErrorId.CONTROL_NOT_SUPPORTED,
                hint="Leave --control out, or run it with dbcheck_survives:"
                f" {gone.value}.",
            )


def _require_replaced(entry: Entry, kind: SiteKind) -> None:
    """Raise UsageError unless the data of the old writer are replaced."""
    if RebuiltBy(entry.rebuilt_by) in _REPLACING_DATA[kind]:
        return
    values = [by.value for by in _REPLACING_DATA[kind]]
    raise UsageError(
        f"{entry.title}: after a control the old writer has commits that no other node"
        f" has, and with dbcheck_rebuilt_by: {entry.rebuilt_by} it would keep them",
        id=ErrorId.REBUILD_NOT_POSSIBLE,
        hint=f"Set dbcheck_rebuilt_by to {' or '.join(values)}, which replaces its"
        " data (docs/clusters.md); or leave --control out.",
    )


def require_stays_off(entry: Entry, host: Entry) -> None:
    """Raise UsageError if *host* cannot stay off once it was cut as the writer.

    host: one of the hosts of *entry*.
    """
    stays_off = any(not promise.writer_returns for promise in entry.promises)
    if stays_off and host.power.returns_by_itself:
        raise UsageError(
            f"host {host.name}: the power comes back by itself after a cut by this"
            " switch, and the old writer has to stay off while another takes over",
            id=ErrorId.SWITCH_RESTORES_BY_ITSELF,
            hint="Give it a switch that leaves the host off, or set dbcheck_survives:"
            " all (or writer, with streaming and semi-sync).",
        )


def require_restorable(entry: Entry) -> None:
    """Raise UsageError unless the loss of *entry*'s server can be judged by a restore.

    The server must stay off until that was done, with all that could ship its log.
    """
    if entry.copied_by is None or entry.copied_by.rpo_s is None:
        raise UsageError(
            f"{assemble.entry_label(entry)} has no dbcheck_restore with rpo_s: how to"
            " restore its archive, and how much may be lost, is not known",
            id=ErrorId.RESTORE_NOT_SET_UP,
            hint="Give the host dbcheck_restore in the inventory: restore, target and"
            " rpo_s. docs/guides/restore.md shows it.",
        )
    if entry.standbys:
        raise UsageError(
            f"{entry.title} is a cluster, and its loss is judged on its other hosts",
            id=ErrorId.ONE_HOST_NEEDED,
            hint="Name a single server with --restore.",
        )
    if entry.drive_scope is not None:
        raise UsageError(
            "with dbcheck_power_scope: drive the host runs on, and may ship more of the"
            " log",
            id=ErrorId.OPTIONS_CONFLICT,
            hint="Cut the power of the whole host for --restore.",
        )
    if entry.power.returns_by_itself:
        raise UsageError(
            "the power comes back by itself after a cut by this switch, and the server"
            " has to stay off until its archive was restored",
            id=ErrorId.SWITCH_RESTORES_BY_ITSELF,
            hint="Give it a switch that leaves the host off.",
        )


def require_nodes_stay(entry: Entry) -> None:
    """Raise UsageError for a cluster in pods: only run and campaign find them again."""
    if entry.has_pods_as_nodes:
        raise UsageError(
            f"{entry.title} is a cluster in pods, which have to be found again after"
            " each cut, and this does not do that",
            id=ErrorId.ONE_HOST_NEEDED,
            hint=f"Test it by itself: dbcheck campaign {entry.title}, without --dask.",
        )


def require_unshared_switch(entry: Entry) -> None:
    """Raise UsageError if the switch of *entry* may be another host's as well."""
    if entry.doubt:
        raise UsageError(
            f"refusing to cut {entry.name}: {entry.doubt}; both hosts may be on one "
            "switch",
            id=ErrorId.HOSTS_MAY_SHARE_SWITCH,
            hint="Fix or remove that host in the inventory.",
        )


def _read_server_and_users(
    engine: Engine, *, i_know: bool, loads_server: bool
) -> tuple[ServerFacts | None, OtherUsers]:
    """Return the server, None if it does not answer and need not, and other users."""
    server = None
    try:
        server = engine.facts()
        found = engine.other_users()
        for _ in range(_TRIES):
            if not found.connections or i_know:
                break
            time.sleep(_RETRY_S)
            found = engine.other_users()
    except OtherProduct:
        raise
    except EngineError as error:
        if i_know:
            return None, OtherUsers((), 0)
        if server is None and loads_server:  # which no flag changes
            raise
        remedy = f"{error.hint} Or add" if error.hint else "Add"
        raise EngineError(
            f"cannot check who else uses the server: {error}",
            id=ErrorId.OTHER_USERS_UNKNOWN,
            hint=f"{remedy} {interlock.I_KNOW} to cut without this check.",
        ) from None
    return server, found
