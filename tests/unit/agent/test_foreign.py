"""Disks that are no drives of the host, by where /sys has them and what they say."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from dbcheck.agent.host import facts as host_facts
from dbcheck.agent.host.devices import name_disk_provider

PCI = "devices/pci0000:00/0000:00:1f.2"


def disk(sys: Path, path: str, said: Mapping[str, str] | None = None) -> str:
    """Return what makes the disk at *path* below *sys*; said: files of its device."""
    folder = sys / path
    folder.mkdir(parents=True)
    for name, text in (said or {}).items():
        file = folder / "device" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")
    return name_disk_provider(str(folder))


@pytest.mark.parametrize(
    ("path", "said", "made"),
    [
        (f"{PCI}/virtio1/block/vda", {}, "virtio"),
        (f"{PCI}/virtio2/host0/target0:0:0/0:0:0:0/block/sda", {}, "virtio"),
        ("devices/LNXSYSTM:00/VMBUS:01/f8/host0/t/0:0:0:0/block/sda", {}, "Hyper-V"),
        ("devices/vbd-51712/block/xvda", {}, "Xen"),
        ("devices/platform/host3/session1/target3:0:0/3:0:0:0/block/sdb", {}, "iSCSI"),
        (f"{PCI}/host1/rport-1:0-2/target1:0:0/1:0:0:1/block/sdc", {}, "Fibre Channel"),
        ("devices/rbd/0/block/rbd0", {}, "Ceph"),
        ("devices/virtual/block/nbd0", {}, "a virtual device"),
        ("devices/virtual/block/drbd0", {}, "a virtual device"),
        (
            "devices/virtual/nvme-fabrics/ctl/nvme0/nvme0n1",
            {"transport": "tcp"},
            "NVMe over tcp",
        ),
        (
            "devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1",
            {"nvme0/transport": "pcie", "nvme1/transport": "rdma"},
            "NVMe over rdma",
        ),
        (f"{PCI}/ata1/block/sda", {"vendor": "ATA", "model": "QEMU HARDDISK"}, "QEMU"),
        (f"{PCI}/host0/block/sda", {"vendor": "VMware"}, "VMware"),
        (
            f"{PCI}/nvme/nvme1/nvme1n1",
            {"model": "Amazon Elastic Block Store", "transport": "pcie"},
            "Amazon Elastic Block Store",
        ),
    ],
)
def test_what_another_system_makes_is_known(
    path: str, said: Mapping[str, str], made: str, tmp_path: Path
) -> None:
    assert disk(tmp_path, path, said).startswith(made)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (f"{PCI}/ata1/host0/block/sda", {"vendor": "ATA", "model": "WDC WD40EFRX"}),
        (
            f"{PCI}/nvme/nvme0/nvme0n1",
            {"model": "Samsung SSD 990 PRO", "transport": "pcie"},
        ),
        (
            "devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1",
            {"nvme0/transport": "pcie", "model": "KIOXIA"},
        ),
        (f"{PCI}/host2/port-2:0/end_device-2:0/target2:0:0/block/sdd", {}),
    ],
)
def test_a_drive_of_the_host_is_one(
    path: str, said: Mapping[str, str], tmp_path: Path
) -> None:
    assert disk(tmp_path, path, said) == ""


def test_a_layer_of_disks_is_none_itself(tmp_path: Path) -> None:
    folder = tmp_path / "devices/virtual/block/dm-0"
    (folder / "dm").mkdir(parents=True)
    assert host_facts.describe_layer(str(folder), "dm-0", ["sda"])["foreign"] == ""
