"""Has a node follow the new writer by SQL, and by a program where SQL cannot do it."""

from __future__ import annotations

from collections.abc import Mapping

from dbcheck.base.errors import EngineError
from dbcheck.model.replication import SLOT, SourceLogin
from dbcheck.ports.engine import Engine
from dbcheck.ports.feature import Feature
from dbcheck.ports.site import Node
from dbcheck.site.cluster import Follow


class Repointing:
    """A site.cluster.Follow for nodes that replicate from one writer.

    nodes:    by their names.
    user, password: the login of replication at the new writer; user "": that which the
              node has used so far.
    clones:   replace the node's data by MySQL's clone plugin before.
    programs: name of a node -> what rebuilds it if SQL cannot.
    """

    def __init__(
        self,
        nodes: Mapping[str, Node],
        user: str,
        password: str,
        programs: Mapping[str, Follow],
        *,
        clones: bool,
    ) -> None:
        self._nodes, self._programs, self._clones = nodes, programs, clones
        self._user, self._password = user, password

    def rebuild(self, name: str, writer: str) -> None:
        """Have *name* follow *writer*; raise EngineError if it does not."""
        try:
            self._repoint(name, writer)
        except EngineError:
            if (program := self._programs.get(name)) is None:
                raise
            program(name, writer)

    def _repoint(self, name: str, writer: str) -> None:
        engine, leads = self._nodes[name].engine, self._nodes[writer].engine
        engine.require(Feature.REPOINTING)
        host, port = leads.endpoints()[0]
        source = SourceLogin(host, port, self._user, self._password)
        self._lead(engine, leads, name, writer)
        if self._clones:
            engine.require(Feature.CLONING)
            engine.clone(source)
        engine.follow(source, leads.transactions())

    def _lead(self, engine: Engine, leads: Engine, name: str, writer: str) -> None:
        """Have commits on the new writer wait as they did on the old one.

        A node that follows no other is the old writer, whose settings say how.
        """
        member = engine.membership()
        if member is None:
            leads.lead(engine.facts().settings, {writer: name}, [])
        elif member.connection.startswith(SLOT):
            slot = member.connection.removeprefix(SLOT)
            leads.lead(leads.facts().settings, {}, [slot])
