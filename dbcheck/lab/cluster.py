"""A cluster of labs: one server writes, others follow it over links that can fail."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

from sqlalchemy.engine import make_url

from dbcheck.core.promise import Promise
from dbcheck.lab.clusterspec import ClusterSpec, require_possible
from dbcheck.lab.lab import Lab
from dbcheck.lab.link import Link
from dbcheck.lab.replicas import follow, settings_of
from dbcheck.lab.servers.base import Source
from dbcheck.lab.spec import LabSpec


class ClusterLab:
    """The labs of one cluster, and the links between the writer and the others.

    labs: by the name of the node, the writer's first.
    """

    def __init__(self, lab: LabSpec, spec: ClusterSpec, folder: Path) -> None:
        """Build it; return once every standby follows.

        folder: each lab's begins with it.  Raise LabError, with nothing left.
        """
        require_possible(lab)
        self.spec = spec
        self.labs: dict[str, Lab] = {}
        self._links: dict[str, Link] = {}
        self._held = contextlib.ExitStack()
        writer, *standbys = spec.names
        try:
            for number, name in enumerate((writer, *standbys), 1):
                drive = replace(lab.drive, seed=lab.drive.seed + number - 1)
                settings = settings_of(
                    *(lab.engine, number, standbys, lab.settings),
                    cuts_all=Promise(spec.promise).cuts_all,
                )
                node = replace(lab, drive=drive, settings=settings)
                source = None if name == writer else self._source(writer, name)
                self._start(name, node, folder, source)
        except BaseException:
            self._held.close()
            raise

    def take_links_down(self, *names: str) -> None:
        """Have nothing pass between the writer and these standbys; without any, all."""
        for name in names or self._links:
            self._links[name].take_down()

    def close(self) -> None:
        """End all of it."""
        self._held.close()

    def __enter__(self) -> ClusterLab:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(
        self, name: str, spec: LabSpec, folder: Path, source: Source | None = None
    ) -> None:
        place = folder.with_name(f"{folder.name}-{name}")
        lab = Lab.start(spec, place, source=source)
        self.labs[name] = self._held.enter_context(lab)
        if source is not None:
            follow(lab, source)

    def _source(self, writer: str, name: str) -> Source:
        """Return how the node *name* reaches the writer: over a link of its own."""
        lab = self.labs[writer]
        port = make_url(lab.target_url).port
        assert port is not None
        link = Link(port, self.spec.link_delay_ms)
        self._held.callback(link.close)
        self._links[name] = link
        return Source(link.port, lab.password, name)
