"""MariaDB as a node of a Galera cluster, as a server of the lab."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import ClassVar

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import Unrecoverable
from dbcheck.lab import needs, owned, programs
from dbcheck.lab.certificates import Identity
from dbcheck.lab.servers.base import ASKED, LOG_BYTES_MAX, last_lines
from dbcheck.lab.servers.mariadb import MariadbServer

_OPTIONS = "wsrep_provider_options"
_NEW = "--wsrep_new_cluster"
# With VERIFY_CA both ends of a copy must show a certificate of that authority (MariaDB
# 10.11, wsrep_sst_rsync; stunnel(8), verifyChain).
_COPYING = """\
[sst]
tca={tls.authority}
tcert={tls.certificate}
tkey={tls.key}
ssl-mode=VERIFY_CA
"""
_POSITION = re.compile(r"WSREP: Recovered position: (\S+)")


class GaleraServer(MariadbServer):
    """A MariaDB server with Galera's library; its settings name the other nodes.

    The setting wsrep_new_cluster counts for its first start alone.

    After a crash it starts as MariaDB's service does (galera_recovery of its Debian
    package): a first run recovers InnoDB and prints up to where the node has the
    cluster's history, which the second run is given.  Without it three nodes of MariaDB
    10.11 that were all killed formed a cluster without comparing their data.
    """

    name = "galera"
    # TRANSFER copies a node's data to another; its scripts use the last two.
    needs = (
        *MariadbServer.needs,
        programs.GALERA,
        *programs.TRANSFER,
        *("my_print_defaults", "ss"),
    )
    own: ClassVar[frozenset[str]] = MariadbServer.own | {
        *("wsrep_on", "wsrep_provider", "wsrep_start_position", "wsrep_recover"),
        *("wsrep_sst_method", "binlog_format", "innodb_autoinc_lock_mode"),
    }
    durable = {
        **MariadbServer.durable,
        "wsrep_on": "ON",
        "wsrep_sst_method": "rsync",
        # Galera needs both (MariaDB documentation, Configuring MariaDB Galera Cluster).
        "binlog_format": "ROW",
        "innodb_autoinc_lock_mode": "2",
    }
    _begun = False
    _position = ""

    @classmethod
    def find(cls, name: str) -> Path | None:
        """Return one of the programs, or Galera's library."""
        if name in MariadbServer.needs:
            return super().find(name)
        return programs.find_galera(name)

    def _arguments(self) -> list[str]:
        provider = self._program(programs.GALERA)
        given = [
            each for each in super()._arguments() if each != _NEW or not self._begun
        ]
        at = [f"--wsrep-start-position={self._position}"] if self._position else []
        if self.tls is not None:
            given[0] = f"--defaults-file={self._copying}"
        return [*given, f"--wsrep-provider={provider}", *at]

    @property
    def _copying(self) -> Path:
        """The file of settings that the scripts of TRANSFER read, and no server."""
        return self.run.with_name("tls") / "copy.cnf"

    def identify(self, identity: Identity) -> None:
        """Have copies of its data go over TLS to other nodes alone, too."""
        super().identify(identity)
        assert self.tls is not None  # since then
        owned.make_file(self._copying, self._account, _COPYING.format(tls=self.tls))

    def _tls_settings(self) -> dict[str, str]:
        """Return them; those of Galera are for its messages and missed transactions."""
        own = super()._tls_settings()
        if not own:
            return {}
        options = {
            "socket.ssl": "YES",
            "socket.ssl_ca": own["ssl_ca"],
            "socket.ssl_cert": own["ssl_cert"],
            "socket.ssl_key": own["ssl_key"],
        }
        given = self.settings.get(_OPTIONS, "")
        parts = [given, *(f"{name}={value}" for name, value in options.items())]
        return {**own, _OPTIONS: ";".join(filter(None, parts))}

    def _environment(self) -> dict[str, str]:
        own = super()._environment()
        folders = {str(self._program(name).parent) for name in programs.TRANSFER}
        return {**own, "PATH": os.pathsep.join([*sorted(folders), own["PATH"]])}

    def _launch(self) -> None:
        if self._begun:
            self._position = self._recovered()
        super()._launch()
        self._begun = True

    def _recovered(self) -> str:
        """Return up to where the node has the cluster's history, as its data show it.

        Raise Unrecoverable if the server cannot read them, and LabError if this machine
        kept it from that.
        """
        log = self._write_secret("recovery.log", "")
        self._position = ""
        command = [str(self._program(self.needs[0])), *self._arguments()]
        # Nobody else may have its port meanwhile, so it has none either.
        only = ("--wsrep-recover", "--skip-networking", f"--log-error={log}")
        failed = ""
        try:
            self._run([*command, *only])
        except programs.Failed as error:
            failed = str(error)
            if error.status in ASKED or needs.is_resource_shortage(self._said(log)):
                raise
        text = self._said(log)
        found = _POSITION.findall(text)
        if failed or not found:
            raise Unrecoverable(
                f"the {self.name} server did not recover its data:"
                f" {failed or 'it shows no position'}\n{last_lines(text)}",
                id=ErrorId.LAB_SERVER_NOT_STARTED,
            )
        return str(found[-1])

    def _said(self, log: Path) -> str:
        return owned.text(log, self._account, LOG_BYTES_MAX)
