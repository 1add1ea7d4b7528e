"""dbcheck as a command, and keys that ssh-keygen made, for bundles that are signed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from dbcheck.cli import PASS
from dbcheck.evidence.signature import NAMESPACE
from tests.kit.users import DBCHECK

BUNDLE = "b.tar"


def dbcheck(
    folder: Path,
    *words: str | Path,
    code: int = PASS,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> tuple[str, str]:
    """Run dbcheck in *folder*; return what it printed on stdout and stderr."""
    done = subprocess.run(
        (*DBCHECK, *words),
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=120,
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout, done.stderr


def key_of(folder: Path, name: str) -> Path:
    """Make a key without a passphrase; add it to the allowed signers of *folder*."""
    key = folder / name
    keygen(["-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(key)])
    with (folder / "signers").open("a") as signers:
        public = key.with_suffix(".pub").read_text()
        signers.write(f'{name}@example.org namespaces="{NAMESPACE}" {public}')
    return key


def keygen(words: list[str], stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["ssh-keygen", *words], input=stdin, capture_output=True)
