"""Where a server says that it logs."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping

from dbcheck.core.target import JOURNAL


def innodb_log(variables: Mapping[str, str]) -> str:
    """Return MySQL's or MariaDB's log; JOURNAL and the data directory for stderr.

    log_error is relative to the data directory; "" (MariaDB) and "stderr" (MySQL) are
    standard error, which systemd keeps in its journal.
    """
    if "log_error" not in variables:
        return ""
    value = variables["log_error"]
    if value in ("", "stderr"):
        return JOURNAL + variables.get("datadir", "")
    return posixpath.join(variables.get("datadir", ""), value)


def postgresql_log(settings: Mapping[str, str]) -> str:
    """Return the folder that the collector writes to; JOURNAL and the data without one.

    "" if the account may not see where; needs pg_read_all_settings.
    """
    data = settings.get("data_directory", "")
    if not data:
        return ""
    if settings.get("logging_collector") == "off":
        to_stderr = "stderr" in settings.get("log_destination", "")
        return JOURNAL + data if to_stderr else ""
    folder = settings.get("log_directory", "")
    return posixpath.join(data, folder) if folder else ""
