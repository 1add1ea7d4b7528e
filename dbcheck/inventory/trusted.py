"""What decides over programs that run: no file that just anybody may write."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from dbcheck.errors import UsageError
from dbcheck.owners import is_ours

_LINKS_MAX = 40  # as the kernel follows
# What ansible-inventory reads in the working directory, as that of a playbook, and
# what may name plugins there, which are programs (ansible-core 2.19).
_OF_A_PLAYBOOK = ("ansible.cfg", "group_vars", "host_vars")


def require_trusted(path: Path) -> None:
    """Raise UsageError if anybody may write or replace *path*, an inventory's file.

    Or may replace a folder or a link that leads there.  A file that cannot be looked at
    is none: whoever reads it will say so.
    """
    try:
        if _is_open(path.stat()):
            raise _open(f"anybody may write {path}", path)
        for step in _steps(path):
            folder, found = step.parent.stat(), step.lstat()
            if not _is_open(folder):
                continue
            if not folder.st_mode & stat.S_ISVTX:
                raise _open(f"anybody may replace {step}", step.parent)
            if not is_ours(found):
                raise UsageError(
                    f"{step} belongs to another user (uid {found.st_uid}), in a folder"
                    " where anybody may write",
                    hint="An inventory names programs that dbcheck runs. Use one of"
                    " your own.",
                )
    except OSError:
        return


def _steps(path: Path, links: int = _LINKS_MAX) -> Iterator[Path]:
    """Yield each name on the way to *path*, from the root on, also behind links."""
    at = Path("/")
    for part in Path(os.path.abspath(path)).parts[1:]:
        at /= part
        yield at
        if links and at.is_symlink():
            yield from _steps(at.parent / at.readlink(), links - 1)


def _open(what: str, where: Path) -> UsageError:
    return UsageError(
        f"{what}, which is part of an inventory",
        hint=f"An inventory names programs that dbcheck runs. Run: chmod o-w {where}",
    )


def folder_for_ansible(inventory: Path) -> Path:
    """Return where to run ansible-inventory; raise UsageError if it cannot be here.

    It stays where we are, unless others may write there: then in the root folder, and
    not at all if there is something here that it would read.
    """
    try:
        here = Path.cwd()
        found = here.stat()
    except OSError:  # it was removed
        return Path("/")
    if is_ours(found) and not _is_open(found):
        return here
    if inventory.resolve().parent == here:  # whose inventory was asked for by name
        return here
    there = [name for name in _OF_A_PLAYBOOK if os.path.lexists(here / name)]
    if there:
        raise UsageError(
            f"ansible-inventory would read {' and '.join(there)} in {here}, where"
            " another user may write",
            hint="Those may name programs that run. Go to a folder of your own.",
        )
    return Path("/")


def _is_open(found: os.stat_result) -> bool:
    return bool(found.st_mode & stat.S_IWOTH)
