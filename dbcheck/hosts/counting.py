"""The client's side of what is read repeatedly of a host while a load runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec

from dbcheck.agent.host import serve as host_agent
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError
from dbcheck.model.flushes import Counts, Sample
from dbcheck.model.host import TargetFacts
from dbcheck.model.watched import (
    Fact,
    FactKind,
    Folders,
    describe_location,
    make_facts_of_volumes,
)
from dbcheck.remote.channel import Channel

# More than a kernel counts in a lifetime; what is larger cannot be stored.
_Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)]


@dataclass(frozen=True, slots=True)
class _Device:
    """One device's counters, see agent.host.devices."""

    name: str
    stat: tuple[_Count, ...]
    queues: bool


@dataclass(frozen=True, slots=True)
class CountersSample:
    """The counters of several devices, as the host's agent answers them."""

    at_us: _Count
    devices: tuple[_Device, ...]

    @property
    def decoded(self) -> Sample:
        """Counters by device; raise HostError if a device has too few."""
        try:
            found = {
                device.name: Counts.of(device.stat, queues=device.queues)
                for device in self.devices
            }
        except ValueError as error:
            raise HostError(
                f"the counters of a block device: {error}",
                id=ErrorId.AGENT_REPLY_INVALID,
            ) from None
        return Sample(self.at_us, found)


class Counting:
    """The counters of some block devices, read as often as wanted; for one thread."""

    def __init__(self, channel: Channel, devices: Sequence[str]) -> None:
        """Read the counters over *channel*, to close it."""
        self._channel, self._devices = channel, list(devices)

    def read(self) -> Sample:
        """Read the counters as of now; raise HostError.

        A device that is gone is left out; so is one that was not asked for.
        """
        verb, names = host_agent.READ_COUNTERS, self._devices
        found = self._channel.answer(CountersSample, verb, devices=names).decoded
        known = {name: c for name, c in found.devices.items() if name in names}
        return Sample(found.at_us, known)

    def close(self) -> None:
        """End the channel, also from another thread; never raises."""
        self._channel.close()


@dataclass(frozen=True, slots=True)
class _Looked:
    """Options of mounts, write_cache of devices, and where places lie.

    As the host's agent answers, see agent.host.facts.read_mounts_and_caches().
    """

    mounts: Mapping[str, str]
    caches: Mapping[str, str]
    places: Mapping[str, Folders | None]


AskedPlace = tuple[str, str, Sequence[str]]  # name, path, patterns of files


class Look:
    """Looks at how volumes are mounted, at the kernel's view of their caches, and at
    where places lie."""

    def __init__(
        self,
        channel: Channel,
        facts: TargetFacts,
        places: Sequence[AskedPlace],
        known: dict[str, Folders],
    ) -> None:
        """Look over *channel*, to close it; *facts*: from before the load.

        known: where places lay before, by name.  A place that is first seen now is
        added to it, as the channel may break, and another Look go on with *known*.
        """
        self._channel, self._places, self._known = channel, places, known
        looked = make_facts_of_volumes(facts.volumes)
        self._points = [f.of for f in looked if f.kind is FactKind.MOUNT]
        self._devices = [f.of for f in looked if f.kind is FactKind.WRITE_CACHE]
        self._process = facts.container.process if facts.container else 0

    def read(self) -> dict[Fact, str]:
        """Return mounts, caches and places as of now; raise HostError.  "": it is gone.

        A place that cannot be seen is where it was before, and left out if that is not
        known.
        """
        found = self._channel.answer(
            _Looked,
            host_agent.MOUNTS_AND_CACHES,
            points=self._points,
            devices=self._devices,
            places=self._places,
            process=self._process,
        )
        return {
            **{Fact(FactKind.MOUNT, p): found.mounts.get(p, "") for p in self._points},
            **{
                Fact(FactKind.WRITE_CACHE, name): found.caches.get(name, "")
                for name in self._devices
            },
            **self._describe_places(found.places),
        }

    def _describe_places(self, found: Mapping[str, Folders | None]) -> dict[Fact, str]:
        facts_of_places = {}
        for name, *_ in self._places:
            folders = found.get(name, ())
            if folders is None:
                folders = self._known.get(name)
            if folders is not None:
                before = self._known.setdefault(name, folders)
                facts_of_places[Fact(FactKind.PLACE, name)] = describe_location(
                    folders, before
                )
        return facts_of_places

    def sever(self) -> None:
        """End a read() of another thread, which then raises; never raises."""
        self._channel.close()

    def close(self) -> None:
        """End the channel; never raises."""
        self._channel.close()
