"""Cases to judge, of which each test names what it is about."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from dbcheck.judge.case import Case
from dbcheck.judge.item import Item, Status
from dbcheck.judge.server import judge_same_server
from dbcheck.model.cluster import ONLY_NODE
from dbcheck.model.cut import Cut, Gone
from dbcheck.model.host import HostAfter, HostBefore
from dbcheck.model.records import LoadRecord, RestoreRecord
from tests.kit.nodes import after_of, having
from tests.kit.samples import FACTS, LOAD, MANIFEST

NOTHING: Mapping[str, Any] = {}


def case(
    before: HostBefore | None = None,
    host: HostAfter | None = None,
    *,
    load: LoadRecord | None = None,
    off_s: float | None = None,
    after: Mapping[str, Any] = NOTHING,
    **manifest: Any,
) -> Case:
    """Return a case on a manifest with those fields, whose host reported that.

    after: fields of its AfterRecord.
    """
    return Case(
        having(MANIFEST, host=before, **manifest),
        load,
        None if off_s is None else RestoreRecord({ONLY_NODE: off_s}),
        having(after_of(host=host), **after),
    )


def lab(cut: str) -> dict[str, Any]:
    """Return the spec of a lab with that cut, {} for none."""
    return {"cut": cut} if cut else {}


def of_servers(before: Mapping[str, Any], after: Mapping[str, Any]) -> Case:
    """Return a case of a server with those facts before its cut, and after it."""
    then = dataclasses.replace(FACTS, **before)
    now = dataclasses.replace(FACTS, **after)
    return dataclasses.replace(
        case(after={"facts": now}),
        manifest=having(MANIFEST, facts=then),
    )


def is_same(before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    """Say whether two identities are seen to be of one server."""
    item = judge_same_server(of_servers({"identity": before}, {"identity": after}))
    return item is not None and item.status is Status.PRESENT


def loaded(**changed: Any) -> LoadRecord:
    """Return the record of a load that was cut half a second after its last ack."""
    return having(
        LOAD,
        **{
            "last_ack_us": 9_500_000,
            "gone": Gone.BROKEN,
            "gone_us": 10_000_000,
            "in_flight": 8,
            "farewells": (),
            "cut": Cut(9_000_000, 10_000_000),
            "windows": (),
            **changed,
        },
    )


def item(item_of: Callable[[Case], Item | None], one: Case) -> Item:
    """Return that item of evidence, which *one* must have."""
    found = item_of(one)
    assert found is not None
    return found
