"""Where a server logs, from its settings."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping

from dbcheck.model.host import COLLECTOR, JOURNAL, STDERR
from dbcheck.server_log.startlog import NAMES

_INTO_FILES = ("stderr", "csvlog", "jsonlog")  # PostgreSQL's log_destination


def innodb_log(variables: Mapping[str, str]) -> str:
    """Return MySQL's or MariaDB's log; JOURNAL or STDERR and the data directory.

    log_error is relative to the data directory; "" (MariaDB) and "stderr" (MySQL) are
    standard error.  With a sink of its own, MySQL logs by way of syslog instead (MySQL
    Reference Manual, Error Logging to the System Log).
    """
    if "log_error" not in variables:
        return ""
    value = variables["log_error"]
    sinks = variables.get("log_error_services", "log_sink_internal")
    if "log_sink_syseventlog" in sinks and "log_sink_internal" not in sinks:
        return JOURNAL + variables.get("datadir", "")
    if value in ("", "stderr"):
        return STDERR + variables.get("datadir", "")
    return posixpath.join(variables.get("datadir", ""), value)


def postgresql_log(settings: Mapping[str, str]) -> str:
    """Return COLLECTOR with both folders; JOURNAL or STDERR and the data directory.

    "" if the account may not see where; needs pg_read_all_settings.
    """
    data = settings.get("data_directory", "")
    if not data:
        return ""
    destination = settings.get("log_destination", "stderr")
    if not any(each in destination for each in _INTO_FILES):
        return JOURNAL + data if "syslog" in destination else ""
    if settings.get("logging_collector") == "off":
        return STDERR + data if "stderr" in destination else ""
    folder = settings.get("log_directory", "")
    if not folder:
        return ""
    both = (re.sub("/+", "/", each) for each in (data, posixpath.join(data, folder)))
    return COLLECTOR + "/".join(both)


def log_names(settings: Mapping[str, str]) -> dict[str, str]:
    """Return what the server's lines of a start name it by, of all its settings."""
    return {name: settings[name] for name in NAMES if settings.get(name)}
