"""Draws what lies below the server: places, filesystem, layers, drives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dbcheck.model.host import Drive, Layer, Volume
from dbcheck.model.layers import kind_of
from dbcheck.model.records import Manifest


@dataclass(frozen=True, slots=True)
class Box:
    """One thing; kind: class of style.css."""

    kind: str
    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stack:
    """One filesystem with what is above and below it; rows: from the top down."""

    title: str
    rows: tuple[tuple[Box, ...], ...]


def stacks(manifest: Manifest) -> Iterator[Stack]:
    """Yield the filesystems below the places of each node whose host was asked."""
    for name, node in manifest.nodes.items():
        host = node.host.facts if node.host else None
        for volume in host.volumes if host else ():
            title = f"{host.hostname}: {volume.mount_point}" if host else ""
            if len(manifest.nodes) > 1:
                title = f"{name}, {title}"
            yield Stack(title, tuple(_rows(volume)))


def _rows(volume: Volume) -> Iterator[tuple[Box, ...]]:
    paths: dict[str, list[str]] = {}
    for place, path in volume.places.items():
        paths.setdefault(path, []).append(place)
    yield tuple(Box("place", ", ".join(n), (path,)) for path, n in paths.items())
    filesystem = f"{volume.filesystem} on {volume.mount_point}"
    yield (Box("filesystem", filesystem, (volume.mount_options,)),)
    drives = {drive.name: drive for drive in volume.drives}
    levels: dict[int, list[Layer]] = {}
    for layer, level in _levels(volume).items():
        found = next(one for one in volume.layers if one.name == layer)
        levels.setdefault(level, []).append(found)
    for _, layers in sorted(levels.items()):
        yield tuple(_layer(each, drives.get(each.name)) for each in layers)
    known = {layer.name for layer in volume.layers}
    if others := [drive for drive in volume.drives if drive.name not in known]:
        yield tuple(Box("drive", each.name, tuple(_drive(each))) for each in others)


def _levels(volume: Volume) -> dict[str, int]:
    """Return how far below the filesystem each layer is, by its name."""
    below = {layer.name: layer.below for layer in volume.layers}
    inner = {name for names in below.values() for name in names}
    levels: dict[str, int] = {}
    row, level = [name for name in below if name not in inner], 0
    while row and level <= len(below):  # a forged stack may go in circles
        levels |= dict.fromkeys(row, level)
        row = [name for each in row for name in below[each] if name in below]
        level += 1
    return {**dict.fromkeys(below, 0), **levels}


def _layer(layer: Layer, drive: Drive | None) -> Box:
    title = layer.dm_name or layer.name
    lines = [kind_of(layer) or layer.kind]
    if layer.dm_name:
        lines.append(layer.name)
    if layer.write_cache:
        lines.append(f"write cache: {layer.write_cache}")
    if layer.backing_file:
        lines.append(layer.backing_file)
    if drive is None:
        return Box("layer", title, tuple(lines))
    # The drive's own box has its write cache.
    return Box("drive", title, (*lines[:1], *_drive(drive)))


def _drive(drive: Drive) -> Iterator[str]:
    yield " ".join(filter(None, (drive.model, drive.serial))) or "no model known"
    if drive.write_cache:
        yield f"write cache: {drive.write_cache}"
    if drive.unsafe_shutdowns is not None:
        yield f"unsafe shutdowns before: {drive.unsafe_shutdowns:,}"
