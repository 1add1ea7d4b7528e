"""`make mysql`: see fetch.py."""

from __future__ import annotations

import sys

from dbcheck.errors import DbcheckError
from dbcheck.lab import programs
from tests.mysql.fetch import fetch


def main() -> int:
    """Fetch MySQL unless there is one; return 1, with the reason said, if not."""
    if found := programs.find_mysqld():
        sys.stdout.write(f"mysql: {found}\n")
        return 0
    sys.stdout.write("mysql: fetching a MySQL server (60 MB) for the tests\n")
    try:
        fetch(programs.mysql_folder())
    except DbcheckError as error:
        sys.stderr.write(f"mysql: {error}\nmysql: {error.hint}\n")
        return 1
    sys.stdout.write(f"mysql: {programs.find_mysqld()}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
