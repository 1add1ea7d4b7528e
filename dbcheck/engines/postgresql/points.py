"""Points of PostgreSQL's write-ahead log to which its archive can be restored."""

from __future__ import annotations

from abc import abstractmethod

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, UsageError
from dbcheck.base.points import Point, PointKind, PointRead
from dbcheck.base.system import now_us
from dbcheck.engines.postgresql import rights
from dbcheck.engines.postgresql.link import PostgresqlLink
from dbcheck.model.rights import MissingRight, missing_rights_error
from dbcheck.model.server import ServerFacts
from dbcheck.ports.engine import Engine

_KINDS = (PointKind.RESTORE_POINT, PointKind.LSN)
_MINIMAL = "minimal"


class WithPoints(Engine):
    """A server whose log has points; see ports.engine and base.points."""

    @abstractmethod
    def _open(
        self, connect_s: float = 0.0, *, server: ServerFacts | None = None
    ) -> PostgresqlLink:
        """Connect."""

    def require_point(self, kind: PointKind) -> None:
        """Raise an error if the account cannot read a point of *kind*.

        With wal_level = minimal there is no archive (PostgreSQL 17 manual, 19.5.1), and
        pg_create_restore_point() fails.
        """
        if kind not in _KINDS:
            raise UsageError(
                f"{self.target} has no point of the kind {kind.value}",
                id=ErrorId.POINT_NOT_SUPPORTED,
                hint="With PostgreSQL set dbcheck_restore: until to"
                f" {' or '.join(each.value for each in _KINDS)}.",
            )
        with self._open() as link:
            wal_level, may_name, account = link.row("point_rights")
            if wal_level == _MINIMAL:
                raise EngineError(
                    f"wal_level is {_MINIMAL}, so there is no archive to restore",
                    id=ErrorId.POINT_NOT_READABLE,
                    hint="Set wal_level = replica and archive_mode = on, restart the"
                    " server, and take a new base backup.",
                )
            if kind is PointKind.LSN:
                link.row("point_lsn")
            elif not may_name:
                what = "EXECUTE on pg_create_restore_point"
                grant = rights.grant_restore_point(account)
                raise missing_rights_error(account, [MissingRight(what, grant)])

    def read_point(
        self, kind: PointKind, name: str, *, server: ServerFacts | None = None
    ) -> PointRead:
        with self._open(server=server) as link:
            began_us = now_us()
            if kind is PointKind.LSN:
                (value,) = link.row("point_lsn")
            else:
                link.rows("point_named", {"name": name})
                value = name
            return PointRead(Point(kind, value), began_us, now_us())
