"""Reads the server's log of the time in which its rows were read.

A server may end itself at a page that its recovery left damaged.  The client sees a
lost connection, which proves nothing.  The server's own log, from the moment at which
the reading began, proves it: the log names the damage and the crash or the next start
(MySQL, buf0buf.cc: "Aborting because of a corrupt database page"), or it shows that the
process that read the rows crashed (PostgreSQL, postmaster.c, LogChildExit).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass

from dbcheck.base import interrupt
from dbcheck.base.errors import ConnectionLost, EngineError, HostError
from dbcheck.model.host import HostBefore, LogMarks, LogTail
from dbcheck.model.server import ServerFacts
from dbcheck.ports.site import Site
from dbcheck.rows.table import TableSpec
from dbcheck.server_log.startlog import (
    find_crash_of_session,
    find_damage,
    find_damage_that_ended_server,
    find_other_server,
    find_shutdown_before_start,
    read_since_last_start,
)

LOG_WAIT_S = 10.0  # a server that dumps a page and a stack trace takes a second
POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class Cause:
    """The cause of a broken reading; both fields are "" if it is not known.

    damage:  the server ended itself at damaged data, or will never come back; certain.
    crashed: the process or thread that read the rows crashed, for whatever reason.
    """

    damage: str = ""
    crashed: str = ""


class ReadingLog:
    """Notes where the server's log ends before the rows are read; reads on from there.

    before: where the log is, and where it ended before the load.
    """

    def __init__(
        self, site: Site, before: HostBefore | None, facts: ServerFacts
    ) -> None:
        """Note where the log ends, if the run has one; never raises."""
        self._site, self._node, self._before = site, site.reader, before
        self._facts = facts
        self._path = before.log_path if before and self._node.host else ""
        self._marks: LogMarks | None = None
        if self._node.host is not None and self._path:
            with contextlib.suppress(HostError):
                self._marks = self._node.host.mark_log(self._path)

    def find_cause(self, error: EngineError) -> Cause:
        """Return the cause of *error* once the log shows one, or after LOG_WAIT_S.

        Raise PowerError if the rig failed and not the server.
        """
        session = error.session if isinstance(error, ConnectionLost) else None
        ends_s = time.monotonic() + LOG_WAIT_S
        while True:
            interrupt.raise_if_interrupted()
            # failure() raises PowerError if the switch is to blame, not the target.
            if failure := self._site.failure():
                return Cause(damage=failure)
            text = self._read_new_log()
            if text is None:
                return Cause()
            cause = Cause(
                "; ".join(find_damage_that_ended_server(text)),
                "; ".join(find_crash_of_session(text, session))
                if session is not None
                else "",
            )
            if cause != Cause() or time.monotonic() >= ends_s:
                shared = self._is_shared(text, self._read_since_preflight())
                return Cause() if shared else cause
            time.sleep(POLL_S)

    def damage(self, tables: Sequence[TableSpec]) -> str:
        """Return the damage of *tables* that the log names since the last start.

        "" if the log names none, or damage of other tables alone, which may be older
        than the cut.
        """
        names = self._node.engine.names_in_log(tables)
        return "; ".join(find_damage(self._read_since_start(), names)) if names else ""

    def had_orderly_end(self) -> bool | None:
        """Return True if the server shut down in an orderly way and then started.

        None if there is no log to ask, or another server writes to it as well.
        """
        text = self._read_new_log()
        if not text or self._is_shared(text, self._read_since_preflight()):
            return None
        return bool(find_shutdown_before_start(text))

    def _read_since_start(self) -> str:
        """Return the server's log since its last start.

        "" if that is unknown, or another server writes to the log as well.
        """
        log, facts = self._read_since_preflight(), self._facts
        if log is not None and not (log.rewound or log.truncated):
            return (
                ""
                if self._is_shared(log.text, log)
                else read_since_last_start(log.text)
            )
        with contextlib.suppress(EngineError):
            text = self._node.engine.logged(facts.started_us, server=facts)
            return text if text and not self._is_shared(text, log) else ""
        return ""

    def _is_shared(self, text: str, log: LogTail | None) -> bool:
        """Return True if another server has started in *text*, or since the preflight.

        log: what _read_since_preflight() returned.  A cut ends all servers of a host,
        so another server that writes to the log has started again.
        """
        names = self._facts.log_names
        logged = [text] if log is None else [text, log.text]
        return any(find_other_server(part, names) for part in logged)

    def _read_since_preflight(self) -> LogTail | None:
        """Return the host's log since the preflight, None if it has none."""
        host, before = self._node.host, self._before
        with contextlib.suppress(HostError):
            if host is not None and before is not None and self._path:
                return host.read_log(self._path, before.log_marks)
        return None

    def _read_new_log(self) -> str | None:
        """Return the server's log since the reading began.

        None if the log cannot be read over SQL, "" if the server does not answer.
        """
        with contextlib.suppress(HostError):
            if self._node.host is not None and self._marks is not None:
                return self._node.host.read_log(self._path, self._marks).text
        with contextlib.suppress(EngineError):  # the server may be down
            return self._node.engine.logged(self._facts.clock_us)
        return ""
