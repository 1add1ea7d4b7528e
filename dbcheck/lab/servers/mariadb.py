"""MariaDB as a server of the lab: alone, with MyRocks, or as a node of Galera."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import ClassVar

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import Unrecoverable
from dbcheck.lab import programs, server_account
from dbcheck.lab.certificates import Identity
from dbcheck.lab.servers.base import ASKED, LOG_BYTES_MAX, last_lines
from dbcheck.lab.servers.innodb import InnodbServer, format_options

# What mariadb-install-db writes needs no care: a cut in it starts it again.
_CREATE_SETTINGS = {
    "innodb_flush_log_at_trx_commit": "0",
    "innodb_doublewrite": "0",
    "innodb_buffer_pool_size": "64M",
    "innodb_log_file_size": "48M",
}

_ACCOUNTS = """\
flush privileges;
create database dbcheck;
create user {user}@'127.0.0.1' identified via mysql_native_password
  using password('{password}');
grant all on *.* to {user}@'127.0.0.1' with grant option;
delete from mysql.global_priv where user not in ('{user}', 'mariadb.sys');
delete from mysql.proxies_priv;
"""


class MariadbServer(InnodbServer):
    """A MariaDB server; its account dbcheck has every privilege and no other does."""

    name = "mariadb"
    needs: tuple[str, ...] = ("mariadbd", "mariadb-install-db")
    durable = {
        "innodb_flush_log_at_trx_commit": "1",
        "innodb_flush_method": "O_DIRECT",
        "innodb_doublewrite": "1",
        "innodb_buffer_pool_size": "64M",
        "innodb_log_file_size": "48M",
        "skip_name_resolve": "1",
    }
    no_binlog = "skip_log_bin"

    def _create(self, password: str) -> None:
        accounts_file = self._accounts_file(password, _ACCOUNTS)
        settings = {
            **_CREATE_SETTINGS,
            **self._shape(),
            "datadir": str(self.data),
            "tmpdir": str(self._temporary_folder()),
        }
        size = self.settings.get("innodb_log_file_size")
        if size is not None:
            settings["innodb_log_file_size"] = size
        try:
            self._install(accounts_file, format_options(settings))
        finally:
            accounts_file.unlink()

    def _install(self, accounts_file: Path, settings: list[str]) -> None:
        """Make the data folder, and the accounts that a file of statements makes."""
        script = self._program("mariadb-install-db")
        # 10.5's would hand this option on to the server, which does not know it.
        takes_file = b"--extra-file=" in script.read_bytes()
        self._run(
            [
                str(script),
                "--no-defaults",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
                *([f"--extra-file={accounts_file}"] if takes_file else []),
                *settings,
            ]
        )
        if not takes_file:
            server = str(self._program("mariadbd"))
            command = [server, "--no-defaults", "--bootstrap", *settings]
            self._run(command, accounts_file)


class MyrocksServer(MariadbServer):
    """A MariaDB server whose tables dbcheck makes in MyRocks.

    What MariaDB keeps for itself stays in InnoDB and Aria.
    """

    name = "myrocks"
    needs = (*MariadbServer.needs, programs.ROCKSDB)
    own = MariadbServer.own | {"plugin_dir", "plugin_load_add", "rocksdb"}
    durable = {**MariadbServer.durable, "rocksdb_flush_log_at_trx_commit": "1"}

    @property
    def url(self) -> str:
        return f"{super().url}?storage_engine=rocksdb"

    @classmethod
    def find(cls, name: str) -> Path | None:
        """Return one of the programs, or the plugin of the server."""
        return (
            programs.find_rocksdb() if name == programs.ROCKSDB else super().find(name)
        )

    def _arguments(self) -> list[str]:
        plugin = self._program(programs.ROCKSDB)
        return [
            *super()._arguments(),
            f"--plugin-dir={plugin.parent}",
            f"--plugin-load-add={plugin.name}",
            # Without its data the server must not start, and be taken for a sound one.
            "--rocksdb=FORCE",
            *([f"--rocksdb-wal-dir={self.log_data}"] if self.log_data else []),
        ]

    def _log_place(self) -> dict[str, str]:
        """Return {}: a log drive holds MyRocks' log, and InnoDB's is with the data."""
        return {}


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
            given[0] = f"--defaults-file={self._transfer_settings_file}"
        return [*given, f"--wsrep-provider={provider}", *at]

    @property
    def _transfer_settings_file(self) -> Path:
        """The file of settings that the scripts of TRANSFER read, and no server."""
        return self.run.with_name("tls") / "copy.cnf"

    def set_identity(self, identity: Identity) -> None:
        """Have copies of its data go over TLS to other nodes alone, too."""
        super().set_identity(identity)
        assert self.tls is not None  # since then
        server_account.make_file(
            self._transfer_settings_file, self._account, _COPYING.format(tls=self.tls)
        )

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
        """Read the node's last position in the cluster's history from its data.

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
            if error.status in ASKED or programs.is_resource_shortage(self._said(log)):
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
        return server_account.read_as_text(log, self._account, LOG_BYTES_MAX)
