"""Mounts that a lab's server alone has, as in a container."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dbcheck.lab.server_account import Account

# Each system has this folder (FHS 3.0, 3.12); the server finds another one there.
TOP = Path("/mnt")
# Arguments: each folder and where it is mounted, "--", and the command.
_MOUNT_AND_RUN = f"""
mount -t tmpfs -o mode=755 none {TOP} || exit
while [ "$1" != -- ]; do
    mkdir "$2" && mount --bind "$1" "$2" || exit
    shift 2
done
cd {TOP}/data && shift && exec "$@"
"""


class OwnMounts:
    """Folders that the server finds below TOP, where its host has none of them.

    names: folder -> its name below TOP, of the data folder "data"; {} for a server
           that has the mounts of its host.
    """

    def __init__(self, names: Mapping[Path, str]) -> None:
        self._places = {folder: TOP / name for folder, name in names.items()}

    def find(self, folder: Path) -> Path:
        """Return where the server has a folder."""
        return self._places.get(folder, folder)

    def wrap(self, command: list[str], account: Account | None) -> dict[str, Any]:
        """Return arguments of Popen that run *command* there, as the account.

        It runs under the id of the process that is started.
        """
        if not self._places:
            return {
                "args": command,
                "user": account.uid if account else None,
                "group": account.gid if account else None,
                "extra_groups": account.groups if account else None,
            }
        for folder, inside in self._places.items():
            command = [word.replace(str(folder), str(inside)) for word in command]
        apart = ["unshare", "--mount", "--propagation", "slave"]
        mounts = [word for pair in self._places.items() for word in map(str, pair)]
        shell = ["sh", "-c", _MOUNT_AND_RUN, "sh", *mounts, "--"]
        become = _become(account) if account else []
        return {"args": [*apart, *shell, *become, *command]}


def _become(account: Account) -> list[str]:
    """Return the beginning of a command that runs as the account (setpriv(1))."""
    ids = ["--reuid", str(account.uid), "--regid", str(account.gid)]
    groups = ",".join(map(str, account.groups))
    return ["setpriv", *ids, *(["--groups", groups] if groups else ["--clear-groups"])]
