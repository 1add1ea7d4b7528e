"""Makes the images of the cluster's containers by hand, as archives of Docker's form.

One holds the program that keeps a pod's namespaces.  The other is empty but for links
and folders: a container mounts this machine's own /usr and /etc there, and so runs the
servers that are installed here.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

# The names of no registry, as nothing is ever fetched.
PAUSE = "dbcheck.invalid/pause:1"
EMPTY = "dbcheck.invalid/empty:1"
_FOLDERS = ("usr", "etc", "tmp", "var", "run", "proc", "sys", "dev", "data")
_LINKS = ("bin", "sbin", "lib", "lib64")  # into usr, as in Debian


def make_all(folder: Path, programs: Path) -> None:
    """Write an archive of each image; *programs* has what PAUSE runs."""
    pause = _pack({"pause": (programs / "pause").read_bytes()})
    _write(folder / "pause.tar", PAUSE, pause, ["/pause"])
    empty = _pack({}, _FOLDERS, {name: f"usr/{name}" for name in _LINKS})
    _write(folder / "empty.tar", EMPTY, empty, ["/bin/sh"])


def _write(archive: Path, name: str, layer: bytes, command: Sequence[str]) -> None:
    digest = hashlib.sha256(layer).hexdigest()
    settings = {
        "architecture": _find_architecture(),
        "os": "linux",
        "config": {"Cmd": list(command)},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    described = json.dumps(settings).encode()
    config = hashlib.sha256(described).hexdigest() + ".json"
    manifest = [{"Config": config, "RepoTags": [name], "Layers": ["layer.tar"]}]
    files = {
        config: described,
        "layer.tar": layer,
        "manifest.json": json.dumps(manifest).encode(),
    }
    archive.write_bytes(_pack(files))


def _find_architecture() -> str:
    """Return Go's name for the processors of this machine."""
    names = {"x86_64": "amd64", "aarch64": "arm64"}
    return names.get(platform.machine(), platform.machine())


def _pack(
    files: Mapping[str, bytes],
    folders: Sequence[str] = (),
    links: Mapping[str, str] | None = None,
) -> bytes:
    """Return an archive of files that anybody may run, empty folders and links."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name in folders:
            member = tarfile.TarInfo(name)
            member.type, member.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(member)
        for name, target in (links or {}).items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, target
            archive.addfile(member)
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o755
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()
