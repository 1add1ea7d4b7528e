"""MariaDB with MyRocks, its RocksDB storage engine, as a server of the lab."""

from __future__ import annotations

from pathlib import Path

from dbcheck.lab import programs
from dbcheck.lab.servers.mariadb import MariadbServer


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
