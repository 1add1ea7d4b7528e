"""Block devices that can lose completed writes though no drive loses its power."""

from __future__ import annotations

from collections.abc import Sequence

from dbcheck.model import layers
from dbcheck.model.depth import IN_PLACE
from dbcheck.model.host import Layer

# zvols cache in the ARC (OpenZFS, zvol_os.c), bcache keeps its journal and its index in
# memory until a flush (Documentation/admin-guide/bcache.rst).  So do dm-cache with the
# place of a block, dm-thin with the map of its blocks, dm-writecache with its index,
# dm-integrity with its journal, and VDO with its own (Linux,
# Documentation/admin-guide/device-mapper/: cache.rst, thin-provisioning.rst,
# writecache.rst, dm-integrity.rst, vdo.rst).
_HOLDING = (
    layers.ZVOL,
    layers.BCACHE,
    layers.CACHE,
    layers.WRITECACHE,
    layers.THIN,
    layers.VDO,
    layers.INTEGRITY,
    layers.UNKNOWN,
)
_PARITY = ("raid4", "raid5", "raid6")


def host_cache(stack: Sequence[Layer]) -> str:
    """Return which layer may lose completed writes though no drive did, "" if none.

    A block that is lost there proves nothing about a drive's own cache.
    """
    return next(filter(None, map(_losing, stack)), "")


def _losing(layer: Layer) -> str:
    if layer.kind == "loop" and not layer.direct:
        return f"{layer.name} is a loop device that writes through the page cache"
    if layer.kind == "loop" and layer.backing and layer.backing not in IN_PLACE:
        return (
            f"{layer.name} is a loop device on {layer.backing}, which does not "
            "overwrite in place"
        )
    if layer.kind == "md":
        return _array(layer)
    kind = layers.kind_of(layer)
    if kind in _HOLDING:
        named = layer.dm_name or layer.name
        return (
            f"{named} ({kind}) may keep completed writes, or where they are, in the "
            "host's memory"
        )
    if layer.foreign:
        return (
            f"{layer.name} is not a drive of this host ({layer.foreign}): what "
            "provides it may have lost this from its own memory"
        )
    return ""


def _array(layer: Layer) -> str:
    """Return what makes an md array lose a block by itself (Linux, admin-guide/md)."""
    if layer.md.get("policy") == "journal":
        return f"{layer.name} has a journal of its own, whose drive may have lost this"
    if layer.md.get("level") in _PARITY and layer.md.get("degraded") != "0":
        return (
            f"{layer.name} is missing a drive, or does not report that it has all: a "
            "write that a cut interrupts may then change other blocks"
        )
    if layer.md.get("backlog", "0") != "0":
        return f"{layer.name} completes writes before all its drives have them"
    return ""
