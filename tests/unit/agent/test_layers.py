"""What lies between a filesystem and its drives, from the tree that /sys shows."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from dbcheck.agent.host import facts as host_facts
from dbcheck.judge.volumes import find_host_cache
from dbcheck.model.host import Layer
from dbcheck.model.layers import list_kinds

# device -> device-mapper name, UUID and what it is made of; "ID" stands for the 64
# characters of a volume of LVM.  As LVM 2.03 and cryptsetup 2.7 name them.
Tree = dict[str, tuple[str, str, tuple[str, ...]]]
PLAIN: Tree = {
    "dm-1": ("luks-1f0a", "CRYPT-LUKS2-1f0a-luks-1f0a", ("dm-0",)),
    "dm-0": ("vg0-pg--data", "LVM-ID", ("sda", "sdb")),
}
SNAPSHOT: Tree = {
    "dm-3": ("vg0-pg", "LVM-ID", ("dm-1",)),
    "dm-1": ("vg0-pg-real", "LVM-ID-real", ("sda",)),
}
RAID: Tree = {
    "dm-4": ("vg0-pg", "LVM-ID", ("dm-0", "dm-1", "dm-2", "dm-3")),
    "dm-0": ("vg0-pg_rmeta_0", "LVM-ID-real", ("sda",)),
    "dm-1": ("vg0-pg_rimage_0", "LVM-ID-real", ("sda",)),
    "dm-2": ("vg0-pg_rmeta_1", "LVM-ID", ("sdb",)),
    "dm-3": ("vg0-pg_rimage_1", "LVM-ID", ("sdb",)),
}
MULTIPATH: Tree = {
    "dm-1": ("mpatha-part2", "part2-mpath-3600", ("dm-0",)),
    "dm-0": ("mpatha", "mpath-3600", ("sda", "sdb")),
}
CACHE: Tree = {
    "dm-3": ("vg0-pg", "LVM-ID", ("dm-0", "dm-1", "dm-2")),
    "dm-0": ("vg0-pg_corig", "LVM-ID-real", ("sda",)),
    "dm-1": ("vg0-fast_cpool_cdata", "LVM-ID-cdata", ("sdb",)),
    "dm-2": ("vg0-fast_cpool_cmeta", "LVM-ID-cmeta", ("sdb",)),
}
CACHE_VOLUME: Tree = {
    "dm-4": ("vg0-pg", "LVM-ID", ("dm-0", "dm-2", "dm-3")),
    "dm-0": ("vg0-pg_corig", "LVM-ID-real", ("sda",)),
    "dm-2": ("vg0-fast_cvol-cdata", "LVM-ID-cdata", ("dm-1",)),
    "dm-3": ("vg0-fast_cvol-cmeta", "LVM-ID-cmeta", ("dm-1",)),
    "dm-1": ("vg0-fast_cvol", "LVM-ID-cvol", ("sdb",)),
}
WRITECACHE: Tree = {
    "dm-2": ("vg0-pg", "LVM-ID", ("dm-0", "dm-1")),
    "dm-0": ("vg0-pg_wcorig", "LVM-ID-real", ("sda",)),
    "dm-1": ("vg0-fast_cvol", "LVM-ID-cvol", ("sdb",)),
}
OLD_WRITECACHE: Tree = {  # without suffixes, as older releases
    "dm-2": ("vg0-pg", "LVM-ID", ("dm-0",)),
    "dm-0": ("vg0-pg_wcorig", "LVM-ID", ("sda",)),
}
THIN: Tree = {
    "dm-3": ("pve-vm--100--disk--0", "LVM-ID", ("dm-2",)),
    "dm-2": ("pve-data-tpool", "LVM-ID-tpool", ("dm-0", "dm-1")),
    "dm-0": ("pve-data_tmeta", "LVM-ID-tmeta", ("sda",)),
    "dm-1": ("pve-data_tdata", "LVM-ID-tdata", ("sda",)),
}
VDO: Tree = {
    "dm-2": ("vg0-pg", "LVM-ID", ("dm-1",)),
    "dm-1": ("vg0-vpool0-vpool", "LVM-ID-vpool", ("dm-0",)),
    "dm-0": ("vg0-vpool0_vdata", "LVM-ID-vdata", ("sda",)),
}
INTEGRITY: Tree = {
    "dm-3": ("vg0-pg", "LVM-ID", ("dm-2",)),
    "dm-2": ("vg0-pg_rimage_0", "LVM-ID-real", ("dm-0", "dm-1")),
    "dm-0": ("vg0-pg_rimage_0_iorig", "LVM-ID-real", ("sda",)),
    "dm-1": ("vg0-pg_rimage_0_imeta", "LVM-ID-imeta", ("sda",)),
}
MD: Tree = {"md0": ("", "", ("sda", "sdb"))}


def seen(
    tree: Tree, folder: Path, monkeypatch: pytest.MonkeyPatch, md: str = "raid1"
) -> tuple[Layer, ...]:
    """Return the layers as the host's agent finds them below *folder*."""
    monkeypatch.setattr(host_facts, "BLOCK", str(folder))
    for name, (dm_name, uuid, below) in tree.items():
        (folder / name / "slaves").mkdir(parents=True)
        for each in below:
            (folder / each).mkdir(exist_ok=True)
            (folder / name / "slaves" / each).symlink_to(folder / each)
        of = folder / name / name[:2]
        of.mkdir()
        if name.startswith("dm"):
            (of / "name").write_text(f"{dm_name}\n")
            (of / "uuid").write_text(f"{uuid.replace('ID', 'x' * 64)}\n")
        else:
            (of / "level").write_text(f"{md}\n")
            (of / "degraded").write_text("0\n")
    volume = host_facts.Volume("/")
    volume.mount = {"type": "", "options": "rw", "source": "/dev/top"}
    top = folder / next(iter(tree))
    monkeypatch.setattr(volume, "sources", lambda: [str(top)])
    return msgspec.convert(volume.layers(), tuple[Layer, ...])


