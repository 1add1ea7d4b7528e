"""The URL of a target: read with SQLAlchemy, refused if it holds a password."""

from __future__ import annotations

import re

import sqlalchemy.engine
import sqlalchemy.exc

from dbcheck.error_ids import ErrorId
from dbcheck.errors import UsageError

# What to do about a server of a product that is not tested.
NAME_ANOTHER = "Name a server of PostgreSQL, MySQL, MariaDB or YugabyteDB in the URL."

HINT = (
    "Pass it by PGPASSWORD or ~/.pgpass, by MYSQL_PWD or ~/.my.cnf, by"
    " DBCHECK_PASSWORD, or with --password-command."
)
# Of libpq and of MySQL's driver, each under several names.
_SECRET = re.compile(r"passw|pwd|secret|scram_\w+_key", re.IGNORECASE)


def read_url(url: str) -> sqlalchemy.engine.URL:
    """Return the parsed *url*; raise UsageError if it is invalid or holds a password.

    The message never repeats the URL, for it may hold what must not be shown.
    """
    try:
        parsed = sqlalchemy.engine.make_url(url)
    except (sqlalchemy.exc.ArgumentError, ValueError):
        raise UsageError(
            "the target is not a database URL",
            id=ErrorId.TARGET_URL_INVALID,
            hint="Write it like postgresql+psycopg2://user@host:5432/database.",
        ) from None
    if parsed.password is not None or any(map(_SECRET.search, parsed.query)):
        raise UsageError(
            "the target's URL contains a password",
            id=ErrorId.URL_HOLDS_PASSWORD,
            hint=HINT,
        )
    return parsed
