"""MariaDB as a server of the lab."""

from __future__ import annotations

from pathlib import Path

from dbcheck.lab.servers.innodb import InnodbServer, options

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
            "tmpdir": str(self._temporary()),
        }
        size = self.settings.get("innodb_log_file_size")
        if size is not None:
            settings["innodb_log_file_size"] = size
        try:
            self._install(accounts_file, options(settings))
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
