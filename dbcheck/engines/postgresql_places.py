"""Where PostgreSQL keeps what a commit depends on."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping

from dbcheck.core.places import DATA, Place

# Below the data directory, where each may be a link: PostgreSQL 18 manual, 66.1
# Database File Layout.
_WAL, _COMMIT_STATUS, _DEFAULT_TABLESPACE = "pg_wal", "pg_xact", "base"


def places(data: str, spaces: Mapping[str, str]) -> tuple[Place, ...]:
    """Return the directories, the data directory first.

    data:   data_directory, "" if the account may not see it: then only tablespaces
            with a path of their own are known.
    spaces: "table" and "database" -> location of the tablespace that each is in.
    """
    named = {DATA: "", "WAL": _WAL, "commit status": _COMMIT_STATUS}
    named |= {what: spaces[what] or _DEFAULT_TABLESPACE for what in sorted(spaces)}
    return tuple(
        Place(name, posixpath.normpath(posixpath.join(data, path)))
        for name, path in named.items()
        if data or posixpath.isabs(path)
    )
