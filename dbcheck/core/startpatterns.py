"""Patterns of what servers log of their starts."""

from __future__ import annotations

import re


def any_of(*patterns: str, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str]:
    """Return what finds any of the *patterns*, each a regular expression."""
    return re.compile("|".join(patterns), flags)


# An attempt to start begins with one of these (PostgreSQL 12 or newer, postmaster.c;
# MySQL 8.0 or newer, MY-010116; MariaDB, mysqld.cc), and the server takes
# queries after one of those.
START = any_of(
    r"starting PostgreSQL [0-9]",
    r"starting as process [0-9]",
    r"Starting MariaDB [0-9]",
)
READY = any_of(r"ready to accept (?:read-only )?connections", r"ready for connections")

# PostgreSQL has read its control file and begins to recover (xlogrecovery.c).
RECOVERING = any_of(r"database system was (?:interrupted|not properly shut down)")

# A backend crashed, and PostgreSQL starts over in the same process (postmaster.c).
REINITIALIZING = any_of(r"all server processes terminated; reinitializing")
