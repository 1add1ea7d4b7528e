"""The client's side of canaries that show if copies of volumes are of one moment."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dbcheck.agent.host import serve as host_agent
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError
from dbcheck.ports.site import VolumeSteps
from dbcheck.remote.channel import Channel

if TYPE_CHECKING:
    from dbcheck.hosts.host import TargetHost

_PER_S = 200  # numbers, over all volumes: a flush each
_NUMBERS_MAX = 1 << 26
_Runs = tuple[tuple[int, int], ...]


class VolumeControl:
    """Canaries on the volumes of one host, and a reader of copies of them.

    Every call may raise HostError.
    """

    def __init__(self, channel: Channel) -> None:
        """Ask over *channel*, to close it."""
        self._channel = channel

    def start(self, folders: Sequence[str], nonce: str) -> None:
        """Write numbers into a file in each of *folders* in turn, until close()."""
        self._channel.request(
            host_agent.START_VOLUMES, folders=list(folders), nonce=nonce, per_s=_PER_S
        )

    def count(self) -> VolumeSteps:
        """Return the newest numbers that were begun and flushed."""
        return self._channel.answer(VolumeSteps, host_agent.COUNT_VOLUMES)

    def stop(self) -> None:
        """Write no more, and remove the files."""
        self._channel.request(host_agent.STOP_VOLUMES)

    def read(
        self, folder: str, place: int, places: int, nonce: str
    ) -> tuple[range, ...]:
        """Return the numbers in the copy of the folder at *place* of *places*."""
        asked = {"folder": folder, "place": place, "places": places, "nonce": nonce}
        runs = self._channel.answer(_Runs, host_agent.READ_VOLUME, **asked)
        found = tuple(range(first, last + 1, places) for first, last in runs)
        if any(run.start < 1 or len(run) < 1 for run in found):
            raise self._channel.invalid_reply()
        if sum(map(len, found)) > _NUMBERS_MAX:
            raise self._channel.invalid_reply()
        return found

    def close(self) -> None:
        """End the channel, and with it the canaries; never raises."""
        self._channel.close()


@dataclass(frozen=True, slots=True)
class CopiedFolder:
    """A folder on a volume of the server, and where the copy of that is restored.

    restored: {run} stands for the id of the run.
    """

    target: str
    restored: str


class VolumesOfHost:
    """Canaries on the volumes of one host (ports.site.VolumeWatch).

    host: the server's.  restored: where the copies are restored; may be the same one.
    """

    def __init__(
        self, host: TargetHost, folders: Sequence[CopiedFolder], restored: TargetHost
    ) -> None:
        self._host, self._folders, self._restored = host, tuple(folders), restored
        self._control: VolumeControl | None = None

    @property
    def folders(self) -> tuple[str, ...]:
        return tuple(each.target for each in self._folders)

    def start(self, nonce: str) -> None:
        """Write to each folder in turn until stop(); both hosts must answer."""
        self._restored.reach()
        control = self._host.volumes()
        try:
            control.start(self.folders, nonce)
        except BaseException:
            control.close()
            raise
        self._control = control

    def count(self) -> VolumeSteps:
        """Return the newest numbers that were begun and flushed."""
        if self._control is None:
            raise HostError(
                f"{self._host.place}: no canaries were started on its volumes",
                id=ErrorId.AGENT_ENDED,
                hint="Run it again.",
            )
        return self._control.count()

    def stop(self) -> None:
        """Write no more, and remove the files; never raises."""
        control, self._control = self._control, None
        if control is not None:
            with contextlib.suppress(HostError):
                control.stop()
            control.close()

    def read(self, run_id: str, nonce: str) -> Mapping[str, Sequence[range]]:
        """Return the numbers in each restored folder."""
        places = len(self._folders)
        restored = [each.restored.replace("{run}", run_id) for each in self._folders]
        control = self._restored.volumes()
        try:
            return {
                folder: control.read(folder, place, places, nonce)
                for place, folder in enumerate(restored)
            }
        finally:
            control.close()
