"""Devices that hold a part of a filesystem, and on which no file can be put.

This file is sent to the target's host, see serve.py: Python 3.8, no more than
the standard library and remote/wire.py.

An ack depends on a filesystem's journal wherever that is.  XFS names its devices among
the mount options (xfs(5), logdev and rtdev).  ext4 does not, however it was mounted
(seen on Linux 6.18): each journal has a folder in /proc/fs/jbd2, named by its device,
and by its inode too where it is a file of the filesystem ("sda1-8"; fs/jbd2/journal.c,
jbd2_journal_init_inode); its thread bears the same name after "jbd2/", and
/sys/fs/ext4/DEVICE/journal_task has the number of that thread.
"""

from __future__ import annotations

import os
import re

from dbcheck.remote.wire import first_line, unescape

EXT4 = "/sys/fs/ext4"
JBD2 = "/proc/fs/jbd2"
PROCESSES = "/proc"
JOURNAL = "journal"
XFS_ROLES = {"logdev": JOURNAL, "rtdev": "realtime section"}


def apart(mount: dict[str, str], device: str) -> tuple[dict[str, str], str]:
    """Return what lies on devices of its own: its name -> the device's path or name.

    mount: as mount_of() returns it.  device: its name in /sys, "" if it is unknown.
    And return why it is unknown where the journal is, "" if it is known.
    """
    if mount["type"] == "xfs":
        options = (each.partition("=") for each in mount["options"].split(","))
        named = {name: unescape(value) for name, _, value in options}
        roles = XFS_ROLES.items()
        return {role: named[key] for key, role in roles if key in named}, ""
    if mount["type"] in ("ext3", "ext4"):
        return ext4_journal(device)
    return {}, ""


def ext4_journal(device: str) -> tuple[dict[str, str], str]:
    """Return the device of the journal of ext3 or ext4, if it is another one."""
    try:
        journals = os.listdir(JBD2)
    except OSError as error:
        journals = []
        why = f"{JBD2}: {error.strerror}"
    else:
        why = f"{JBD2} and {EXT4} do not report it"
    if any(re.fullmatch(re.escape(device) + r"-\d+", each) for each in journals):
        return {}, ""
    thread = first_line(os.path.join(EXT4, device, "journal_task"))
    if thread == "<none>":
        return {}, ""
    name = first_line(os.path.join(PROCESSES, thread, "comm")).partition("jbd2/")[2]
    if thread.isdigit() and name in journals:  # older kernels cut long names off
        return {JOURNAL: name}, ""
    return {}, why
