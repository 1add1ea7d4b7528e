"""pgBackRest: a repository of a backup and of the WAL, in the lab's own folders."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from dbcheck.lab import server_account
from dbcheck.lab.network import LOOPBACK
from dbcheck.lab.restoring.archives import ARCHIVING, Shipped, quote
from dbcheck.lab.restoring.methods import Step
from dbcheck.lab.servers.base import USER

_PROGRAM = "pgbackrest"
_STANZA = "main"
_CONFIGURATION = """\
[global]
repo1-path={repository}
lock-path={work}/lock
spool-path={work}/spool
log-level-file=off
log-level-console=warn
start-fast=y

[{stanza}]
pg1-path={data}
pg1-port={port}
pg1-user={user}
pg1-database={database}
"""


class Pgbackrest(Shipped):
    """A full backup by pgBackRest, and the WAL that its archive-push stored.

    Its host is the server's own here: it asks the server by libpq, at PGHOST, and
    copies the files of the data folder (pgBackRest 2.45, configuration reference).
    """

    needs: ClassVar[tuple[str, ...]] = (_PROGRAM, "psql")
    settings = ARCHIVING
    rpo_s = 5.0

    def begin(self) -> list[Step]:
        text = _CONFIGURATION.format(
            repository=self._archive / "repository",
            work=self._archive,
            stanza=_STANZA,
            data=self._original.data,
            port=self._original.port,
            user=USER,
            database="postgres",
        )
        server_account.make_file(self._configuration, self._account, text)
        return [
            self._run("stanza-create"),
            self._archive_by(self._shell("archive-push %p", self._original.data)),
            self._run("backup", "--type=full"),
        ]

    def unpack(self, copy: Path) -> list[Step]:
        server_account.make_folder(copy, self._account)
        return [self._run("restore", f"--pg1-path={copy}")]

    @property
    def _configuration(self) -> Path:
        return self._archive / "pgbackrest.conf"

    def _run(self, command: str, *options: str) -> Step:
        secret = self._write_password_file()
        variables = {"PGHOST": LOOPBACK, "PGPASSFILE": str(secret)}
        return Step([*self._command(), *options, command], variables)

    def _command(self) -> list[str]:
        found = self._find(_PROGRAM)
        return [found, f"--config={self._configuration}", f"--stanza={_STANZA}"]

    def _fetch_command(self, copy: Path) -> str:
        return self._shell('archive-get %f "%p"', copy)

    def _shell(self, command: str, data: Path) -> str:
        """Return a command for the server that works in the folder *data*."""
        words = [*self._command(), f"--pg1-path={data}"]
        return f"{' '.join(map(quote, words))} {command}"
