"""Kinds of block devices, as their names show them.

Device-mapper devices have their owner's name in front of their UUID.  A UUID of LVM is
"LVM-", 64 characters of the volume, and a suffix for LVM's own volumes, whose names it
refuses to users (lvm2, lib/misc/lvm-string.c: build_dm_uuid, is_reserved_lvname).  The
suffix shows what the volume above is made with; the UUID of that volume does not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from dbcheck.model.host import Layer

CACHE, WRITECACHE = "LVM's cache", "LVM's write cache"
THIN, VDO, INTEGRITY = "thin provisioning", "VDO", "dm-integrity"
UNKNOWN = "device-mapper of an unknown kind"
ZVOL, BCACHE = "zvol", "bcache"
_LVM_ID_CHARACTERS = 64
_LVM = "LVM-"
_KIND_OF_SUFFIX = {
    "cdata": CACHE,
    "cmeta": CACHE,
    "corig": CACHE,
    "cpool": CACHE,
    "cvol": CACHE,
    "wcorig": WRITECACHE,
    "pool": THIN,
    "tpool": THIN,
    "tdata": THIN,
    "tmeta": THIN,
    "vpool": VDO,
    "vdata": VDO,
    "iorig": INTEGRITY,
    "imeta": INTEGRITY,
    "rimage": "LVM's RAID",
    "rmeta": "LVM's RAID",
    "mimage": "LVM's mirror",
    "cow": "LVM's snapshot",
}
_KIND_OF_PREFIX = {
    _LVM: "LVM",
    "mpath-": "multipath",
    "CRYPT-LUKS1-": "dm-crypt",
    "CRYPT-LUKS2-": "dm-crypt",
    "CRYPT-PLAIN-": "dm-crypt",
    # cryptsetup, lib/libcryptsetup.h and lib/utils_dm.h: the device below a LUKS2
    # device with integrity is a "SUBDEV"; earlier releases call it "INTEGRITY".
    "CRYPT-INTEGRITY-": INTEGRITY,
    "CRYPT-SUBDEV-": INTEGRITY,
    "INTEGRITY-": INTEGRITY,
    "VDO-": VDO,
}


def kind_of(layer: Layer) -> str:
    """Return the kind of a layer, for reports; "" for a drive or a partition of one."""
    if layer.kind == "dm":
        return _find_kind_of_mapper_device(layer)
    if layer.kind == "md":
        return f"md {layer.md.get('level', '')}".strip()
    if layer.kind == "loop":
        return "loop device"
    if layer.name.startswith("zd"):
        return ZVOL
    return BCACHE if layer.name.startswith("bcache") else layer.foreign


def list_kinds(layers: Sequence[Layer]) -> list[str]:
    """Return the kinds of layers from a filesystem down to its drives."""
    return [kind for kind in dict.fromkeys(map(kind_of, layers)) if kind]


def _find_kind_of_mapper_device(layer: Layer) -> str:
    # kpartx puts "partN-" before the UUID of the device that it divides.
    uuid = re.sub(r"^part\d+-", "", layer.dm_uuid)
    kind = next((v for k, v in _KIND_OF_PREFIX.items() if uuid.startswith(k)), UNKNOWN)
    if not uuid.startswith(_LVM):
        return kind
    suffix = uuid[len(_LVM) + _LVM_ID_CHARACTERS :].lstrip("-")
    # "group-volume-suffix", where a hyphen of a name is written twice.
    parts = re.split(r"(?<!-)-(?!-)", layer.dm_name)
    tails = re.findall(r"_([a-z]+)", "-".join(parts[1:]) or layer.dm_name)
    kinds = [
        _KIND_OF_SUFFIX[tail]
        for tail in (suffix, *reversed(tails))
        if tail in _KIND_OF_SUFFIX
    ]
    return kinds[0] if kinds else kind
