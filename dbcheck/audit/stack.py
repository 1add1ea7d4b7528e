"""Filesystems, block devices, drives and the host as subjects of the audit."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from dbcheck.audit import devices, platform, printed, storage
from dbcheck.audit.raid import find_controllers
from dbcheck.audit.rule import SubjectKind
from dbcheck.audit.subject import (
    AS_ROOT,
    Fact,
    Subject,
    find_remedy,
    make_shown_fact,
    parse_fact,
)
from dbcheck.model import layers
from dbcheck.model.host import Drive, Layer, Reading, Readings, TargetFacts, Volume

_MOUNTS = "/proc/self/mountinfo"
_PROCESS = "/proc/PID of the server: cmdline, environ, maps, mem"
_NOT_ASKED = "the host was not asked"
_HINT_TO_NAME_HOST = (
    "name the server's host: --target-host ssh://root@HOST, or by ansible_host in the"
    " inventory, without dbcheck_ask_host: false"
)
_MEMORY_DEVICE = re.compile(r"(?:ram|zram)\d+")
_PARITY_LEVELS = ("raid4", "raid5", "raid6")
_POLICIES_WITHOUT_WRITE_HOLE = ("journal", "ppl")  # of an md array's consistency
_CLOUDS_BY_VENDOR = {
    "amazon": "Amazon EC2",
    "google": "Google Cloud",
    "microsoft corporation": "Azure, or Hyper-V",
    "alibaba": "Alibaba Cloud",
    "digitalocean": "DigitalOcean",
    "hetzner": "Hetzner Cloud",
    "oraclecloud": "Oracle Cloud",
    "openstack": "OpenStack",
}
_HOW_TO_SWITCH_CACHE_OFF = {
    # $C is the controller: if nvme-cli is given a namespace as its device, it passes
    # the namespace on, and drives refuse that (Feature Not Namespace Specific).
    "nvme": "nvme set-feature /dev/$C -f 6 -v 0, with --save if the drive takes it",
    "sd": "hdparm -W 0 /dev/$D (SAS: sdparm --clear=WCE /dev/$D, with --save if the"
    " drive takes it), with a udev"
    ' rule so that it lasts: ACTION=="add", SUBSYSTEM=="block", KERNEL=="$D",'
    ' RUN+="/usr/sbin/hdparm -W 0 /dev/%k"',
    "vd": "set the disk's cache mode to writethrough or directsync in the hypervisor",
}
_NVME_CONTROLLER = re.compile(r"nvme\d+")
_NO_KNOWN_COMMAND = "see the manual of what provides this device"


def make_unseen_fact(why: str = "") -> Fact:
    """Return the fact that a host was not read; why: the error, "" if not asked."""
    remedy = "" if why else _HINT_TO_NAME_HOST
    return Fact(None, "the target's host", why or _NOT_ASKED, remedy)


def make_unseen_subjects(why: str = "") -> list[Subject]:
    """Return the stand-in for all that lies below a server.

    why: see make_unseen_fact().
    """
    fact = make_unseen_fact(why)
    places = "what the server's directories lie on"
    return [
        Subject(SubjectKind.FILESYSTEM, places, {storage.KIND: fact}),
        Subject(SubjectKind.DRIVE, "the drives below them", {devices.FLUSHES: fact}),
    ]


def make_subjects(
    facts: TargetFacts, readings: Readings, page_bytes: int, *, guarded: bool
) -> list[Subject]:
    """Return the host, and all that its places lie on, as subjects.

    page_bytes: size of the server's pages.  guarded: the server guards against torn
    pages.
    """
    kernel = parse_kernel_release(readings)
    subjects = [_make_host_subject(readings, facts)]
    subjects += [
        _make_filesystem_subject(volume, readings, kernel) for volume in facts.volumes
    ]
    subjects += [
        Subject(
            SubjectKind.FILESYSTEM,
            f"{name} (not seen)",
            {storage.KIND: Fact(None, _MOUNTS, why, AS_ROOT)},
        )
        for name, why in facts.unseen.items()
    ]
    seen: set[tuple[SubjectKind, str]] = set()
    for volume in facts.volumes:
        for subject in _make_device_subjects(volume, readings, page_bytes, guarded):
            if (subject.kind, subject.name) not in seen:
                seen.add((subject.kind, subject.name))
                subjects.append(subject)
    return [*subjects, *find_controllers(readings)]


def parse_kernel_release(readings: Readings) -> tuple[int, ...]:
    """Return the kernel's release, () if it is not known."""
    text = readings.text("", "/proc/sys/kernel/osrelease")
    found = re.match(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else ()


def is_drive_volatile(
    drive: Drive, layer: Layer | None, readings: Readings
) -> bool | None:
    """Return True if a drive has a volatile cache in use, None if that is not known."""
    own_cache = _make_own_cache_fact(drive, layer, readings).value
    if own_cache is None:
        return True if drive.write_cache == "write back" else None
    return own_cache == printed.ENABLED


# --------------------------------------------------------------- the host


def _make_host_subject(readings: Readings, host: TargetFacts) -> Subject:
    release = readings.text("", "/proc/sys/kernel/osrelease").lower()
    vendor = " ".join(
        readings.text("", f"/sys/class/dmi/id/{file}")
        for file in ("sys_vendor", "product_name")
    )
    how = "systemd-detect-virt, /sys/class/dmi/id, /proc/sys/kernel/osrelease"
    values = {
        platform.CONTAINER: _find_container(readings),
        platform.VIRTUAL_MACHINE: _find_virtual_machine(readings, vendor),
        platform.CLOUD: _find_cloud(vendor),
        platform.DESKTOP: _find_desktop(release),
        "kernel": release,
    }
    facts = {fact: Fact(value, how) for fact, value in values.items() if value}
    if host.container:
        facts[platform.CONTAINER] = Fact(host.container.named, "/proc/PID/cgroup")
    process = host.process
    if process is not None:
        read = platform.list_facts_of_process(process)
        for name in (platform.FLUSH_CALLS, platform.PRELOADED, platform.NO_SYNC_OPTION):
            why = (
                process.no_sync_unread
                if name == platform.NO_SYNC_OPTION
                else process.unread
            )
            facts[name] = Fact(read.get(name), _PROCESS, why, AS_ROOT)
    return Subject(SubjectKind.HOST, "the target's host", facts)


_MACHINES_BY_VENDOR = {
    "qemu": "QEMU",
    "kvm": "KVM",
    "vmware": "VMware",
    "virtualbox": "VirtualBox",
    "hvm domu": "Xen",
    "virtual machine": "Hyper-V",
    "bochs": "Bochs",
    "google compute engine": "Google Compute Engine",
    "amazon ec2": "Amazon EC2",
}


def _find_container(readings: Readings) -> str:
    if readings.text("", "/.dockerenv") == "yes":
        return "docker"
    container = readings.text("", "container") or readings.text(
        "", "/run/systemd/container"
    )
    return platform.NONE if container in ("", "wsl") else container


def _find_virtual_machine(readings: Readings, vendor: str) -> str:
    if readings.text("", "vm") not in ("", platform.NONE):
        return readings.text("", "vm")
    machines = (
        name for word, name in _MACHINES_BY_VENDOR.items() if word in vendor.lower()
    )
    return next(machines, platform.NONE)


def _find_cloud(vendor: str) -> str:
    clouds = (
        name for word, name in _CLOUDS_BY_VENDOR.items() if word in vendor.lower()
    )
    return next(clouds, platform.NONE)


def _find_desktop(release: str) -> str:
    if "microsoft" in release:
        return "WSL"
    return "Docker Desktop" if "linuxkit" in release else platform.NONE


# --------------------------------------------------------------- filesystems


def _make_filesystem_subject(
    volume: Volume, readings: Readings, kernel: tuple[int, ...]
) -> Subject:
    kind = volume.filesystem
    options = volume.mount_options.split(",")
    ignored = storage.list_ignored_options(kind, kernel)
    values = {
        "filesystem": kind,
        "mount options": volume.mount_options,
        **storage.parse_mount_settings([volume.mount_options], ignored),
    }
    if kind in ("ext3", "ext4"):
        values[storage.JOURNAL_MODE] = _find_option(options, "data=", "ordered")
    if kind == "btrfs":
        values[storage.DATA_COW] = "off" if "nodatacow" in options else "on"
    if kind.startswith("nfs"):
        soft = [option for option in options if option in ("soft", "softerr")]
        values[storage.NFS_RETRIES] = soft[0] if soft else "hard"
    if any(storage.EMPTY_DIR_FOLDER in path for path in volume.places.values()):
        values[storage.POD_VOLUME] = storage.EMPTY_DIR
    facts = {name: Fact(value, _MOUNTS) for name, value in values.items()}
    why = volume.unreadable.get("filesystem", "")
    facts[storage.KIND] = (
        Fact(None, _MOUNTS, why or "not reported by the host", AS_ROOT)
        if not kind
        else Fact(storage.kind_of(kind), _MOUNTS)
    )
    if kind == "zfs":
        facts.update(_make_zfs_facts(volume.source, readings))
    words = {"MOUNT": volume.mount_point, "SOURCE": volume.source}
    name = f"{', '.join(volume.places)} ({volume.mount_point})"
    return Subject(SubjectKind.FILESYSTEM, name, facts, words=words)


def _find_option(options: Sequence[str], prefix: str, usual: str) -> str:
    values = (option[len(prefix) :] for option in options if option.startswith(prefix))
    return next(values, usual)


def read_record_bytes(dataset: str, readings: Readings) -> int | None:
    """Return the size of a ZFS dataset's records, None if it is not known."""
    reading = readings.get(dataset, "zfs")
    text = printed.parse_zfs_properties(reading.text if reading else "").get(
        "recordsize", ""
    )
    return int(text) if re.fullmatch(r"[0-9]{1,10}", text) else None


def _make_zfs_facts(dataset: str, readings: Readings) -> Mapping[str, Fact]:
    reading = readings.get(dataset, "zfs")
    sync = parse_fact(
        reading, lambda text: printed.parse_zfs_properties(text).get("sync")
    )
    flush = readings.get("", "/sys/module/zfs/parameters/zfs_nocacheflush")
    return {
        storage.ZFS_SYNC: sync,
        storage.ZFS_FLUSH: parse_fact(flush, lambda text: text or None),
    }


# --------------------------------------------------------------- devices and drives


def _make_device_subjects(
    volume: Volume, readings: Readings, page_bytes: int, guarded: bool
) -> Iterator[Subject]:
    by_name = {layer.name: layer for layer in volume.layers}
    drives = {drive.name for drive in volume.drives}
    for layer in volume.layers:
        plain = layer.kind == "disk" and layer.name in drives
        in_memory = _MEMORY_DEVICE.fullmatch(layer.name)
        if layer.kind != "partition" and (in_memory or not plain):
            yield _make_layer_subject(layer, volume, readings)
    for drive in volume.drives:
        yield _make_drive_subject(
            drive, by_name.get(drive.name), readings, page_bytes, guarded
        )
    if not volume.drives and storage.kind_of(volume.filesystem) != storage.MEMORY:
        why = volume.unreadable.get("layers", "no block device is known")
        name = f"the drives below {', '.join(volume.places)}"
        fact = Fact(None, "/sys/dev/block", why)
        yield Subject(SubjectKind.DRIVE, name, {devices.FLUSHES: fact})


def _make_layer_subject(layer: Layer, volume: Volume, readings: Readings) -> Subject:
    queue = f"/sys/block/{layer.name}/queue/write_cache"
    facts = {
        "kind": Fact(layers.kind_of(layer) or layer.kind, "/sys/class/block"),
        "kernel's write cache": make_shown_fact(layer.write_cache, queue),
        devices.IN_MEMORY: Fact(
            "yes" if _MEMORY_DEVICE.fullmatch(layer.name) else "no", "/sys/class/block"
        ),
        devices.LOOP: Fact("yes" if layer.kind == "loop" else "no", "/sys/class/block"),
    }
    if layer.below and layer.write_cache:
        facts[devices.PASSES_FLUSHES] = Fact(
            _judge_passing_of_flushes(layer, volume), queue
        )
    if layer.kind == "md":
        facts.update(_make_array_facts(layer, readings))
    if layer.kind == "dm":
        facts.update(_make_mapper_facts(layer, volume, readings))
    if reading := readings.get(layer.name, "bcache/cache_mode"):
        detached = readings.text(layer.name, "bcache/state") == "no cache"
        mode = Fact("none", f"/sys/block/{layer.name}/bcache/state")
        facts[devices.CACHE_MODE] = (
            mode if detached else parse_fact(reading, printed.parse_chosen_word)
        )
    words = {
        "DEVICE": layer.name,
        "BACKING": layer.backing_file or "losetup -l shows it",
    }
    subject_name = f"{layer.name} ({layer.dm_name})" if layer.dm_name else layer.name
    return Subject(SubjectKind.LAYER, subject_name, facts, words=words)


def _judge_passing_of_flushes(layer: Layer, volume: Volume) -> str:
    """Return "no" if a layer passes no flush on to a device below that needs it."""
    if layer.write_cache != "write through":
        return "yes"
    layer_by_name = {inner.name: inner for inner in volume.layers}
    queue = list(layer.below)
    for name in queue:  # grows while it is walked
        inner = layer_by_name.get(name)
        if inner is not None:
            if inner.write_cache == "write back":
                return "no"
            queue += [lower for lower in inner.below if lower not in queue]
    return "yes"


def _make_array_facts(layer: Layer, readings: Readings) -> Mapping[str, Fact]:
    folder = f"/sys/block/{layer.name}/md"
    md = layer.md
    facts = {
        devices.MISSING_DRIVES: make_shown_fact(
            md.get("degraded", ""), f"{folder}/degraded"
        )
    }
    if md.get("level") in _PARITY_LEVELS:
        is_closed = md.get("policy") in _POLICIES_WITHOUT_WRITE_HOLE
        how = f"{folder}/consistency_policy"
        facts[devices.WRITE_HOLE] = Fact("closed" if is_closed else "open", how)
    if "backlog" in md:
        behind = "off" if md["backlog"] == "0" else md["backlog"]
        facts[devices.WRITE_BEHIND] = Fact(behind, f"{folder}/bitmap/backlog")
    reading = readings.get(layer.name, "md/journal_mode")
    if reading is not None and (mode := printed.parse_chosen_word(reading.text)):
        facts[devices.JOURNAL_MODE] = Fact(mode, reading.how)
    if md.get("level") == "raid0":  # which has no such file
        del facts[devices.MISSING_DRIVES]
    return facts


def _make_mapper_facts(
    layer: Layer, volume: Volume, readings: Readings
) -> Mapping[str, Fact]:
    """Make facts of a device-mapper device's table, or of why the table is not known.

    Only root may read the table.  Without it, LVM's volumes with a cache are recognised
    by the names of the devices below them.
    """
    reading = readings.get(layer.name, "dmsetup table")
    table = printed.parse_mapper_targets(
        reading.text if reading and not reading.why else ""
    )
    if table and reading is not None:
        # A single target that is made for tests decides.
        kinds = {kind for kind, _ in table}
        target = min(kinds & devices.TEST_TARGETS or kinds)
        facts = {devices.TARGET: Fact(target, reading.how)}
        if mode := printed.parse_cache_mode(table):
            facts[devices.CACHE_MODE] = Fact(mode, reading.how)
        if letter := printed.parse_integrity_mode(table):
            facts[devices.INTEGRITY_MODE] = Fact(letter, reading.how)
        return facts
    below = [inner for inner in volume.layers if inner.name in layer.below]
    cached = any(
        layers.kind_of(inner) in (layers.CACHE, layers.WRITECACHE) for inner in below
    )
    why = reading.why if reading and reading.why else "the table is not shown"
    unread = Fact(None, f"dmsetup table {layer.dm_name}", why, AS_ROOT)
    return {devices.CACHE_MODE: unread} if cached else {}


def _make_drive_subject(
    drive: Drive,
    layer: Layer | None,
    readings: Readings,
    page_bytes: int,
    guarded: bool,
) -> Subject:
    name = drive.name
    own_cache = _make_own_cache_fact(drive, layer, readings)
    facts = {
        "kernel's write cache": make_shown_fact(
            drive.write_cache, f"/sys/block/{name}/queue/write_cache"
        ),
        devices.WRITE_CACHE: own_cache,
        devices.FLUSHES: _make_flushes_fact(drive, own_cache),
        devices.GUARDED: Fact("yes" if guarded else "no", "the server's settings"),
        **_make_identity_facts(drive, readings),
        **_make_condition_facts(name, readings),
    }
    if layer is not None:
        provider = layer.foreign or devices.THIS_HOST
        if layer.kind == "disk":
            facts[devices.PROVIDER] = Fact(provider, "/sys/class/block")
        facts["FUA"] = make_shown_fact(layer.fua, f"/sys/block/{name}/queue/fua")
    if fact := _make_atomic_fact(name, readings, page_bytes):
        facts[devices.ATOMIC] = fact
    how_off = next(
        (
            text
            for start, text in _HOW_TO_SWITCH_CACHE_OFF.items()
            if name.startswith(start)
        ),
        _NO_KNOWN_COMMAND,
    )
    controller = _NVME_CONTROLLER.match(name)
    how_off = how_off.replace("$C", controller[0] if controller else name)
    words = {"DEVICE": name, "CACHE_OFF": how_off.replace("$D", name)}
    subject_name = f"{name} ({drive.model})" if drive.model else name
    return Subject(SubjectKind.DRIVE, subject_name, facts, words=words)


def _make_own_cache_fact(drive: Drive, layer: Layer | None, readings: Readings) -> Fact:
    """Return the state of the drive's own write cache, by the best source for it.

    A loop device always has a write cache: what it completed is in the page cache, or
    in the drive, below its file, until the file is synced (Linux,
    drivers/block/loop.c).
    """
    name = drive.name
    if layer is not None and layer.kind == "loop":
        return Fact(printed.ENABLED, "Linux, drivers/block/loop.c")
    id_ctrl = readings.get(name, "nvme id-ctrl")
    sources: list[tuple[Reading | None, Callable[[str], str | None]]] = [
        (
            readings.get(name, "nvme get-feature"),
            lambda text: printed.parse_nvme_cache(
                id_ctrl.text if id_ctrl else "", text
            ),
        ),
        (id_ctrl, lambda text: printed.parse_nvme_cache(text, "")),
        (readings.get(name, "hdparm"), printed.parse_hdparm_cache),
        (readings.get(name, "sdparm"), printed.parse_sdparm_cache),
        (readings.get(name, "device/scsi_disk/*/cache_type"), printed.parse_scsi_cache),
        (readings.get(name, "cache_type"), printed.parse_virtio_cache),
    ]
    unread: Fact | None = None
    for reading, parse in sources:
        if reading is None:
            continue
        fact = parse_fact(reading, parse)
        if fact.value is not None:
            return fact
        unread = unread or fact
    return unread or Fact(None, "", "nothing on this host shows it", "")


def _make_flushes_fact(drive: Drive, own_cache: Fact) -> Fact:
    how = f"/sys/block/{drive.name}/queue/write_cache; {own_cache.how}".rstrip("; ")
    if drive.write_cache == "write back":
        return Fact("sent", how)
    if not drive.write_cache:
        return Fact(None, how, "the kernel does not show its write_cache")
    if own_cache.value is None:
        unknown = "the kernel sends no flush, and the drive's own cache is unknown"
        why = f"{unknown}: {own_cache.why}"
        return Fact(None, how, why, own_cache.remedy)
    return Fact("not sent" if own_cache.value == printed.ENABLED else "not needed", how)


def _make_identity_facts(drive: Drive, readings: Readings) -> Mapping[str, Fact]:
    model, firmware = printed.parse_model_and_firmware(
        readings.text(drive.name, "smartctl")
    )
    firmware = (
        firmware
        or readings.text(drive.name, "device/firmware_rev")
        or readings.text(drive.name, "device/rev")
    )
    rotational = readings.text(drive.name, "queue/rotational")
    values = {
        "model": drive.model or model,
        "firmware": firmware,
        "rotational": {"1": "yes", "0": "no"}.get(rotational, ""),
    }
    how = f"/sys/class/block/{drive.name}"
    return {name: Fact(value, how) for name, value in values.items() if value}


def _make_condition_facts(name: str, readings: Readings) -> Mapping[str, Fact]:
    """Make facts of the drive's own assessment, as far as its tools show it."""
    facts: dict[str, Fact] = {}
    smart = readings.get(name, "smartctl")
    log = readings.get(name, "nvme smart-log")
    for reading in filter(None, (log, smart)):
        warning = printed.parse_critical_warning(reading.text)
        values = {
            devices.HEALTH: printed.judge_nvme_health(warning)
            or printed.parse_smart_health(reading.text),
            devices.CACHE_BACKUP: printed.judge_cache_backup(warning),
            devices.CAPACITOR: printed.parse_capacitor_test(reading.text),
        }
        for fact, value in values.items():
            if value is not None:
                facts.setdefault(fact, Fact(value, reading.how))
    for reading in filter(None, (log, smart)):
        why = printed.parse_smartctl_error(reading.text) or reading.why
        if why and "not installed" not in why:
            unread = Fact(None, reading.how, why, find_remedy(why))
            facts.setdefault(devices.HEALTH, unread)
    return facts


def _make_atomic_fact(name: str, readings: Readings, page_bytes: int) -> Fact | None:
    id_ctrl = readings.get(name, "nvme id-ctrl")
    if id_ctrl is None:
        return None
    size = printed.parse_atomic_bytes(id_ctrl.text, readings.text(name, "nvme id-ns"))
    if size is None:
        return None
    value = "smaller than a page" if size < page_bytes else "a page or more"
    return Fact(value, f"{id_ctrl.how}: {size} bytes, a page has {page_bytes}")
