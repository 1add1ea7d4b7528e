"""Files without a name: the kernel removes them when their last descriptor is closed.

This file is sent to the target's host, see serve.py: Python 3.8, no more than the
standard library and remote/wire.py.
"""

from __future__ import annotations

import errno
import os

from dbcheck.hosts.agent.open import naming, open_folder

WITHOUT = (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL)


def open_unnamed(folder: str, flags: int = 0) -> int:
    """Return a descriptor of a new file on the filesystem of *folder*.

    Links in the path are followed first.  Where the filesystem has no such files (NFS)
    the file gets a name, and loses it at once.  Raise OSError or Refusal.
    """
    path = os.path.realpath(folder)
    parent = open_folder(path)
    try:
        with naming(path):
            flags |= os.O_RDWR | os.O_CLOEXEC
            try:
                return os.open(".", flags | os.O_TMPFILE, 0o600, dir_fd=parent)
            except OSError as error:
                if error.errno not in WITHOUT:
                    raise
            name = "#sql-dbcheck-probe-" + os.urandom(8).hex()
            created = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            file = os.open(name, flags | created, 0o600, dir_fd=parent)
            os.unlink(name, dir_fd=parent)
            return file
    finally:
        os.close(parent)
