"""MySQL as a server of the lab: the machine's own, or the one that was fetched."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError, UsageError
from dbcheck.lab import programs, server_account
from dbcheck.lab.server_account import Account
from dbcheck.lab.servers.base import possible_names
from dbcheck.lab.servers.innodb import InnodbServer, format_options

_SIZES = {
    "innodb_buffer_pool_size": "64M",
    "innodb_redo_log_capacity": "96M",
}

# What --initialize-insecure writes need not be durable: if it is cut short, it runs
# again.
_CREATE_SETTINGS = {
    **_SIZES,
    "innodb_flush_log_at_trx_commit": "0",
    "innodb_doublewrite": "OFF",
    "disable_log_bin": "",
}

GROUP = "group_replication_"  # begins the settings of a replication group

# One statement on a line, as mysqld reads its init_file.
_ACCOUNTS = """\
create database dbcheck;
create user {user}@'{host}' identified with caching_sha2_password by '{password}';
grant all on *.* to {user}@'{host}' with grant option;
drop user root@localhost;
"""


class MysqlServer(InnodbServer):
    """A MySQL server; no person's account but dbcheck has privileges, and it has all.

    The account has caching_sha2_password and its connections TLS, as is MySQL's
    default; the certificates are the server's own.
    """

    name = "mysql"
    needs = ("mysqld",)
    decided_by_lab = InnodbServer.decided_by_lab | {
        *("basedir", "lc_messages_dir", "character_sets_dir", "secure_file_priv"),
        *("plugin_dir", "log_error"),
    }
    durable = {
        **_SIZES,
        "innodb_flush_log_at_trx_commit": "1",
        "innodb_flush_method": "O_DIRECT",
        "innodb_doublewrite": "ON",
        "skip_name_resolve": "ON",
        "mysqlx": "OFF",
        # At 2, the default, InnoDB does not report its recovery.
        "log_error_verbosity": "3",
        # "Shutting down plugin", some fifty times, would push out the messages that
        # are looked for.
        "log_error_suppression_list": "MY-010733",
    }
    no_binlog = "disable_log_bin"

    @property
    def url(self) -> str:
        """The URL names the server's account, if the lab has one for it.

        After each cut the client logs in with its password again: no other account
        that answers at the port while the server is off may get the password.
        """
        if self._account is None:  # this user's account runs the server
            return super().url
        return f"{super().url}?server_account={self._account.uid}"

    @classmethod
    def find(cls, name: str) -> Path | None:
        """Return mysqld: DBCHECK_MYSQLD, else PATH's, else the one that was fetched.

        MariaDB's packages have a mysqld, too, a link to mariadbd: it does not count.
        """
        return programs.find_mysqld()

    @classmethod
    def port_in(cls, settings: Mapping[str, str]) -> int:
        """Return the port of group_replication_local_address; 0 without a group.

        The other members send their messages to the port where it listens for clients.
        """
        address = settings.get(f"{GROUP}local_address", "")
        return int(address.rpartition(":")[2] or 0)

    def _arguments(self) -> list[str]:
        # MySQL reads its log back at each start, if it is a file.
        log = {"log_error": str(self.log_file)}
        return [
            *super()._arguments(),
            *format_options({**self._path_settings(), **log}),
        ]

    def _create(self, password: str) -> None:
        accounts_file = self._accounts_file(password, _ACCOUNTS)
        settings = {
            **_CREATE_SETTINGS,
            **self._settings_of_files(),
            **self._path_settings(),
            "datadir": str(self.data),
            "tmpdir": str(self._temporary_folder()),
            "init_file": str(accounts_file),
        }
        if self.tls is not None:  # the lab has made its certificates
            settings["auto_generate_certs"] = "OFF"
        try:
            self._run(
                [
                    str(self._program("mysqld")),
                    "--no-defaults",
                    "--initialize-insecure",
                    *format_options(settings),
                ]
            )
        finally:
            accounts_file.unlink()

    def _launch(self) -> None:
        """Start the process; before that, remove a killed server's lock of the socket.

        MySQL compares only the pid in the lock file, which may be another process's by
        now.  InnoDB's own locks keep two servers from using one data folder.
        """
        server_account.remove_stale(self.socket.with_name("socket.lock"))
        logs = [self.log_file]
        if "json" in self.settings.get("log_error_services", ""):
            # MySQL names its log in JSON so (Reference Manual 8.4, 7.4.2.7).
            logs.append(self.log_file.with_name(f"{self.log_file.name}.00.json"))
        for log in logs:  # the server's account may not make files in that folder
            if not log.exists():
                server_account.make_file(log, self._account)
        super()._launch()

    @property
    def _log_account(self) -> Account | None:
        """Return the server's account, as the server opens the log itself, too."""
        return self._account

    def _tls_settings(self) -> dict[str, str]:
        """Return the TLS settings; those of a group only for a member of one.

        A server without the plugin of group replication does not know them.
        """
        tls = super()._tls_settings()
        if tls and any(name.startswith(GROUP) for name in self.settings):
            # A server that is not a member gets neither its messages nor its password.
            tls[f"{GROUP}ssl_mode"] = "VERIFY_CA"
            tls[f"{GROUP}recovery_ssl_ca"] = tls["ssl_ca"]
            tls[f"{GROUP}recovery_ssl_verify_server_cert"] = "ON"
        return tls

    def _path_settings(self) -> dict[str, str]:
        """Return the settings of the paths that the server needs.

        The paths that are compiled into mysqld are those of its package, but it may
        have been unpacked elsewhere.
        """
        base = self._program("mysqld").resolve().parents[1]
        for share in (base / "share/mysql", base / "share"):
            if (share / "english/errmsg.sys").is_file():
                break
        else:
            raise LabError(
                f"the MySQL server in {base} has no messages",
                id=ErrorId.PROGRAM_VARIABLE_WRONG,
                hint="Set DBCHECK_MYSQLD to a mysqld inside its installation.",
            )
        paths = {
            "basedir": str(base),
            "lc_messages_dir": str(share),
            "character_sets_dir": str(share / "charsets"),
            "secure_file_priv": "NULL",
        }
        for plugins in (base / "lib/mysql/plugin", base / "lib/plugin"):
            if plugins.is_dir():
                paths["plugin_dir"] = str(plugins)
        return paths


def require_no_group(settings: Mapping[str, str]) -> None:
    """Raise UsageError for a setting of a replication group: this lab is in none."""
    for name in settings:
        if any(possible.startswith(GROUP) for possible in possible_names(name)):
            raise UsageError(
                f"the setting {name} is for a member of a replication group only",
                id=ErrorId.SETTING_INVALID,
                hint="Leave it out, or have a group: --engine mysql --topology"
                " group-replication --nodes 3.",
            )
