"""Block devices that keep completed writes in the memory of the host."""

from __future__ import annotations

from collections.abc import Sequence

from dbcheck.core.target import Layer

# zvols cache in the ARC (OpenZFS, zvol_os.c), bcache keeps its journal and its index in
# memory until a flush (Documentation/admin-guide/bcache.rst).
_CACHING = ("zd", "bcache")
# Device-mapper targets that keep no write: what LVM, multipath-tools and cryptsetup
# name by these prefixes of the UUID.  dm-writecache, dm-cache and dm-integrity keep
# data or metadata until a flush; LVM names its own of these like any other volume.
_PASSING = ("LVM-", "mpath-", "CRYPT-LUKS1-", "CRYPT-LUKS2-", "CRYPT-PLAIN-")


def host_cache(layers: Sequence[Layer]) -> str:
    """Return which layer may keep completed writes in the host's memory, "" if none.

    A block that is lost from there says nothing of a drive's own cache.
    """
    return next(filter(None, map(_caching, layers)), "")


def _caching(layer: Layer) -> str:
    if layer.kind == "loop" and not layer.direct:
        return f"{layer.name} is a loop device that writes through the page cache"
    if layer.name.startswith(_CACHING):
        return f"{layer.name} may keep completed writes in the host's memory"
    # kpartx puts "partN-" before the UUID of what it divides.
    uuid = layer.dm_uuid
    if uuid.startswith("part"):
        uuid = uuid.partition("-")[2]
    if layer.kind == "dm" and not uuid.startswith(_PASSING):
        named = layer.dm_name or layer.name
        return (
            f"{named} is a device-mapper device of an unknown kind, which may keep "
            "completed writes in the host's memory"
        )
    return ""