@pytest.mark.parametrize(
    ("tree", "named"),
    [
        (PLAIN, ["dm-crypt", "LVM"]),
        (SNAPSHOT, ["LVM"]),
        (RAID, ["LVM", "LVM's RAID"]),
        (MULTIPATH, ["multipath"]),
        (MD, ["md raid1"]),
    ],
)
def test_layers_that_pass_writes_on(
    tree: Tree, named: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = seen(tree, tmp_path, monkeypatch)
    assert list_kinds(found) == named
    assert find_host_cache(found) == ""
    assert {layer.name for layer in found} >= {"sda"}


@pytest.mark.parametrize(
    ("tree", "named"),
    [
        (CACHE, "vg0-pg_corig (LVM's cache)"),
        (CACHE_VOLUME, "vg0-pg_corig (LVM's cache)"),
        (WRITECACHE, "vg0-pg_wcorig (LVM's write cache)"),
        (OLD_WRITECACHE, "vg0-pg_wcorig (LVM's write cache)"),
        (THIN, "pve-data-tpool (thin provisioning)"),
        (VDO, "vg0-vpool0-vpool (VDO)"),
        (INTEGRITY, "vg0-pg_rimage_0_iorig (dm-integrity)"),
    ],
)
def test_layers_that_hold_writes_are_named(
    tree: Tree, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = seen(tree, tmp_path, monkeypatch)
    assert find_host_cache(found).startswith(f"{named} may keep completed writes")
    assert named.partition("(")[2].rstrip(")") in list_kinds(found)


def test_a_group_may_have_any_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree: Tree = {"dm-0": ("my_cdata-pg", "LVM-ID", ("sda",))}
    assert list_kinds(seen(tree, tmp_path, monkeypatch)) == ["LVM"]
