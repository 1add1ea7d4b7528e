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
from dbcheck.lab.servers.base import ASKED_TO_END, LOG_BYTES_MAX, last_lines
from dbcheck.lab.servers.innodb import InnodbServer, format_options

# What mariadb-install-db writes need not be durable: if it is cut short, it runs again.
_CREATE_SETTINGS = {
    "innodb_flush_log_at_trx_commit": "0",
    "innodb_doublewrite": "0",
    "innodb_buffer_pool_size": "64M",
    "innodb_log_file_size": "48M",
}

_ACCOUNTS = """\
flush privileges;
create database dbcheck;
create user {user}@'{host}' identified via mysql_native_password
  using password('{password}');
grant all on *.* to {user}@'{host}' with grant option;
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
            **self._settings_of_files(),
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
        # The script of 10.5 would hand --extra-file on to the server, which fails then.
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
    decided_by_lab = MariadbServer.decided_by_lab | {
        "plugin_dir",
        "plugin_load_add",
        "rocksdb",
    }
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
            # If the plugin cannot open its data, the server must not start without it:
            # it would be taken for a sound server.
            "--rocksdb=FORCE",
            *([f"--rocksdb-wal-dir={self.log_data}"] if self.log_data else []),
        ]

    def _log_folder_setting(self) -> dict[str, str]:
        """Return {}: a log drive holds MyRocks' log, and InnoDB's is with the data."""
        return {}


_PROVIDER_OPTIONS = "wsrep_provider_options"
_NEW_CLUSTER = "--wsrep_new_cluster"
# With VERIFY_CA both ends of a copy must show a certificate of the authority `tca`
# (MariaDB 10.11, wsrep_sst_rsync; stunnel(8), verifyChain).
_TRANSFER_SETTINGS = """\
[sst]
tca={tls.authority}
tcert={tls.certificate}
tkey={tls.key}
ssl-mode=VERIFY_CA
"""
_POSITION = re.compile(r"WSREP: Recovered position: (\S+)")


class GaleraServer(MariadbServer):
    """A MariaDB server with Galera's library; its settings name the other nodes.

    The setting wsrep_new_cluster is given to its first start alone.

    After a crash it starts as MariaDB's service does (galera_recovery of its Debian
    package): a first run recovers InnoDB and prints the position up to which the node
    has the cluster's history; the second run is given that position.  Without it three
    nodes of MariaDB 10.11 that were all killed formed a cluster without comparing their
    data.
    """

    name = "galera"
    # TRANSFER copies a node's data to another; its scripts use the last two.
    needs = (
        *MariadbServer.needs,
        programs.GALERA,
        *programs.TRANSFER,
        *("my_print_defaults", "ss"),
    )
    decided_by_lab: ClassVar[frozenset[str]] = MariadbServer.decided_by_lab | {
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
    _begun = False  # whether it was started before
    _position = ""  # in the cluster's history; "" before the first crash

    @classmethod
    def find(cls, name: str) -> Path | None:
        """Return one of the programs, or Galera's library."""
        if name in MariadbServer.needs:
            return super().find(name)
        return programs.find_galera(name)

    def _arguments(self) -> list[str]:
        provider = self._program(programs.GALERA)
        arguments = [
            argument
            for argument in super()._arguments()
            if argument != _NEW_CLUSTER or not self._begun
        ]
        start = [f"--wsrep-start-position={self._position}"] if self._position else []
        if self.tls is not None:
            # in place of --no-defaults, which stands first
            arguments[0] = f"--defaults-file={self._transfer_settings_file}"
        return [*arguments, f"--wsrep-provider={provider}", *start]

    @property
    def _transfer_settings_file(self) -> Path:
        """The file of settings that the scripts of TRANSFER read, and no server."""
        return self.run.with_name("tls") / "copy.cnf"

    def set_identity(self, identity: Identity) -> None:
        """Store the certificates, for copies of its data between the nodes as well."""
        super().set_identity(identity)
        assert self.tls is not None  # super() set it
        server_account.make_file(
            self._transfer_settings_file,
            self._account,
            _TRANSFER_SETTINGS.format(tls=self.tls),
        )

    def _tls_settings(self) -> dict[str, str]:
        """Return the TLS settings of the server, and Galera's own.

        Galera's encrypt the group's messages and the transactions that a node missed.
        """
        tls = super()._tls_settings()
        if not tls:
            return {}
        options = {
            "socket.ssl": "YES",
            "socket.ssl_ca": tls["ssl_ca"],
            "socket.ssl_cert": tls["ssl_cert"],
            "socket.ssl_key": tls["ssl_key"],
        }
        users_options = self.settings.get(_PROVIDER_OPTIONS, "")
        parts = [users_options, *(f"{name}={value}" for name, value in options.items())]
        return {**tls, _PROVIDER_OPTIONS: ";".join(filter(None, parts))}

    def _environment(self) -> dict[str, str]:
        variables = super()._environment()
        folders = {str(self._program(name).parent) for name in programs.TRANSFER}
        return {
            **variables,
            "PATH": os.pathsep.join([*sorted(folders), variables["PATH"]]),
        }

    def _launch(self) -> None:
        if self._begun:
            self._position = self._recover_position()
        super()._launch()
        self._begun = True

    def _recover_position(self) -> str:
        """Have the server recover its data; return the position that it prints.

        Raise Unrecoverable if the server cannot recover its data, and LabError if
        something else on this machine ended it or kept it from that.
        """
        log = self._write_secret("recovery.log", "")
        self._position = ""
        command = [str(self._program(self.needs[0])), *self._arguments()]
        # The lab holds the port until _launch(), so this run could not listen there.
        options = ("--wsrep-recover", "--skip-networking", f"--log-error={log}")
        failure = ""
        try:
            self._run([*command, *options])
        except programs.Failed as error:
            failure = str(error)
            # Somebody ended it, or the machine was short of something: that says
            # nothing of its data.
            if error.status in ASKED_TO_END or programs.is_resource_shortage(
                self._read_recovery_log(log)
            ):
                raise
        text = self._read_recovery_log(log)
        positions = _POSITION.findall(text)
        if failure or not positions:
            raise Unrecoverable(
                f"the {self.name} server did not recover its data:"
                f" {failure or 'it shows no position'}\n{last_lines(text)}",
                id=ErrorId.LAB_SERVER_NOT_STARTED,
            )
        return str(positions[-1])

    def _read_recovery_log(self, log: Path) -> str:
        return server_account.read_as_text(log, self._account, LOG_BYTES_MAX)
