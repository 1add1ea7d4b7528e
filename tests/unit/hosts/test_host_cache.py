"""Writes that a layer above the drives lost do not show that a drive lost its power."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dbcheck.judge.volumes import find_volume_depths
from dbcheck.model.cut import CutClass
from dbcheck.model.depth import Depth
from dbcheck.model.host import HostBefore, Layer
from tests.kit.host_samples import FACTS, VOLUME
from tests.kit.place_samples import DONE, LEFT, after


def layer(
    name: str, kind: str = "disk", *, uuid: str = "", direct: bool = False
) -> Layer:
    return Layer(name, kind, name, uuid, "", "write back", "0", (), direct)


def made(name: str, by: str) -> Layer:
    return replace(layer(name), foreign=by)


def array(**facts: str) -> Layer:
    return replace(layer("md0", "md"), md=facts)


def found(*layers: Layer, cut: CutClass = CutClass.AC) -> tuple[Depth | None, str]:
    """Return the depth of a cut that lost completed O_DIRECT blocks, and why."""
    facts = replace(FACTS, volumes=(replace(VOLUME, layers=layers),))
    before = HostBefore(facts, "/c", "n", "", {})
    lost = after(LEFT[Depth.DRIVE], facts=facts)
    (one,) = find_volume_depths(before, DONE, (), lost, cut)
    return one.depth, one.reasons[0]


@pytest.mark.parametrize(
    "top",
    [
        pytest.param(layer("sda"), id="a drive"),
        pytest.param(layer("loop0", "loop", direct=True), id="a loop with O_DIRECT"),
        pytest.param(
            replace(layer("loop0", "loop", direct=True), backing="xfs"),
            id="a loop on a file that is overwritten in place",
        ),
        pytest.param(layer("dm-0", "dm", uuid="LVM-x"), id="LVM"),
        pytest.param(layer("dm-0", "dm", uuid="CRYPT-LUKS2-x"), id="LUKS"),
        pytest.param(layer("dm-0", "dm", uuid="part2-mpath-x"), id="multipath"),
        pytest.param(array(level="raid1", degraded="1"), id="half a mirror"),
        pytest.param(array(level="raid5", degraded="0", policy="bitmap"), id="RAID 5"),
    ],
)
def test_layers_that_pass_writes_on_leave_the_drive_to_blame(top: Layer) -> None:
    assert found(top, layer("sda"))[0] is Depth.DRIVE


@pytest.mark.parametrize(
    ("top", "said"),
    [
        (layer("loop0", "loop"), "loop0 is a loop device that writes through the page"),
        (
            replace(layer("loop0", "loop", direct=True), backing="btrfs"),
            "loop0 is a loop device on btrfs, which does not overwrite in place",
        ),
        (
            layer("zd16"),
            "zd16 (zvol) may keep completed writes, or where they are, in the host's",
        ),
        (layer("bcache0"), "bcache0 (bcache) may keep completed writes"),
        (layer("dm-0", "dm"), "dm-0 (device-mapper of an unknown kind) may keep"),
        (layer("dm-0", "dm", uuid="DMRAID-x"), "of an unknown kind"),
        (layer("dm-0", "dm", uuid="CRYPT-INTEGRITY-x"), "(dm-integrity) may keep"),
        (layer("dm-0", "dm", uuid="CRYPT-SUBDEV-x"), "(dm-integrity) may keep"),
        (layer("dm-0", "dm", uuid="VDO-x"), "(VDO) may keep"),
        (
            made("nbd0", "a virtual device"),
            "nbd0 is not a drive of this host (a virtual",
        ),
        (
            made("vda", "virtio"),
            "(virtio): what provides it may have lost this from its",
        ),
    ],
)
def test_layers_in_the_hosts_memory_cap_the_depth(top: Layer, said: str) -> None:
    depth, reason = found(top, layer("sda"))
    assert depth is Depth.OS
    assert said in reason


@pytest.mark.parametrize(
    ("top", "said"),
    [
        (array(level="raid5", policy="journal", degraded="0"), "a journal of its own"),
        (array(level="raid6", degraded="1"), "md0 is missing a drive"),
        (array(level="raid5"), "or does not report that it has all"),
        (array(level="raid1", backlog="256"), "before all its drives have them"),
    ],
)
def test_arrays_that_can_lose_a_block_by_themselves_cap_the_depth(
    top: Layer, said: str
) -> None:
    depth, reason = found(top, layer("sda"))
    assert depth is Depth.OS
    assert said in reason


def test_a_filesystem_on_what_is_not_known_shows_no_drive() -> None:
    unreadable = {"layers": "ext4 on /dev/root: no block device found"}
    facts = replace(FACTS, volumes=(replace(VOLUME, unreadable=unreadable),))
    before = HostBefore(facts, "/c", "n", "", {})
    host = after(LEFT[Depth.DRIVE], facts=facts)
    (one,) = find_volume_depths(before, DONE, (), host, CutClass.AC)
    assert one.depth is Depth.OS
    assert "what lies below it is not known (ext4 on /dev/root" in one.reasons[0]


def test_an_array_that_lost_a_drive_in_the_cut_caps_the_depth() -> None:
    whole = replace(VOLUME, layers=(array(level="raid5", degraded="0"),))
    lacking = replace(VOLUME, layers=(array(level="raid5", degraded="1"),))
    facts = replace(FACTS, volumes=(whole,))
    before = HostBefore(facts, "/c", "n", "", {})
    for now, depth in ((whole, Depth.DRIVE), (lacking, Depth.OS)):
        host = after(LEFT[Depth.DRIVE], facts=replace(facts, volumes=(now,)))
        (one,) = find_volume_depths(before, DONE, (), host, CutClass.AC)
        assert one.depth is depth


def test_which_of_several_drives_lost_is_not_known() -> None:
    other = replace(VOLUME.drives[0], name="sdb", serial="s2")
    volume = replace(VOLUME, drives=(*VOLUME.drives, other))
    facts = replace(FACTS, volumes=(volume,))
    before = HostBefore(facts, "/c", "n", "", {})
    host = after(LEFT[Depth.DRIVE], facts=facts)
    (one,) = find_volume_depths(before, DONE, (), host, CutClass.AC)
    assert one.depth is Depth.DRIVE
    assert "which of sda, sdb is not known" in one.reasons[0]


@pytest.mark.parametrize("cut", [CutClass.RESET, CutClass.HYPERVISOR_KILL])
def test_a_cut_that_keeps_the_drives_powered_takes_nothing_from_them(
    cut: CutClass,
) -> None:
    depth, reason = found(layer("sda"), cut=cut)
    assert depth is Depth.OS
    assert "the drives kept their power, so a layer above them lost this" in reason
    assert "says nothing about" in cut.leaves_open(Depth.DRIVE)
