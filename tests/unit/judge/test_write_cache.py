"""What the kernel believes of each layer's write cache, beside what a cut showed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dbcheck.judge.flushes import judge_write_caches
from dbcheck.judge.item import Item, Status
from dbcheck.judge.volumes import VolumeDepth
from dbcheck.model.depth import Depth, DepthFinding, Tally
from dbcheck.model.host import Drive, Layer, Volume, VolumeCanaries
from tests.kit.cases import case
from tests.kit.host_samples import BEFORE, FACTS, VOLUME

BACK, THROUGH = "write back", "write through"
NONE = Tally(0, 0, 0)


def layer(name: str, cache: str, *below: str, kind: str = "disk") -> Layer:
    mapped = "vg-data" if kind == "dm" else ""
    return Layer(name, kind, mapped, "", "", cache, "0", below)


def volume(*layers: Layer) -> Volume:
    drives = tuple(
        Drive(each.name, "", "", "", each.write_cache, None, None)
        for each in layers
        if not each.below
    )
    return replace(VOLUME, layers=layers, drives=drives)


def judged(*cuts: VolumeDepth) -> Item | None:
    """Judge a cut that went so deep on these volumes."""
    facts = replace(FACTS, volumes=tuple(cut.volume for cut in cuts))
    others = (VolumeCanaries("/c", "n"),) * (len(cuts) - 1)
    of_host = case(replace(BEFORE, facts=facts, elsewhere=others))
    vars(of_host)["depths"] = list(cuts)  # in the place of what canaries would show
    return judge_write_caches(of_host)


def item(depth: Depth | None, *layers: Layer) -> tuple[Status, str]:
    one = volume(*layers)
    cut = VolumeDepth(one, DepthFinding(depth, NONE, NONE, ("as measured",)))
    found = judged(cut)
    assert found is not None
    assert not found.required
    return found.status, found.reason


LVM = layer("dm-0", BACK, "sda1", kind="dm")
PART = layer("sda1", THROUGH, "sda", kind="partition")
SDA = layer("sda", THROUGH)


def array(first: str, second: str) -> tuple[Layer, ...]:
    md = layer("md0", BACK, "sda", "sdb", kind="md")
    return md, layer("sda", first), layer("sdb", second)


@pytest.mark.parametrize("depth", [None, *Depth])
def test_a_drive_that_is_flushed_is_named(depth: Depth | None) -> None:
    status, said = item(depth, layer("sda", BACK))
    assert (status, said) == (Status.PRESENT, "the kernel flushes sda")


@pytest.mark.parametrize("layers", [(SDA,), (PART, SDA), (LVM, PART, SDA)])
def test_a_caching_drive_below_a_write_through_is_a_contradiction_on_every_layer(
    layers: tuple[Layer, ...],
) -> None:
    status, said = item(Depth.DRIVE, *layers)
    assert status is Status.CONTRADICTED
    assert said.startswith(
        "the kernel sends no flush to sda, as sda is 'write through'"
    )
    assert "volatile" in said
    for depth in (None, Depth.PROCESS, Depth.OS):
        status, said = item(depth, *layers)
        assert status is Status.PRESENT
        assert "right if no cache there is volatile" in said


def test_a_layer_of_lvm_that_holds_flushes_back_is_named() -> None:
    layers = (replace(LVM, write_cache=THROUGH), layer("sda", BACK))
    layers = (replace(layers[0], below=("sda",)), layers[1])
    status, said = item(Depth.DRIVE, *layers)
    assert status is Status.CONTRADICTED
    assert "as dm-0 (vg-data) is 'write through'" in said
    for depth in (None, Depth.OS):  # the kernel contradicts itself
        status, said = item(depth, *layers)
        assert status is Status.ABSENT
        assert "sda is 'write back' and needs flushes" in said


def test_every_layer_that_holds_flushes_back_is_named() -> None:
    md, *drives = array(THROUGH, BACK)
    dm = layer("dm-1", THROUGH, "md0", kind="dm")
    layers = (dm, replace(md, write_cache=THROUGH), *drives)
    status, said = item(Depth.DRIVE, *layers)
    assert status is Status.CONTRADICTED
    assert "sda, sdb, as dm-1 (vg-data), md0, sda is" in said


def test_of_an_array_the_flushed_drive_may_be_the_one_that_lost() -> None:
    status, said = item(Depth.DRIVE, *array(THROUGH, BACK))
    assert status is Status.NOT_OBSERVABLE
    assert "no flush to sda, as sda is" in said
    assert "sdb may be the one that lost writes" in said
    status, said = item(Depth.DRIVE, *array(THROUGH, THROUGH))
    assert status is Status.CONTRADICTED


def test_a_filesystem_on_several_devices_flushes_each() -> None:
    status, said = item(Depth.DRIVE, layer("sda", BACK), layer("sdb", BACK))
    assert (status, said) == (Status.PRESENT, "the kernel flushes sda, sdb")


def test_each_volume_is_judged_by_its_own_depth() -> None:
    data = volume(layer("sda", BACK))
    wal = replace(volume(layer("sdb", THROUGH)), places={"WAL": "/wal"})
    deep = DepthFinding(Depth.DRIVE, NONE, NONE, ("as measured",))
    cuts = [VolumeDepth(data, deep), VolumeDepth(wal, replace(deep, depth=Depth.OS))]
    found = judged(*cuts)
    assert found is not None
    assert found.status is Status.PRESENT
    assert "the kernel flushes sda; the kernel sends no flush to sdb" in found.reason
    found = judged(cuts[0], VolumeDepth(wal, deep))
    assert found is not None
    assert found.status is Status.CONTRADICTED


def test_where_no_layer_is_known_nothing_is_said() -> None:
    assert judge_write_caches(case()) is None
    assert judge_write_caches(case(BEFORE)) is None
