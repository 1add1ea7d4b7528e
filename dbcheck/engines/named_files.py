"""Files that a driver reads: an authority, a certificate, a list of passwords.

The drivers open them by name, in C: a FIFO would keep them for ever, and so would a
file without end.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dbcheck.base import plain


def unreadable_file(named: Mapping[str, str]) -> str:
    """Return which file a driver must not read, and why; "" if none.

    named: by what names each, e.g. "sslrootcert" or "PGPASSFILE".  What is missing, or
    this user may not read, is left to the driver.
    """
    for what, name in named.items():
        try:
            plain.require(Path(name))
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            return f"{what}: {name} cannot be read: {why}"
    return ""
