"""The facts of a target's host, before a cut and after it."""

from __future__ import annotations

import dataclasses
from typing import Any

from dbcheck.model.host import (
    Drive,
    HostAfter,
    HostBefore,
    LogTail,
    TargetFacts,
    Volume,
)
from tests.kit.client_clocks import LATER

VOLUME = Volume(
    places={"data": "/d"},
    mount_point="/",
    filesystem="xfs",
    mount_options="rw",
    source="/dev/sda",
    filesystem_uuid="u1",
    layers=(),
    drives=(Drive("sda", "model", "s1", "w1", "write back", 7, 9),),
    unreadable={},
)

FACTS = TargetFacts(
    hostname="db1",
    machine_id="m1",
    boot_id="b1",
    addresses=frozenset(),
    clock_us=0,
    uptime_s=1.0,
    data_directory="/d",
    made={".": "inode 1 of 5.0", "ibdata1": "inode 2 of 6.0"},
    volumes=(VOLUME,),
    unseen={},
    unreadable={},
    view_unread="",
)

BEFORE = HostBefore(FACTS, "/c", "n", "/log", {})


def after(log: str = "", **changed: Any) -> HostAfter:
    facts = dataclasses.replace(FACTS, **{"boot_id": "b2", **changed})
    return HostAfter(facts, None, LogTail(log, False, False), "", clocks=LATER)
