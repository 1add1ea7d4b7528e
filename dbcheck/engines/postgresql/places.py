"""Directories of PostgreSQL on which a commit depends."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping

from dbcheck.model.host import COLLECTOR, JOURNAL, STDERR
from dbcheck.model.places import DATA, WAL, Place

# Name of a place -> its folder below the data directory, and the files that count in
# it.  Each folder, and each file, may be a link (PostgreSQL 18 manual, 66.1 Database
# File Layout).  "global" has pg_control.
_BELOW_DATA = {
    WAL: ("pg_wal", ("[0-9A-F]*",)),
    "commit status": ("pg_xact", ("*",)),
    "multixacts": ("pg_multixact", ("*",)),
    "global": ("global", ("*",)),
}
_DEFAULT_TABLESPACE = "base"
_TABLESPACES = "pg_tblspc/"
# Values of log_destination with which the log is written to files.
_FILE_DESTINATIONS = ("stderr", "csvlog", "jsonlog")


def places(data: str, relations: Mapping[str, tuple[str, str]]) -> tuple[Place, ...]:
    """Return the directories, and the files that count in each, the data's first.

    data:      data_directory, "" if the account may not see it: then only tablespaces
               with a path of their own are known.
    relations: model.places.TABLE, INDEX and "database" -> location of the tablespace
               that each is in, and its file, as sql/postgresql/places.sql gives them.
    """
    folders: dict[str, tuple[str, tuple[str, ...]]] = {DATA: ("", ()), **_BELOW_DATA}
    for name in sorted(relations):
        folders[name] = _relation_folder(*relations[name]), ("*",)
    return tuple(
        Place(name, posixpath.normpath(posixpath.join(data, path)), files)
        for name, (path, files) in folders.items()
        if data or posixpath.isabs(path)
    )


def _relation_folder(location: str, file: str) -> str:
    """Return the folder of a relation, or of its tablespace if it has no file yet."""
    if location and file.startswith(_TABLESPACES):
        _, _, *inside = posixpath.dirname(file).split("/")
        return posixpath.join(location, *inside)
    return posixpath.dirname(file) or location or _DEFAULT_TABLESPACE


def postgresql_log(settings: Mapping[str, str]) -> str:
    """Return where the server writes its log, as model.host describes it.

    That is COLLECTOR with the data directory and the log's, or JOURNAL or STDERR with
    the data directory; "" if it is another place, or if the account may not see it,
    which needs pg_read_all_settings.
    """
    data = settings.get("data_directory", "")
    if not data:
        return ""
    destination = settings.get("log_destination", "stderr")
    if not any(kind in destination for kind in _FILE_DESTINATIONS):
        return JOURNAL + data if "syslog" in destination else ""
    if settings.get("logging_collector") == "off":
        return STDERR + data if "stderr" in destination else ""
    folder = settings.get("log_directory", "")
    if not folder:
        return ""
    folders = (re.sub("/+", "/", path) for path in (data, posixpath.join(data, folder)))
    return COLLECTOR + "/".join(folders)
