"""A host that was booted while its power was cut, as far as it tells."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError
from dbcheck.hosts.host import open_host
from dbcheck.model.host import TargetFacts
from dbcheck.model.places import Place
from dbcheck.ports.host import TargetHost


class Booted:
    """This very host, which cannot be booted: its boot_id and uptime are made up.

    cut: to be set when its power is cut.  up_after_cut: somebody may log in again then.
    """

    def __init__(self, host: Any) -> None:
        self._host = host
        self.cut, self.up_after_cut = False, True

    def reach(self) -> None:
        if self.cut and not self.up_after_cut:
            raise HostError("no route to host", id=ErrorId.HOST_UNREACHABLE)
        self._host.reach()

    def facts(
        self, data_directory: str, places: Sequence[Place] = (), process: int = 0
    ) -> TargetFacts:
        facts: TargetFacts = self._host.facts(data_directory, places, process)
        return replace(facts, boot_id="another", uptime_s=1) if self.cut else facts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._host, name)

    @property
    def port(self) -> TargetHost:
        """What a rig is given."""
        return cast(TargetHost, self)


@contextlib.contextmanager
def booted() -> Iterator[Booted]:
    """Hand out this host, and end the agent on it afterwards."""
    with contextlib.closing(open_host("local:")) as host:
        yield Booted(host)
