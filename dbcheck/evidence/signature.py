"""Signs a bundle with a key that the user has for SSH, and checks such a signature.

ssh-keygen(1) of OpenSSH 8.2 or newer does both (-Y sign, -Y verify); the format is
PROTOCOL.sshsig.  The signature lies beside the bundle, in BUNDLE.sig.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from dbcheck.base import plain, processes
from dbcheck.base.access import find_own_program
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import BundleRefused, UsageError
from dbcheck.evidence.archive import Archive
from dbcheck.evidence.staging import make_scratch_folder

NAMESPACE = "dbcheck-bundle"
_SIGNATURE_MAX = 1 << 16  # bytes; one by a key of RSA with 16,384 bits has 6 KiB
_FINGERPRINT = re.compile(r"(SHA256:[A-Za-z0-9+/=]+)")


@dataclass(frozen=True, slots=True)
class Signature:
    """A signature that is good.

    signer: whom the list of allowed signers names for the key, "" without a list.
    key:    the key's fingerprint.
    sha256: of the bytes that were signed.
    """

    signer: str
    key: str
    sha256: str


def file_of(bundle: Path) -> Path:
    """Return the path of a bundle's signature."""
    return bundle.with_name(f"{bundle.name}.sig")


def sign(bundle: Path, content: Iterable[bytes], key: Path) -> bytes:
    """Return the signature of a bundle by the private key *key*.

    The agent signs if *key* is a public one.  content: of the bundle as it was made;
    what lies in its place by now may be another's.
    Asks for a passphrase where the key has one.  Raise UsageError if it cannot sign.
    """
    done, _ = _run_ssh_keygen(["-Y", "sign", "-f", str(key), "-n", NAMESPACE], content)
    if done.returncode or not done.stdout:
        raise UsageError(
            f"{bundle} cannot be signed with {key}: {_read_message(done)}",
            id=ErrorId.SIGNING_FAILED,
            hint="Give a private key, or a public one whose other half the agent has.",
        )
    return done.stdout.encode()


def check(bundle: Archive, allowed: Path | None, signer: str) -> Signature | None:
    """Check the signature beside a bundle; None if there is none.

    allowed: who may sign, as ssh-keygen(1), ALLOWED SIGNERS; without it any key will
             do, and only shows that the bundle is what that key signed.
    signer:  the only one of them who may, "": any of them.
    Raise BundleRefused if it is not good, or missing although someone must have signed.
    """
    file = file_of(bundle.path)
    with make_scratch_folder() as folder:
        copy = folder / "signature"
        try:
            copy.write_bytes(plain.read_regular(file, _SIGNATURE_MAX))
        except FileNotFoundError:
            if allowed is None:
                return None
            raise BundleRefused(
                f"{bundle.path} is not signed: there is no {file}",
                id=ErrorId.SIGNATURE_MISSING,
                hint="Ask who made the bundle for it, and put it beside the bundle.",
            ) from None
        except OSError as error:
            raise _make_bad_signature_error(
                bundle, f"{file}: {error.strerror}"
            ) from None
        if allowed is None:
            words = ["-Y", "check-novalidate"]
        else:
            signers = _copy_signers(allowed, folder / "signers")
            signer = signer or _find_principal(copy, signers, file, allowed)
            words = ["-Y", "verify", "-f", str(signers), "-I", signer]
        words += ["-n", NAMESPACE, "-s", str(copy)]
        done, digest = _run_ssh_keygen(words, bundle.content())
        found = _FINGERPRINT.search(done.stdout)
        if done.returncode or found is None:
            raise _make_bad_signature_error(
                bundle, _read_message(done).replace(f"{folder}/", "")
            )
    return Signature(signer if allowed else "", found.group(1), digest)


def _make_bad_signature_error(bundle: Archive, why: str) -> BundleRefused:
    return BundleRefused(
        f"the signature of {bundle.path} is not good: {why}",
        id=ErrorId.SIGNATURE_NOT_GOOD,
        hint="Do not trust the bundle; ask who made it for another copy.",
    )


def _copy_signers(allowed: Path, copy: Path) -> Path:
    """Copy the list of signers, so that each question is about the same one."""
    try:
        copy.write_bytes(plain.read_regular(allowed))
    except OSError as error:
        raise UsageError(
            f"--allowed-signers: {allowed} cannot be read: {error.strerror}",
            id=ErrorId.FILE_NOT_READABLE,
            hint="Name a regular file that you may read.",
        ) from None
    return copy


def _find_principal(signature: Path, signers: Path, file: Path, allowed: Path) -> str:
    """Return the name of the signer, from the list of signers.

    signature, signers: copies of *file* and *allowed*, whose names an error gives.
    Raise BundleRefused if the list lacks the key of the signature.
    """
    words = ["-Y", "find-principals", "-s", str(signature), "-f", str(signers)]
    done, _ = _run_ssh_keygen(words)
    names = done.stdout.split()
    if done.returncode or not names:
        raise BundleRefused(
            f"{file} was made with a key that {allowed} lacks",
            id=ErrorId.SIGNER_UNKNOWN,
            hint="Compare its key with the signer's own; add it only if they agree.",
        )
    return names[0]


def _run_ssh_keygen(
    words: list[str], content: Iterable[bytes] = ()
) -> tuple[subprocess.CompletedProcess[str], str]:
    """Run ssh-keygen on *content*; return also the SHA-256 of what it was given."""
    program = find_own_program("ssh-keygen")
    if program is None:
        raise UsageError(
            "ssh-keygen is not installed, which signs and checks signatures",
            id=ErrorId.PROGRAM_MISSING,
            hint="Install the Debian package openssh-client.",
        )
    digest = hashlib.sha256()
    with subprocess.Popen(
        [program, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=processes.make_environment(),
    ) as child:
        assert child.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has refused something already
            for chunk in content:
                digest.update(chunk)
                child.stdin.write(chunk)
        out, err = (text.decode(errors="replace") for text in child.communicate())
    done = subprocess.CompletedProcess(words, child.returncode, out, err)
    return done, digest.hexdigest()


def _read_message(done: subprocess.CompletedProcess[str]) -> str:
    lines = [*done.stderr.splitlines(), *done.stdout.splitlines()]
    return next((line for line in reversed(lines) if line.strip()), "no reason given")
