"""A server's container in the lab: namespaces of its own, as containers have them.

The server is process 1 of its pid namespace (namespaces(7)), has mounts, a host name,
System V segments and shared memory of its own, and a network that is reached from the
host by one published port alone.  No program of a container engine is needed.
"""

from __future__ import annotations

import os
import subprocess
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dbcheck.base import processes
from dbcheck.lab import mounts, syscalls
from dbcheck.lab.link import Link
from dbcheck.lab.network import inside, keeping_namespaces, open_network
from dbcheck.lab.server_account import Account

# Each system has this folder (FHS 3.0, 3.12); the server finds another one there.
TOP = Path("/mnt")
HOSTNAME = "container"
# Folders beside the data of a writable layer, on one filesystem with them, as overlayfs
# needs (Linux, Documentation/filesystems/overlayfs.rst, Upper and Lower).
_LAYER_FOLDERS = "lower", "work", "merged"
# Arguments: each folder and where it is mounted, "--", and the command.
_MOUNT_AND_RUN = f"""
echo {HOSTNAME} > /proc/sys/kernel/hostname || exit
mount -t proc none /proc && mount -t tmpfs -o mode=1777 none /dev/shm || exit
mount -t tmpfs -o mode=755 none {TOP} || exit
while [ "$1" != -- ]; do
    mkdir "$2" && mount --bind "$1" "$2" || exit
    shift 2
done
cd {TOP}/data && shift && exec "$@"
"""
_PARENT_OUTSIDE = 0  # the parent's id in a pid namespace that it is not in


class Launcher:
    """Starts a server's programs on the host, without a container."""

    def path(self, folder: Path) -> Path:
        """Return where the server has a folder of the host's."""
        return folder

    def own_pid(self, pid: int) -> int:
        """Return the id that the server's first process, *pid* here, has for itself."""
        return pid

    def publish(self, port: int) -> None:
        """Let the host reach what listens on this port of 127.0.0.1.  Idempotent."""

    def start(
        self,
        command: list[str],
        account: Account | None,
        environment: Mapping[str, str],
        **options: Any,
    ) -> subprocess.Popen[bytes]:
        """Start *command* as the account, in its own session, bound to this thread.

        It runs under the id of the process that is started.
        options: of Popen; the errors go where the output goes.
        """
        return _start(
            processes.die_with_parent(command),
            environment,
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=account.groups if account else None,
            **options,
        )

    def withdraw(self) -> None:
        """Let the host reach nothing that listens there any more.  Idempotent."""

    def unmount(self) -> None:
        """Unmount what start() mounted on the host.  Idempotent."""

    def close(self) -> None:
        """End what was started beside the server's programs.  Idempotent."""


def _start(
    command: list[str], environment: Mapping[str, str], **options: Any
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        env=environment,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        **options,
    )


class Networked(Launcher):
    """Starts a server's programs in a network namespace.

    network: the namespace, opened; it is the caller's to close.
    """

    def __init__(self, network: int) -> None:
        self._network = network
        self._link: Link | None = None

    def publish(self, port: int) -> None:
        if self._link is None:
            self._link = Link(port=port, network=self._network)
            self._link.lead_to(port)

    def withdraw(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None

    def start(
        self,
        command: list[str],
        account: Account | None,
        environment: Mapping[str, str],
        **options: Any,
    ) -> subprocess.Popen[bytes]:
        with inside(self._network):
            return super().start(command, account, environment, **options)

    def close(self) -> None:
        self.withdraw()


class Container(Networked):
    """A network, and further namespaces; see the module.

    data:   the folder that the server has as "data" below TOP.
    others: further folder -> its name below TOP.
    layer:  True mounts the data folder as the writable layer of an overlayfs.
    """

    def __init__(self, data: Path, others: Mapping[Path, str], *, layer: bool) -> None:
        names = {data: "data", **others}
        self._places = {folder: TOP / name for folder, name in names.items()}
        self._layer = data if layer else None
        self._merged: Path | None = None  # where the layer is mounted on the host
        super().__init__(open_network())
        weakref.finalize(self, os.close, self._network)

    def path(self, folder: Path) -> Path:
        return self._places.get(folder, folder)

    def own_pid(self, pid: int) -> int:
        return 1

    def start(
        self,
        command: list[str],
        account: Account | None,
        environment: Mapping[str, str],
        **options: Any,
    ) -> subprocess.Popen[bytes]:
        for folder, there in self._places.items():
            command = [word.replace(str(folder), str(there)) for word in command]
        apart = ["unshare", "--mount", "--uts", "--ipc", "--propagation", "slave"]
        sources = [self._mount_layer(folder) for folder in self._places]
        pairs = zip(sources, self._places.values(), strict=True)
        binds = [str(path) for pair in pairs for path in pair]
        shell = ["sh", "-c", _MOUNT_AND_RUN, "sh", *binds, "--"]
        become = _become(account) if account else []
        run = processes.die_with_parent(command, parent=_PARENT_OUTSIDE)
        with keeping_namespaces():
            syscalls.setns(self._network)
            syscalls.unshare(syscalls.CLONE_NEWPID)  # for the next child alone
            return _start([*apart, *shell, *become, *run], environment, **options)

    def _mount_layer(self, folder: Path) -> Path:
        """Return what is mounted in place of a folder: its overlay, if it is a layer.

        It is mounted on the host first, as container engines do.
        """
        if folder != self._layer:
            return folder
        lower, work, merged = map(folder.with_name, _LAYER_FOLDERS)
        if self._merged is None:
            for each in (lower, work, merged):
                each.mkdir(exist_ok=True)
            options = f"lowerdir={lower},upperdir={folder},workdir={work}"
            syscalls.mount("overlay", str(merged), "overlay", 0, options)
            self._merged = merged
        return merged

    def unmount(self) -> None:
        if self._merged:
            mounts.release(self._merged)
            self._merged = None


def _become(account: Account) -> list[str]:
    """Return the beginning of a command that runs as the account (setpriv(1))."""
    ids = ["--reuid", str(account.uid), "--regid", str(account.gid)]
    groups = ",".join(map(str, account.groups))
    return ["setpriv", *ids, *(["--groups", groups] if groups else ["--clear-groups"])]
