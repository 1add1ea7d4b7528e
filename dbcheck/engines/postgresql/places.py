"""Directories of PostgreSQL on which a commit depends."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping

from dbcheck.model.host import COLLECTOR, JOURNAL, STDERR
from dbcheck.model.places import DATA, WAL, Place

# Below the data directory, where each folder, and each file in it, may be a link:
# PostgreSQL 18 manual, 66.1 Database File Layout.  "global" has pg_control.
_BELOW_DATA = {
    WAL: ("pg_wal", ("[0-9A-F]*",)),
    "commit status": ("pg_xact", ("*",)),
    "multixacts": ("pg_multixact", ("*",)),
    "global": ("global", ("*",)),
}
_DEFAULT_TABLESPACE = "base"
_TABLESPACES = "pg_tblspc/"
_INTO_FILES = ("stderr", "csvlog", "jsonlog")  # of log_destination


def places(data: str, relations: Mapping[str, tuple[str, str]]) -> tuple[Place, ...]:
    """Return the directories and what counts in each, the data directory first.

    data:      data_directory, "" if the account may not see it: then only tablespaces
               with a path of their own are known.
    relations: model.places.TABLE, INDEX and "database" -> location of the tablespace
               that each is in, and its file, as sql/postgresql/places.sql gives them.
    """
    named: dict[str, tuple[str, tuple[str, ...]]] = {DATA: ("", ()), **_BELOW_DATA}
    for what in sorted(relations):
        named[what] = _folder(*relations[what]), ("*",)
    return tuple(
        Place(name, posixpath.normpath(posixpath.join(data, path)), files)
        for name, (path, files) in named.items()
        if data or posixpath.isabs(path)
    )


def _folder(location: str, file: str) -> str:
    """Return the folder of a relation; before it is made, that of its tablespace."""
    if location and file.startswith(_TABLESPACES):
        _, _, *inside = posixpath.dirname(file).split("/")
        return posixpath.join(location, *inside)
    return posixpath.dirname(file) or location or _DEFAULT_TABLESPACE


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
