"""Conditions under which an unattended switch may cut."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.model.cut import OtherUsers
from dbcheck.model.host import Expected, Identity
from dbcheck.model.verdict import format_count
from dbcheck.remote.same_host import read_boot_id

I_KNOW = "--i-know"
_DATABASES_SHOWN_MAX = 5


def require_host(
    name: str, expected: Expected, seen: Identity | None, server: Mapping[str, str]
) -> str:
    """Return the host's identity, for people; raise UsageError if it is another host.

    name:   in the inventory; without any *expected* value it must be the host's name.
    seen:   the identity that the host reports over SSH, None if it was not asked.
    server: the server's identity (ServerFacts), which may hold the host's name.
    Nothing overrides this: a cut of the wrong host cannot be taken back.
    """
    hostname = seen.hostname if seen else server.get("hostname", "")
    actual = {
        "hostname": hostname,
        "serial": seen.serial if seen else "",
        "machine_id": seen.machine_id if seen else "",
    }
    expected_values = {
        key: value for key in actual if (value := str(getattr(expected, key)))
    } or _expect_name(name)
    for key, value in expected_values.items():
        if not actual[key]:
            raise UsageError(
                f"host {name}: cannot read its {key}; {value} is expected",
                id=ErrorId.HOST_NOT_IDENTIFIED,
                hint="Let dbcheck ask it over SSH (as root for the serial), or "
                "identify it by dbcheck_expect_hostname, _serial or _machine_id.",
            )
        if not _is_same_value(key, value, actual[key]):
            raise UsageError(
                f"host {name}: its {key} is {actual[key]}, not {value}",
                id=ErrorId.HOST_IS_ANOTHER,
                hint="This is a different host, or the inventory is wrong: see "
                f"dbcheck_expect_{key}.",
            )
    if (
        seen
        and server.get("hostname")
        and not _is_same_name(hostname, server["hostname"])
    ):
        raise UsageError(
            f"host {name}: the server runs on {server['hostname']}, not on {hostname}",
            id=ErrorId.SERVER_ON_OTHER_HOST,
            hint="Make ansible_host and dbcheck_target refer to the same host.",
        )
    return ", ".join(f"{key} {actual[key]}" for key in expected_values)


def require_address(
    name: str, seen: Identity | None, addresses: frozenset[str], *, i_know: bool
) -> None:
    """Raise UsageError if a host of the target is not the host that was *seen*.

    addresses: the addresses of a host that the driver may connect to; empty if there is
    nothing to compare.
    """
    if seen is None or i_know or not addresses or not seen.addresses:
        return
    if not addresses & seen.addresses:
        raise UsageError(
            f"{name}: the target's address {min(addresses)} does not belong to "
            "this host",
            id=ErrorId.TARGET_ADDRESS_NOT_OF_HOST,
            hint=f"Check ansible_host and dbcheck_target; add {I_KNOW} if NAT "
            "translates the address.",
        )


def require_other_machine(name: str, seen: Identity | None) -> None:
    """Raise UsageError if the host is this machine, which could not restore itself."""
    if seen and seen.boot_id and seen.boot_id == read_boot_id():
        raise UsageError(
            f"{name} is the machine that dbcheck runs on",
            id=ErrorId.HOST_IS_THIS_MACHINE,
            hint="Run dbcheck on a machine that keeps its power, or cut by hand.",
        )


def require_no_other_users(name: str, found: OtherUsers, *, i_know: bool) -> None:
    """Raise UsageError if the cut would, or might, hit other users than dbcheck."""
    if i_know:
        return
    descriptions = []
    if found.databases:
        names = ", ".join(found.databases[:_DATABASES_SHOWN_MAX])
        unnamed_count = len(found.databases) - _DATABASES_SHOWN_MAX
        names += f" and {unnamed_count} more" if unnamed_count > 0 else ""
        what = "a database" if len(found.databases) == 1 else "databases"
        descriptions.append(f"also has {what} that dbcheck did not make: {names}")
    if found.connections:
        count = format_count(found.connections, "connection")
        descriptions.append(f"has {count} of other clients")
    if descriptions:
        raise UsageError(
            f"{name}: the server {', and '.join(descriptions)}",
            id=ErrorId.SERVER_HAS_OTHER_USERS,
            hint=f"If it is acceptable that all of these lose power, add {I_KNOW}.",
        )
    if found.unreadable:
        what, why = next(iter(found.unreadable.items()))
        raise UsageError(
            f"{name}: cannot check whether the server has other {what}: {why}",
            id=ErrorId.OTHER_USERS_UNKNOWN,
            hint=f"Grant it, or add {I_KNOW} if this server has no other users.",
        )


def _expect_name(name: str) -> dict[str, str]:
    """Expect the inventory's name as hostname; an IP address identifies no host."""
    try:
        ip_address(name)
    except ValueError:
        return {"hostname": name}
    raise UsageError(
        f"host {name}: its inventory name is an IP address, which does not identify "
        "a machine",
        id=ErrorId.HOST_NOT_IDENTIFIED,
        hint="Set dbcheck_expect_hostname, dbcheck_expect_serial or "
        "dbcheck_expect_machine_id.",
    )


def _is_same_value(key: str, expected: str, actual: str) -> bool:
    if key == "hostname":
        return _is_same_name(expected, actual)
    return expected.casefold() == actual.casefold()


def _is_same_name(one: str, other: str) -> bool:
    """Compare names of hosts, by their first parts unless both have a domain."""
    one, other = one.casefold().rstrip("."), other.casefold().rstrip(".")
    if "." in one and "." in other:
        return one == other
    return one.partition(".")[0] == other.partition(".")[0]
