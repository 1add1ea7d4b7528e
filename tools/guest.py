"""Makes filesystems on many kinds of storage, and records what the host's agent shows.

Not a test: it runs as root in a QEMU guest of its own, with Debian 12 and the packages
hdparm sdparm smartmontools nvme-cli lvm2 mdadm bcache-tools btrfs-progs xfsprogs, and
overwrites the disks that have the serial numbers below.  The guest needs the modules
dbcheck.agent and dbcheck.base.system beside this file, and these
devices of QEMU, each with its own drive:

    virtio-blk-pci,serial=VIRTIO-ON,write-cache=on            8 GiB
    virtio-blk-pci,serial=VIRTIO-OFF,write-cache=off          4 GiB
    nvme,serial=NVME-ON                                       2 GiB
    nvme,serial=NVME-OFF,write-cache=off,logical_block_size=4096
    nvme,id=two,serial=NVME-TWO with two nvme-ns,bus=two
    ide-hd (AHCI),serial=ATA-ON,ver=FW01                      2 GiB
    ide-hd (AHCI),serial=ATA-OFF,write-cache=off,rotation_rate=1
    ide-hd (AHCI),serial=ATA-ODD,model=Weird "Disk" (TM) 5%
    scsi-hd (virtio-scsi),serial=SCSI-ON,vendor=ACME,product=FASTDISK,ver=1.01
    scsi-hd (virtio-scsi),serial=SCSI-OFF,write-cache=off
    scsi-hd (virtio-scsi),serial=SCSI-FUA,dpofua=on
    scsi-hd (megasas),serial=MEGASAS    scsi-hd (mptsas1068),serial=MPTSAS
    usb-storage,serial=USB

    python3 guest.py OUT.json
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from dbcheck.agent.host.facts import collect_facts
from dbcheck.agent.host.tools import read_everything

NOBODY = 65534
TIMEOUT_S = 90
LSBLK = ("lsblk", "-J", "-o", "NAME,KNAME,TYPE,MOUNTPOINT,FSTYPE")
FINDMNT = ("findmnt", "-J", "-o", "SOURCE,TARGET,FSTYPE,OPTIONS", "--target")
VERSIONS = {
    "kernel": ("uname", "-r"),
    "hdparm": ("hdparm", "-V"),
    "sdparm": ("sdparm", "-V"),
    "smartctl": ("smartctl", "-V"),
    "nvme": ("nvme", "version"),
    "dmsetup": ("dmsetup", "version"),
    "lvm": ("lvm", "version"),
    "mdadm": ("mdadm", "-V"),
    "lsblk": ("lsblk", "-V"),
}
Places = list[tuple[str, str, list[str]]]


def run(*command: str, given: str = "") -> str:
    """Return what a command prints; show it if the command fails."""
    done = subprocess.run(
        command,
        input=given,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
    )
    if done.returncode:
        sys.stderr.write(f"{command}: {done.returncode}: {done.stdout[-300:]}\n")
    return done.stdout


def put(path: str, text: str) -> None:
    """Write to a file of the kernel."""
    Path(path).write_text(text)


def serials() -> dict[str, str]:
    """Return the path of each disk by its serial number."""
    shown = json.loads(run("lsblk", "-J", "-d", "-o", "NAME,SERIAL"))["blockdevices"]
    found: dict[str, str] = {}
    for each in shown:
        file = Path("/sys/class/block", each["name"], "serial")  # of a virtio disk
        serial = (each["serial"] or "").strip()
        if file.exists():
            serial = file.read_text().strip()
        name = f"{serial}-2" if serial in found else serial
        found[name] = f"/dev/{each['name']}"
    return found


class Guest:
    """The disks of the guest, and the filesystems that were made on them."""

    def __init__(self) -> None:
        self.disks = serials()
        self.places: Places = []

    def part(self, serial: str, number: int) -> str:
        """Return the path of a partition."""
        disk = self.disks[serial]
        return f"{disk}{'p' if disk[-1].isdigit() else ''}{number}"

    def divide(self, serial: str, *sizes: str) -> None:
        """Make partitions."""
        lines = "".join(f"size={size}\n" for size in sizes)
        run("sfdisk", "-q", self.disks[serial], given=f"label: gpt\n{lines}")
        run("udevadm", "settle")

    def mount(
        self, name: str, device: str, kind: str = "ext4", options: str = ""
    ) -> None:
        """Make a filesystem and mount it; it becomes a place of that name."""
        path = f"/mnt/{name}"
        Path(path).mkdir(parents=True)
        run(f"mkfs.{kind}", "-q", "-F" if kind == "ext4" else "-f", device)
        run("mount", "-t", kind, *(("-o", options) if options else ()), device, path)
        self.places.append((name, path, []))

    def build(self) -> None:
        """Make all of them."""
        self.divide("VIRTIO-OFF", "1G", *["200M"] * 5)
        self.divide("ATA-ON", "600M", "1G")
        self.mount("virtio", self.part("VIRTIO-OFF", 1))
        self.mount("ata", self.part("ATA-ON", 1), "xfs")
        self.mount("ata-off", self.disks["ATA-OFF"], options="barrier=0")
        self.mount("ata-odd", self.disks["ATA-ODD"], options="data=writeback")
        self.mount("scsi", self.disks["SCSI-ON"])
        self.mount("scsi-off", self.disks["SCSI-OFF"])
        self.mount("nvme-off", self.disks["NVME-OFF"], "xfs")
        self.mount("nvme-two", self.disks["NVME-TWO"])
        self.mount("megasas", self.disks["MEGASAS"])
        self.mount("mptsas", self.disks["MPTSAS"], "btrfs", "nodatacow")
        self.mount("usb", self.disks["USB"])
        self.build_lvm()
        self.build_md()
        self.build_bcache()
        run("truncate", "-s", "32M", "/mnt/virtio/img")
        direct = ("losetup", "-f", "--show", "--direct-io=on", "/mnt/virtio/img")
        self.mount("loop", run(*direct).strip())

    def build_lvm(self) -> None:
        """Make a linear volume, and others with each kind of cache."""
        slow, fast = self.disks["VIRTIO-ON"], self.disks["NVME-ON"]
        make = ("lvcreate", "-y", "-n")
        run("vgcreate", "vg0", slow, fast)
        run(*make, "lin", "-L", "200M", "vg0", slow)
        self.mount("lvm", "/dev/vg0/lin")
        for mode in ("writeback", "writethrough"):
            run(*make, mode, "-L", "128M", "vg0", slow)
            run(*make, f"{mode}fast", "-L", "64M", "vg0", fast)
            how = ("--type", "cache", "--cachevol", f"{mode}fast", "--cachemode", mode)
            run("lvconvert", "-y", *how, f"vg0/{mode}")
            self.mount(f"lvmcache-{mode}", f"/dev/vg0/{mode}")
        run(*make, "wc", "-L", "128M", "vg0", slow)
        run(*make, "wcfast", "-L", "64M", "vg0", fast)
        run("lvchange", "-an", "vg0/wcfast")
        cache = ("--type", "writecache", "--cachevol", "wcfast")
        run("lvconvert", "-y", *cache, "vg0/wc")
        self.mount("lvm-writecache", "/dev/vg0/wc")

    def build_md(self) -> None:
        """Make a mirror with a bitmap, and RAID 5 with a journal."""
        parts = [self.part("VIRTIO-OFF", number) for number in range(2, 7)]
        make = ("mdadm", "--create", "--run")
        mirror = ("--level=1", "-n", "2", "--bitmap=internal", "--assume-clean")
        run(*make, "/dev/md/m1", *mirror, *parts[:2], given="y\n")
        self.mount("md-raid1", "/dev/md/m1")
        journal = ("--write-journal", self.disks["NVME-TWO-2"])
        parity = ("--level=5", "-n", "3", *journal)
        run(*make, "/dev/md/m5", *parity, *parts[2:], given="y\n")
        self.mount("md-raid5-journal", "/dev/md/m5")

    def build_bcache(self) -> None:
        """Make a cache for writes; udev registers it."""
        cache, behind = self.part("ATA-ON", 2), self.disks["SCSI-FUA"]
        run("make-bcache", "--wipe-bcache", "--writeback", "-C", cache, "-B", behind)
        while not Path("/dev/bcache0").exists():
            time.sleep(0.1)
        run("udevadm", "settle")
        self.mount("bcache", "/dev/bcache0")

    def switch_off(self) -> None:
        """Switch caches off, each with its own tool, or the kernel's belief of one."""
        run("hdparm", "-W", "0", self.disks["ATA-ON"])
        run("sdparm", "--clear=WCE", self.disks["SCSI-ON"])
        controller = self.disks["NVME-ON"].rpartition("n")[0]
        run("nvme", "set-feature", controller, "-f", "6", "-v", "0")
        for serial, file in (
            ("VIRTIO-ON", "cache_type"),
            ("ATA-ODD", "queue/write_cache"),
        ):
            name = Path(self.disks[serial]).name
            put(f"/sys/class/block/{name}/{file}", "write through")
        put("/sys/class/block/bcache0/bcache/cache_mode", "writethrough")
        array = Path("/dev/md/m5").resolve().name
        put(f"/sys/class/block/{array}/md/journal_mode", "write-back")

    def recorded(self) -> dict[str, Any]:
        """Return what the agent shows, and lsblk and findmnt of the same."""
        facts = collect_facts(self.places)
        layers = (layer for volume in facts["volumes"] for layer in volume["layers"])
        names = [each["name"] for each in layers if each["kind"] != "partition"]
        return {
            "facts": facts,
            "readings": read_everything(list(dict.fromkeys(names)), []),
            "lsblk": json.loads(run(*LSBLK)),
            "findmnt": {
                name: json.loads(run(*FINDMNT, path)) for name, path, _ in self.places
            },
        }

    def recorded_as_nobody(self) -> Any:
        """Return the same as an account without rights has it."""
        reading, writing = os.pipe()
        if os.fork() == 0:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            with open(writing, "w") as file:
                json.dump(self.recorded(), file)
            os._exit(0)
        os.close(writing)
        with open(reading) as file:
            return json.load(file)


def main() -> None:
    """Build, record, switch caches off, record again."""
    guest = Guest()
    guest.build()
    lines = {name: run(*command).splitlines() for name, command in VERSIONS.items()}
    found = {
        "versions": {name: shown[0].strip() for name, shown in lines.items() if shown},
        "disks": guest.disks,
        "as found": guest.recorded(),
    }
    guest.switch_off()
    found["switched off"] = guest.recorded()
    found["as nobody"] = guest.recorded_as_nobody()
    put(sys.argv[1], json.dumps(found, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
