"""Base of MariaDB and MySQL as servers of the lab."""

from __future__ import annotations

import abc
import signal
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError
from dbcheck.lab import server_account
from dbcheck.lab.network import LOOPBACK, Source
from dbcheck.lab.servers.base import USER, DatabaseServer

_PROTOCOL_10 = 0x0A  # fifth byte of the greeting of a server that takes queries
_SOCKET_PATH_MAX = 107  # sun_path of unix(7), less its final zero

# Settings that decide where a new data folder's files lie, and of what form they are:
# a server does not start on files that were made under other values.
_SETTINGS_OF_FILES = frozenset(
    {
        "innodb_page_size",
        "innodb_checksum_algorithm",
        "innodb_data_home_dir",
        "innodb_data_file_path",
        "innodb_log_group_home_dir",
        "innodb_undo_directory",
        "innodb_undo_tablespaces",
        "lower_case_table_names",
    }
)


class InnodbServer(DatabaseServer, abc.ABC):
    """A server of the MySQL family; its account dbcheck has every privilege.

    durable:     its settings: commits are durable, and files and memory small.
    no_binlog:   the option that switches the binary log off.  Without the setting
                 log_bin, whose values are ON and OFF here, it is as the product's
                 default: on in MySQL, off in MariaDB.
    """

    stop_signal = signal.SIGTERM
    accounts = ("mysql",)
    needs_entry = False
    decided_by_lab: ClassVar[frozenset[str]] = frozenset(
        {"datadir", "bind_address", "port", "socket", "pid_file", "tmpdir"}
    )
    durable: ClassVar[Mapping[str, str]]
    no_binlog: ClassVar[str]

    @property
    def url(self) -> str:
        return f"mysql+mysqlconnector://{USER}@127.0.0.1:{self.port}/dbcheck"

    @property
    def socket(self) -> Path:
        """The path of its unix socket."""
        return self.server_run / "socket"

    def follow(self, source: Source) -> None:
        """Make new data in place of a copy, with the source's password.

        The binary log of a new source is empty, so both servers begin with the same
        data.  The replica begins to follow once it runs (lab/clusters/replication.py).
        """
        self._prepare(source.password)
        self._create(source.password)

    def _arguments(self) -> list[str]:
        socket_file = self.socket
        if len(str(socket_file)) > _SOCKET_PATH_MAX:
            raise LabError(
                f"the path {socket_file} is too long for a unix socket",
                id=ErrorId.SOCKET_PATH_TOO_LONG,
                hint="Set TMPDIR to a folder with a shorter name.",
            )
        settings = {
            **self.durable,
            **self.settings,
            **self._tls_settings(),
            **self._log_folder_setting(),
            "datadir": str(self.data),
            # A server with an address is alone in its network with its cluster.
            "bind_address": "0.0.0.0" if self.address else LOOPBACK,
            "port": str(self.port),
            "socket": str(socket_file),
            "pid_file": str(self.server_run / "pid"),
            "tmpdir": str(self._temporary_folder()),
        }
        if (log_bin := settings.get("log_bin", "").upper()) in ("ON", "OFF"):
            del settings["log_bin"]  # whose value is the name of its files
            settings["log_bin" if log_bin == "ON" else self.no_binlog] = ""
        return ["--no-defaults", *format_options(settings)]

    def _tls_settings(self) -> dict[str, str]:
        """Return the TLS settings of a cluster's node, {} if it is none."""
        if self.tls is None:
            return {}
        return {
            "ssl_ca": str(self.tls.authority),
            "ssl_cert": str(self.tls.certificate),
            "ssl_key": str(self.tls.key),
        }

    def _settings_of_files(self) -> dict[str, str]:
        """Return the settings that the files must be made with, too."""
        settings = {
            name: value
            for name, value in self.settings.items()
            if name.replace("-", "_") in _SETTINGS_OF_FILES
        }
        return {**settings, **self._log_folder_setting()}

    def _log_folder_setting(self) -> dict[str, str]:
        """Return the setting of the redo log's folder, {} if it is with the data."""
        if self.log_data is None:
            return {}
        return {"innodb_log_group_home_dir": str(self.log_data)}

    def _accounts_file(self, password: str, statements: str) -> Path:
        """Write *statements*, with the account filled in; return the file."""
        host = "%" if self.address else LOOPBACK
        text = statements.format(user=USER, password=password, host=host)
        return self._write_secret("accounts.sql", text)

    def _temporary_folder(self) -> Path:
        """Return a folder for temporary tables that no other server looks into.

        In a shared folder, every server that starts would remove the temporary tables
        of all the others.
        """
        folder = self.run / "tmp"
        server_account.make_folder(folder, self._account)
        return folder

    def _takes_queries(self, pid: int) -> bool:
        """Look for the greeting, which the server sends once its recovery is over."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1.0) as probe:
                probe.settimeout(1.0)
                greeting = probe.recv(5)
        except OSError:
            return False
        return len(greeting) == 5 and greeting[4] == _PROTOCOL_10


def format_options(settings: Mapping[str, str]) -> list[str]:
    """Return *settings* as options of a command line, bare where the value is ""."""
    return [
        f"--{name}={value}" if value else f"--{name}"
        for name, value in settings.items()
    ]
