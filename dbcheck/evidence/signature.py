"""Signs a bundle with a key that the user has for SSH, and checks such a signature.

ssh-keygen(1) of OpenSSH 8.2 or newer does both (-Y sign, -Y verify); the format is
PROTOCOL.sshsig.  The signature lies beside the bundle, in BUNDLE.sig.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from dbcheck import children
from dbcheck.error_ids import ErrorId
from dbcheck.errors import BundleRefused, UsageError

NAMESPACE = "dbcheck-bundle"
_FINGERPRINT = re.compile(r"(SHA256:[A-Za-z0-9+/=]+)")


@dataclass(frozen=True, slots=True)
class Signature:
    """A signature that is good.

    signer: whom the list of allowed signers names for the key, "" without a list.
    key:    the key's fingerprint.
    """

    signer: str
    key: str


def file_of(bundle: Path) -> Path:
    """Return where the signature of a bundle lies."""
    return bundle.with_name(f"{bundle.name}.sig")


def sign(bundle: Path, key: Path) -> Path:
    """Sign a bundle with the private key *key*, or by the agent if it is a public one.

    Asks for a passphrase where the key has one.  Raise UsageError if it cannot sign.
    """
    signature = file_of(bundle)
    signature.unlink(missing_ok=True)
    words = ["-Y", "sign", "-f", str(key), "-n", NAMESPACE, str(bundle)]
    done = _run(words)
    if done.returncode or not signature.is_file():
        raise UsageError(
            f"{bundle} cannot be signed with {key}: {_said(done)}",
            id=ErrorId.SIGNING_FAILED,
            hint="Give a private key, or a public one whose other half the agent has.",
        )
    return signature


def check(bundle: Path, allowed: Path | None, signer: str) -> Signature | None:
    """Check the signature beside a bundle; None if there is none.

    allowed: who may sign, as ssh-keygen(1), ALLOWED SIGNERS; without it any key will
             do, and only shows that the bundle is what that key signed.
    signer:  the only one of them who may, "": any of them.
    Raise BundleRefused if it is not good, or missing although someone must have signed.
    """
    signature = file_of(bundle)
    if not signature.is_file():
        if allowed is None:
            return None
        raise BundleRefused(
            f"{bundle} is not signed: there is no {signature}",
            id=ErrorId.SIGNATURE_MISSING,
        )
    if allowed is None:
        words = ["-Y", "check-novalidate"]
    else:
        signer = signer or _principal(signature, allowed)
        words = ["-Y", "verify", "-f", str(allowed), "-I", signer]
    words += ["-n", NAMESPACE, "-s", str(signature)]
    done = _run(words, bundle)
    found = _FINGERPRINT.search(done.stdout)
    if done.returncode or found is None:
        raise BundleRefused(
            f"the signature of {bundle} is not good: {_said(done)}",
            id=ErrorId.SIGNATURE_NOT_GOOD,
        )
    return Signature(signer if allowed else "", found.group(1))


def _principal(signature: Path, allowed: Path) -> str:
    words = ["-Y", "find-principals", "-s", str(signature), "-f", str(allowed)]
    done = _run(words)
    names = done.stdout.split()
    if done.returncode or not names:
        raise BundleRefused(
            f"{signature} was made with a key that {allowed} lacks",
            id=ErrorId.SIGNER_UNKNOWN,
        )
    return names[0]


def _run(
    words: list[str], stdin: Path = Path(os.devnull)
) -> subprocess.CompletedProcess[str]:
    program = shutil.which("ssh-keygen", path=children.search_path())
    if program is None:
        raise UsageError(
            "ssh-keygen is not installed, which signs and checks signatures",
            id=ErrorId.PROGRAM_MISSING,
            hint="Install the Debian package openssh-client.",
        )
    with stdin.open("rb") as given:
        return subprocess.run(
            [program, *words],
            stdin=given,
            capture_output=True,
            text=True,
            errors="replace",
            env=children.environment(),
        )


def _said(done: subprocess.CompletedProcess[str]) -> str:
    lines = [*done.stderr.splitlines(), *done.stdout.splitlines()]
    return next((line for line in reversed(lines) if line.strip()), "no reason given")
