"""The thread that ends the connections of the nodes that follow a writer."""

from __future__ import annotations

import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.cycle.detaching import DetachingWatch, begin_detaching
from dbcheck.model.cluster import Promise, SiteKind
from dbcheck.model.records import Manifest
from tests.kit.samples import MANIFEST
from tests.kit.waiting import wait_until


class Standbys:
    """Standbys that connect again each time, until the writer is cut."""

    def __init__(self) -> None:
        self.ended, self.closed = 0, threading.Event()
        self.is_cut = False

    def detach(self) -> int:
        if self.is_cut:
            raise EngineError("gone", id=ErrorId.CONNECTION_LOST)
        self.ended += 1
        return 1

    def sever(self) -> None:
        self.is_cut = True

    def close(self) -> None:
        self.closed.set()


def rig_of(standbys: Standbys | None, asked: list[object]) -> Any:
    def open_detaching(names: list[str], **more: object) -> Standbys | None:
        asked.append(names)
        return standbys

    engine = SimpleNamespace(open_detaching=open_detaching)
    return SimpleNamespace(site=SimpleNamespace(writer=SimpleNamespace(engine=engine)))


def manifest_of(*, control: bool = True) -> Manifest:
    nodes = {
        "a": replace(MANIFEST.writer, member="one"),
        "b": replace(MANIFEST.writer, member="two"),
        "c": replace(MANIFEST.writer, member="three"),
    }
    return replace(
        MANIFEST,
        site=SiteKind.STREAMING,
        nodes=nodes,
        writer_name="a",
        promise=Promise.WRITER_GONE,
        control=control,
    )


def test_the_standbys_of_a_control_are_detached_again_and_again() -> None:
    standbys, asked = Standbys(), list[object]()
    watch = begin_detaching(rig_of(standbys, asked), manifest_of())
    assert watch is not None
    assert asked == [["two", "three"]]  # and no other connection
    assert not standbys.ended
    watch.begin()
    wait_until(lambda: standbys.ended > 2, "the standbys to be detached again")
    watch.end()
    assert standbys.closed.is_set()
    watch.end()


def test_a_cut_ends_the_detaching() -> None:
    standbys = Standbys()
    watch = DetachingWatch(standbys)
    watch.begin()
    standbys.is_cut = True
    wait_until(standbys.closed.is_set, "the end of the thread")
    watch.end()


def test_a_load_that_never_began_detaches_nothing() -> None:
    standbys = Standbys()
    DetachingWatch(standbys).end()
    assert standbys.closed.is_set()
    assert not standbys.ended


def test_nothing_is_detached_but_in_a_control_of_a_cluster() -> None:
    asked: list[object] = []
    rig = rig_of(Standbys(), asked)
    assert begin_detaching(rig, manifest_of(control=False)) is None
    assert begin_detaching(rig, replace(MANIFEST, control=True)) is None
    assert not asked
    assert begin_detaching(rig_of(None, asked), manifest_of()) is None
