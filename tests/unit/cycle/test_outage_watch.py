"""What a watch of an outage does about a group, and about what clients use."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.cycle import outage
from dbcheck.cycle.outage import OutageWatch
from dbcheck.inventory.entry import Entry
from dbcheck.model.cluster import SiteKind
from dbcheck.model.outage import OutageRecord, ProbeAck, Probed
from dbcheck.runner.assemble import find_client_program
from tests.kit.refusals import refused

ACKED = OutageRecord(1, probed=(Probed("t", acks=(ProbeAck(1, None, 1, 2, 3),)),))
FACTS: Any = SimpleNamespace()
RIG: Any = SimpleNamespace(site=SimpleNamespace(reader=SimpleNamespace(engine=None)))
NO_RUN: Any = None


def read_twice(
    site: SiteKind, monkeypatch: pytest.MonkeyPatch
) -> tuple[OutageRecord, int]:
    """Return what is known of an ack whose row the reader has a little later."""
    keys: list[set[tuple[int, int]]] = [set(), {(0, 1)}]
    reads = 0

    def read(*_: object) -> Collection[tuple[int, int]]:
        nonlocal reads
        reads += 1
        return keys[min(reads, 2) - 1]

    monkeypatch.setattr(outage, "_list_keys", read)
    monkeypatch.setattr(outage, "POLL_S", 0.001)
    manifest: Any = SimpleNamespace(site=site, epoch=1)
    watch = OutageWatch(RIG, NO_RUN, manifest)
    record = watch._with_rows(ACKED, FACTS)
    return watch._await_applied(record, FACTS), reads


def test_a_member_of_a_group_is_read_again_as_it_applies_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found, reads = read_twice(SiteKind.GALERA, monkeypatch)
    assert (len(found.lasting), reads) == (1, 2)


def test_no_other_server_gets_time_for_what_it_had_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found, reads = read_twice(SiteKind.STREAMING, monkeypatch)
    assert (found.lasting, reads) == ([], 1)


ENTRY = Entry("db1", "postgresql+psycopg2://u@h/d")


def test_a_program_of_the_users_must_be_there() -> None:
    assert find_client_program(ENTRY) == ()
    found = replace(ENTRY, client_command=("sh", "-c", "true"))
    assert find_client_program(found) == ("sh", "-c", "true")
    with refused(ErrorId.CLIENT_PROGRAM_MISSING, UsageError, naming="/absent/java"):
        find_client_program(replace(ENTRY, client_command=("/absent/java",)))


def test_a_program_and_an_address_exclude_each_other() -> None:
    both = replace(
        ENTRY, client_command=("sh",), client_target="postgresql+psycopg2://u@vip/d"
    )
    with refused(ErrorId.OPTIONS_CONFLICT, UsageError, naming="client_command"):
        find_client_program(both)
