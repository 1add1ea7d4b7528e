"""The operating system account of a lab's server, where root runs the lab.

Each lab has a user and a group id of its own, so that one lab's server can do nothing
to another's, nor to any other process of the machine.  Only where that is not possible
is an account of the machine used, which other services may share.
"""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import random
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError

# What nobody hands out (systemd.io/UIDS-GIDS, "unused"), above what SSSD maps by
# default (sssd-ad(5), ldap_idmap_range_max); the second where a user namespace, as a
# container's, has no more than 65,536 ids.
_RANGES = (range(2_000_200_001, 2_147_352_576), range(60_706, 61_184))
_TRIES = 200
_MAPS = ("/proc/self/uid_map", "/proc/self/gid_map")  # user_namespaces(7)
_SUBORDINATE = ("/etc/subuid", "/etc/subgid")  # subuid(5)
_IDS = re.compile(r"^(?:Uid|Gid|Groups):(.*)", re.MULTILINE)  # proc(5), status


@dataclass(frozen=True, slots=True)
class Account:
    """An operating system account to run a server as."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()

    @classmethod
    def of_number(cls, number: int) -> Account:
        """Return the account whose user and only group have that id."""
        return cls(number, number)

    @property
    def name(self) -> str:
        """What it is called in the namespaces of its lab."""
        return f"dbcheck-{self.uid}"


def packaged(names: Iterable[str]) -> Account | None:
    """Return the first account of these names that the machine has, None if none."""
    for name in names:
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            groups = tuple(os.getgrouplist(name, entry.pw_gid))
            return Account(entry.pw_uid, entry.pw_gid, groups)
    return None


def lacking(names: Sequence[str]) -> str:
    """Say in one clause that the machine has none, and what to do."""
    return (
        f"there is no account {names[0]} to run the server as (create it with useradd"
        f" --system {names[0]}, run dbcheck as root with CAP_SYS_ADMIN, or as an"
        " ordinary user)"
    )


def drawn(taken: Collection[int]) -> int:
    """Return a user and group id that nothing on this machine has.

    taken: those of other labs.  Raise LabError if none was found.
    """
    choices = next(filter(None, map(_mapped, _RANGES)), range(0))
    used = {*taken, *_in_use()}
    subordinate = [each for file in _SUBORDINATE for each in _ranges_in(file)]
    draw = random.SystemRandom()
    for number in draw.sample(choices, min(_TRIES, len(choices))):
        of_range = any(number in each for each in subordinate)
        if number not in used and not of_range and not _is_known(number):
            return number
    raise LabError(
        "no user id is free for a server of the lab",
        id=ErrorId.UNPRIVILEGED_ACCOUNT_MISSING,
        hint="End labs that are up: `dbcheck lab down`. Labs take ids of"
        f" {' or '.join(f'{each.start} to {each[-1]}' for each in _RANGES)}, as far as"
        f" {_MAPS[0]} has them.",
    )


def _mapped(wanted: range) -> range:
    """Return as much of *wanted* as this user namespace has, as users and as groups."""
    for file in _MAPS:
        lines = [list(map(int, line.split())) for line in _lines_of(file)]
        parts = [
            range(max(wanted.start, first), min(wanted.stop, first + count))
            for first, _, count in lines
        ]
        wanted = max(parts, key=len, default=range(0))
    return wanted


def _in_use() -> set[int]:
    """Return the ids of all processes."""
    found: set[int] = set()
    for process in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):  # it ends
            for ids in _IDS.findall(process.read_text(errors="replace")):
                found.update(map(int, ids.split()))
    return found


def _ranges_in(file: str) -> list[range]:
    """Return the ranges that a file of subordinate ids hands out."""
    found = []
    for line in _lines_of(file):
        first, _, count = line.partition(":")[2].partition(":")
        if first.isdigit() and count.strip().isdigit():
            found.append(range(int(first), int(first) + int(count)))
    return found


def _lines_of(file: str) -> list[str]:
    """Return the lines of a file, [] if it is not there."""
    try:
        return Path(file).read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return []


def _is_known(number: int) -> bool:
    """Return whether a user or a group of the machine has that id."""
    for look in (pwd.getpwuid, grp.getgrgid):
        with contextlib.suppress(KeyError):
            look(number)
            return True
    return False
