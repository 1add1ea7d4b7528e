"""Devices that look like drives, but are made by another system or by the kernel.

This file is sent to the target's host, see serve.py: Python 3.8, no more than
the standard library and remote/wire.py.

A hypervisor and a storage server may hold what such a device completed in their own
page cache, so that its loss shows nothing about a drive behind them.
"""

from __future__ import annotations

import glob
import os
import re

from dbcheck.remote.wire import first_line

# What stands in the path of a device in /sys, as the kernel's drivers name their buses.
BUSES = (
    (re.compile(r"/virtio\d+/"), "virtio"),
    (re.compile(r"/vmbus", re.IGNORECASE), "Hyper-V"),
    (re.compile(r"/vbd-\d+/"), "Xen"),
    (re.compile(r"/session\d+/target"), "iSCSI"),
    (re.compile(r"/rport-"), "Fibre Channel"),
    (re.compile(r"/devices/rbd/"), "Ceph"),
    (re.compile(r"/devices/virtual/block/"), "a virtual device"),
)
# Vendors and models of drives that hypervisors and clouds emulate on ordinary buses.
EMULATED = re.compile(
    r"^(QEMU|VMware|VBOX|Msft|MSFT|ORCL-VBOX|Google|nvme_card-pd)|Virtual [Dd]isk|"
    r"Amazon Elastic Block Store"
)


def foreign(folder: str) -> str:
    """Return what makes the disk with the sysfs folder *folder*, "" if it is a drive.

    With NVMe the device is its controller, or of several paths their subsystem.
    """
    path = os.path.realpath(folder)
    for bus, name in BUSES:
        if bus.search(path):
            return name
    device = os.path.join(path, "device")
    for pattern in ("transport", "nvme*/transport"):
        for file in sorted(glob.glob(os.path.join(glob.escape(device), pattern))):
            transport = first_line(file)
            if transport not in ("", "pcie", "apple-nvme"):
                return "NVMe over " + transport
    for file in ("vendor", "model"):
        named = first_line(os.path.join(device, file))
        if EMULATED.search(named):
            return named
    return ""
