"""Every error that dbcheck raises on purpose.

DbcheckError
├── UsageError       a flag, inventory or workload is wrong; nothing was touched
├── EngineError      the database refused or broke a request
│   ├── CommitUnknown    the connection died between COMMIT and its reply
│   │   └── CommitWarned     the server committed, and warned that a promise is not kept
│   ├── NotBack          the server takes no queries within its time after a cut
│   ├── ConnectionLost   the connection broke while the server worked for it
│   ├── TableLost        the table is gone, or cannot be read to its end
│   ├── TableRefused     the server does not read the table, which may be sound
│   ├── TableConverted   the table is of another storage engine than dbcheck made it
│   ├── RowsWithheld     a lock, a right or a policy keeps the rows from being read
│   ├── IndexDamaged     the table was read whole; its index disagrees with it
│   ├── OtherServer      a connection reached another server than one before it did
│   ├── OtherProduct     the server is of a product that dbcheck does not judge
│   └── NoCanary         this server or account allows no crash canary
├── WitnessError     an ack could not be stored durably on the witness
│   └── LogDamaged       a witness log is damaged before its tail
├── LoadError        a process that the load runs in ended by itself
├── FleetError       a scheduler, or a worker of it, is lost or cannot be used
├── PowerError       the power switch did not reach the state asked for
│   └── PartlyCut        of several nodes, some lost their power and some did not
├── HostError        a command on a host failed or timed out
├── TargetChanged    between two cycles of a campaign, its server or its rows changed
├── LabError         a part of the lab could not be built or ended
│   └── Unrecoverable    a filesystem or server does not come up from what is stored
├── BundleRefused    a bundle is damaged, was changed, or is signed by another
├── RunFormatError   a stored run is torn, incomplete or of another version
└── RunWriteError    the run folder cannot be written, or is in use

A loss is never an exception: it is part of a verdict.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from dbcheck.base.error_ids import ErrorId


class DbcheckError(Exception):
    """Base of all expected failures; the command line prints it without a traceback.

    message: lower case, no full stop, names what failed and where.
    id: one per cause and remedy; stable, so that scripts and tests compare it and not
        the message.
    hint: a full sentence with what the operator should do next, or "".
    """

    def __init__(self, message: str, *, id: ErrorId, hint: str = "") -> None:
        super().__init__(message)
        self.id = id
        self.hint = hint

    def __reduce__(self) -> tuple[Any, ...]:
        """Return a pickle that restores all attributes without a call of __init__()."""
        return _make_blank_error, (type(self), self.args), self.__dict__

    @property
    def with_hint(self) -> str:
        """Message and hint as sentences, for a place among several results.

        The words of another program in the message may end as a sentence does.
        """
        message = str(self)
        if not message.endswith((".", "?", "!")):
            message += "."
        return f"{message} {self.hint}" if self.hint else message


def _make_blank_error(kind: type[DbcheckError], args: tuple[Any, ...]) -> DbcheckError:
    """Return an error whose attributes are to be set."""
    return kind.__new__(kind, *args)


class UsageError(DbcheckError):
    """A flag, an inventory or a workload is wrong; nothing was touched."""


class EngineError(DbcheckError):
    """The database refused or broke a request."""


class CommitUnknown(EngineError):
    """The connection died between COMMIT and its reply; the row may be there or not.

    farewell: the server's message if it ended the connection itself, which a server
              whose power is cut does not do; "" if there was none.
    """

    def __init__(
        self,
        message: str,
        *,
        id: ErrorId,
        hint: str = "",
        farewell: str = "",
    ) -> None:
        super().__init__(message, id=id, hint=hint)
        self.farewell = farewell


class CommitWarned(CommitUnknown):
    """The server committed with a warning that the commit may not be replicated.

    The row is on that server.  If another server lacks it, no promise is broken.
    """


class NoCanary(EngineError):
    """This server or account allows no row that shows a crash instead of a shutdown."""


class NotBack(EngineError):
    """The server takes no queries within its time; the cause is not known."""


class ConnectionLost(EngineError):
    """The connection broke; a crash, a shutdown, a kill or the network may be why.

    session: the number by which the server's log names the process (PostgreSQL) or the
             connection (MySQL, MariaDB) that served the client.
    """

    def __init__(self, message: str, session: int, *, id: ErrorId) -> None:
        super().__init__(message, id=id)
        self.session = session


class StillBootstraps(EngineError):
    """A server may form a second group when it next starts its part in one."""


class TableLost(EngineError):
    """The server answers, but the table is gone or cannot be read to its end.

    missing: the server knows no such table, and finds nothing wrong with it.
    """

    def __init__(
        self,
        message: str,
        *,
        id: ErrorId,
        hint: str = "",
        missing: bool = False,
    ) -> None:
        super().__init__(message, id=id, hint=hint)
        self.missing = missing


class TableRefused(EngineError):
    """The server answers, and does not read the table: a file or a right is missing.

    The table's file is not where it was, may not be opened, or too many files are open:
    a volume that is not mounted, a wrong owner or a full disk does so to sound data.
    """


class TableConverted(EngineError):
    """A table is of another storage engine than the one that dbcheck made it in.

    engines: table -> its storage engine now, as the server writes it.
    """

    def __init__(
        self, message: str, engines: Mapping[str, str], *, id: ErrorId, hint: str = ""
    ) -> None:
        super().__init__(message, id=id, hint=hint)
        self.engines = engines


class RowsWithheld(EngineError):
    """The server answers, and something that may end keeps its rows from being read.

    Another session has the table locked, the account may not read it, or a policy hides
    rows from it.
    """


class IndexDamaged(EngineError):
    """The table was read to its end, and its index cannot be read or has other rows.

    table: the name of the table.
    rows:  how many rows the index has wrong, at least.
    ids:   of rows that the index does not find, as far as they were checked.
    """

    def __init__(
        self,
        message: str,
        table: str,
        rows: int,
        ids: tuple[int, ...] = (),
        *,
        id: ErrorId,
    ) -> None:
        super().__init__(message, id=id)
        self.table, self.rows, self.ids = table, rows, ids


class NotPrepared(EngineError):
    """The server has no prepared transaction of that name."""


class OtherServer(EngineError):
    """A connection reached another server, or process, than one before it did."""


class OtherProduct(EngineError):
    """The server is of a product that dbcheck does not judge."""


@contextlib.contextmanager
def unless_refused() -> Iterator[None]:
    """Suppress the EngineError of a server that refuses what the body asks it.

    Raise ConnectionLost, OtherServer: asked again, the server may answer.
    """
    try:
        yield
    except (ConnectionLost, OtherServer):
        raise
    except EngineError:
        pass


class WitnessError(DbcheckError):
    """An ack could not be stored durably on the witness, or be read back from it."""


class LogDamaged(WitnessError):
    """A witness log is damaged before its tail, so its run proves nothing.

    The message says that it is the witness's log that is damaged, and how.
    """


class LoadError(DbcheckError):
    """A process that a part of the load runs in ended by itself."""


class FleetError(DbcheckError):
    """A scheduler of campaigns, or one of its workers, is lost or cannot be used."""


class PowerError(DbcheckError):
    """The power switch did not reach the state asked for."""


class PartlyCut(PowerError):
    """Of several nodes, some lost their power, and a switch of another failed.

    cuts: name of a node -> the cut that was made there (model.cut.Cut).
    """

    def __init__(
        self,
        message: str,
        cuts: Mapping[str, Any],
        *,
        id: ErrorId,
        hint: str = "",
    ) -> None:
        super().__init__(message, id=id, hint=hint)
        self.cuts = cuts


class HostError(DbcheckError):
    """A command on a host failed or timed out."""


class TargetChanged(DbcheckError):
    """A campaign's target is another server, or lacks rows that earlier cycles left."""


class LabError(DbcheckError):
    """A part of the lab could not be built or ended."""


class Unrecoverable(LabError):
    """A filesystem or a server does not come up from what is stored.

    After a cut, the cut caused it; any other LabError is a fault of the lab, and never
    counts against a server.
    """


class BundleRefused(DbcheckError):
    """A bundle is damaged, was changed, or is not signed by whom it must be."""


class RunFormatError(DbcheckError):
    """A stored run is torn, incomplete or of another version."""


class RunWriteError(DbcheckError):
    """The run folder cannot be written, or another dbcheck is using it."""
