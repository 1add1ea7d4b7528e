"""Faults that keep a server from starting and are not its data's."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from tools.damage.servers import Prepared

Cause = Callable[[Prepared], AbstractContextManager[None]]


@contextlib.contextmanager
def port_in_use(made: Prepared) -> Iterator[None]:
    """Let another process listen at the server's port."""
    port = made.server.port
    with socket.create_server(("127.0.0.1", 0)) as other:
        made.server.port = other.getsockname()[1]
        yield
    made.server.port = port


def unreadable(pattern: str) -> Cause:
    """Return a cause: the account may not read the last of these files."""

    @contextlib.contextmanager
    def cause(made: Prepared) -> Iterator[None]:
        sorted(made.server.data.glob(pattern))[-1].chmod(0)
        yield

    return cause


@contextlib.contextmanager
def not_mounted(made: Prepared) -> Iterator[None]:
    """Put an empty folder where the data were, as below a volume not mounted."""
    data = made.server.data
    status = data.stat()
    shutil.rmtree(data)
    data.mkdir(mode=0o700)
    os.chown(data, status.st_uid, status.st_gid)
    yield


@contextlib.contextmanager
def others(made: Prepared) -> Iterator[None]:
    """Give the data folder to another account."""
    os.chown(made.server.data, 0, 0)
    yield


def setting(**settings: str) -> Cause:
    """Return a cause: what somebody wrote into the configuration.

    "{place}" stands for an empty folder beside the data folder.
    """

    @contextlib.contextmanager
    def cause(made: Prepared) -> Iterator[None]:
        kept = dict(made.server.settings)
        place = str(made.server.data.with_name("place"))
        made.server.settings.update(
            {name: value.replace("{place}", place) for name, value in settings.items()}
        )
        try:
            yield
        finally:
            made.server.settings = kept

    return cause


def line(text: str, name: str = "postgresql.conf") -> Cause:
    """Return a cause: a line at the end of a file of the data folder."""

    @contextlib.contextmanager
    def cause(made: Prepared) -> Iterator[None]:
        with Path(made.server.data, name).open("a") as stream:
            stream.write(f"{text}\n")
        yield

    return cause


_ANY: Mapping[str, Cause] = {
    "port in use": port_in_use,
    "volume not mounted": not_mounted,
    "folder of another account": others,
    "setting that does not exist": setting(no_such_setting="1"),
}
_INNODB: Mapping[str, Cause] = {
    **_ANY,
    "ibdata1 not readable": unreadable("ibdata1"),
    "binary log not readable": unreadable("binlog.0*"),
    "table not readable": unreadable("dbcheck/t.ibd"),
    "pool too large": setting(innodb_buffer_pool_size="9000G"),
    "another page size": setting(innodb_page_size="8192"),
    "another data_file_path": setting(innodb_data_file_path="ibdata1:50M"),
    "another redo folder": setting(innodb_log_group_home_dir="{place}"),
    "another data_home": setting(innodb_data_home_dir="{place}"),
    "read-only": setting(innodb_read_only="ON"),
}
CAUSES: Mapping[str, Mapping[str, Cause]] = {
    "postgresql": {
        **_ANY,
        "pg_control not readable": unreadable("global/pg_control"),
        "WAL not readable": unreadable("pg_wal/0*1"),
        "commit status not readable": unreadable("pg_xact/0000"),
        "buffers too large": setting(shared_buffers="900GB"),
        "wal_level": setting(wal_level="minimal", max_wal_senders="0"),
        "too few slots": setting(max_replication_slots="0"),
        "too few prepared": setting(max_prepared_transactions="0"),
        "typing error": line("shared_buffers = = 3"),
        "unknown parameter": line("no_such_setting = 1"),
    },
    "mariadb": {**_INNODB, "redo log not readable": unreadable("ib_logfile0")},
    "mysql": {
        **_INNODB,
        "redo log not readable": unreadable("#innodb_redo/#ib_redo*[0-9]"),
        "data dictionary not readable": unreadable("mysql.ibd"),
        "lower_case_table_names": setting(lower_case_table_names="1"),
        "another undo folder": setting(innodb_undo_directory="{place}"),
        "undo file not readable": unreadable("undo_001"),
    },
    "myrocks": {"tc.log not readable": unreadable("tc.log")},
}
