"""The directories that what a server acknowledges depends on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

DATA = "data"  # the name of the data directory, which comes first


@dataclass(frozen=True, slots=True)
class Place:
    """One directory, as the server's own settings give it; links are not followed.

    name: what is kept there, as reports show it, e.g. "WAL"; unlike any other's.
    path: absolute; "" if the server does not show it.
    files: names of what counts of the files directly in it, as shell patterns; each
           may be a link to another filesystem, or mounted from there.
    """

    name: str
    path: str
    files: tuple[str, ...] = ()


def outside(places: Sequence[Place]) -> list[Place]:
    """Return the places whose path is not below that of the data directory.

    A link inside the data directory may lead elsewhere all the same, which only its
    host can see.
    """
    data = next((place.path for place in places if place.name == DATA), "")
    return [
        place
        for place in places
        if place.name != DATA
        and not (data and PurePosixPath(place.path).is_relative_to(data))
    ]
