"""A program of the user's that commits as the application does: with its own driver.

dbcheck writes one line to its standard input for each commit, and waits for one line of
its standard output; docs/guides/client-program.md describes them:

    KEY STATEMENT           commit this statement, in a transaction of its own
    KEY acked               it was committed
    KEY refused [TEXT]      it certainly was not
    KEY unknown [TEXT]      it may be: the connection broke during the commit

A KEY cannot be guessed, so no answer comes before its commit was asked for.  Whatever
else the program prints there ends it: an answer that may belong to another commit would
give a wrong time.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import subprocess
import threading
from collections.abc import Collection, Sequence
from pathlib import Path

from dbcheck.base import processes
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import CommitUnknown, EngineError
from dbcheck.base.text import visible
from dbcheck.model.outage import PROGRAM
from dbcheck.rows.operation import Operation
from dbcheck.rows.table import OUTAGE

LINE_BYTES_MAX = 4096
TEXT_MAX = 300  # characters of what the program says that are kept
_ERROR_BYTES = 2000  # the end of its standard error that is kept
_ENDING_S = 0.5  # for the status, and the last words, of a program that has ended
_ANSWER = re.compile(r"([0-9a-f]+) (acked|refused|unknown)(?: (.*))?")


class ProgramFailed(Exception):
    """The program ended, or did not keep to its part; it is asked for no more."""


def describe_program(command: Sequence[str]) -> str:
    """Return what reports call the program: its arguments may name hosts."""
    return f"{PROGRAM}{Path(command[0]).name}"


class ClientProgram:
    """A running program; commits one after the other; a ports.connection.Session.

    It is in the process group of this process, and ends with that.
    """

    def __init__(
        self, command: Sequence[str], schema: str, hidden: Collection[str] = ()
    ) -> None:
        """Start it; what fails is raised by the first send().

        schema: see ports.engine.Engine.  hidden: secrets, which no error may show.
        """
        self._hidden = hidden
        self._place = f"{schema}.{OUTAGE.name}"
        self._key = ""
        self._received = bytearray()
        self._said = bytearray()
        self._why = ""
        self._child: subprocess.Popen[bytes] | None = None
        try:
            self._child = subprocess.Popen(
                command,
                env=processes.make_environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
            )
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            self._why = f"it cannot be started: {why}"
            return
        assert self._child.stdin and self._child.stdout
        for pipe in (self._child.stdin, self._child.stdout):
            os.set_blocking(pipe.fileno(), False)
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def fileno(self) -> int:
        """Return the descriptor of what the program prints."""
        return self._pipes()[1]

    def send(self, operation: Operation, *, look: bool = False) -> bool:
        """Ask for a commit; raise ProgramFailed."""
        to, _ = self._pipes()
        self._read()
        if self._received:
            raise self._fail("it printed something that nobody had asked for")
        self._key = secrets.token_hex(8)
        line = f"{self._key} {self._spell(operation)}\n".encode()
        try:
            written = os.write(to, line)
        except BlockingIOError:
            written = 0
        except OSError:  # it has ended
            raise self._fail("") from None
        if written != len(line):
            raise self._fail("it does not read its standard input")
        return True

    def flush(self) -> bool:
        """Return True: a line goes as a whole (pipe(7), PIPE_BUF), or not at all."""
        return True

    def receive(self) -> int | None:
        """Return 0 once the commit was acked, None as long as no whole line came.

        Raise EngineError if it was refused, CommitUnknown, and ProgramFailed.
        """
        self._read()
        line, end, rest = bytes(self._received).partition(b"\n")
        if not end:
            if len(line) > LINE_BYTES_MAX:
                raise self._fail(f"it printed a line of more than {LINE_BYTES_MAX} B")
            return None
        if rest:
            raise self._fail("it printed more than one line for one commit")
        self._received.clear()
        found = _ANSWER.fullmatch(line.decode("utf-8", "replace"))
        if found is None:
            raise self._fail(self._describe_no_answer(line))
        key, word, text = found.groups()
        if key != self._key:
            raise self._fail("it answered another commit than the one it was asked for")
        self._key = ""
        if word == "acked":
            if text is not None:
                raise self._fail(self._describe_no_answer(line))
            return 0
        shown = self._clean((text or "").encode())[:TEXT_MAX]
        shown = shown or f"{word}, without a reason"
        if word == "refused":
            raise EngineError(shown, id=ErrorId.COMMIT_REFUSED)
        raise CommitUnknown(shown, id=ErrorId.COMMIT_UNKNOWN)

    def settings(self) -> dict[str, str]:
        """Return nothing: the program shows none."""
        return {}

    def close(self) -> None:
        """Leave the program as it is, for the next commit."""

    def _pipes(self) -> tuple[int, int]:
        if self._why or self._child is None:
            raise ProgramFailed(self._why)
        assert self._child.stdin and self._child.stdout
        return self._child.stdin.fileno(), self._child.stdout.fileno()

    def _spell(self, operation: Operation) -> str:
        """Return the statement; its values are numbers, and one empty text."""
        (statement,) = operation.statements
        names = ", ".join(column.name for column in OUTAGE.columns[1:])
        values = ", ".join("''" if one == b"" else str(one) for one in statement.values)
        return f"insert into {self._place} ({names}) values ({values})"

    def _read(self) -> None:
        """Read what the program has printed; raise ProgramFailed if it has ended."""
        _, descriptor = self._pipes()
        while len(self._received) <= LINE_BYTES_MAX:
            try:
                part = os.read(descriptor, LINE_BYTES_MAX)
            except BlockingIOError:
                return
            if not part:
                raise self._fail("")
            self._received += part

    def _fail(self, why: str) -> ProgramFailed:
        """End the program because of *why*, "" if it has ended itself."""
        assert self._child is not None
        if not why:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(_ENDING_S)
            status = self._child.poll()
            why = "it closed its standard output"
            if status is not None:
                how = f"signal {-status}" if status < 0 else f"status {status}"
                why = f"it ended with {how}"
            self._listener.join(_ENDING_S)
            if words := self._clean(bytes(self._said))[-TEXT_MAX:]:
                why += f"; its last words: {words}"
        self._child.kill()
        self._why = why
        return ProgramFailed(why)

    def _listen(self) -> None:
        """Keep the end of the program's standard error."""
        assert self._child is not None and self._child.stderr is not None
        descriptor = self._child.stderr.fileno()
        with contextlib.suppress(OSError, ValueError):
            while part := os.read(descriptor, 1 << 16):
                self._said = (self._said + part)[-_ERROR_BYTES:]

    def _describe_no_answer(self, line: bytes) -> str:
        return f"it printed '{self._clean(line)[:TEXT_MAX]}', which is no answer"

    def _clean(self, said: bytes) -> str:
        """Return what the program said on one line, without a secret."""
        text = said.decode("utf-8", "replace")
        for secret in self._hidden:
            text = text.replace(secret, "***")
        lines = (visible(line.strip()) for line in text.splitlines())
        return "; ".join(filter(None, lines))
