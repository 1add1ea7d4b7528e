"""The client's key to one run: it shows what a witness has changed.

A witness keeps copies of what the client knows of a run: the manifest, and the record
of the load.  Before the load the client draws a key, which never leaves its machine; in
a fleet the worker that runs the campaign draws it, and sends it to the client.  It lies
in the run folder, and a copy in the user's state folder outlives the run folder:

    client.key                                        in the run folder
    $XDG_STATE_HOME/dbcheck/runs/RUN_ID.json          else under ~/.local/state

The key is stored with the SHA-256 of the manifest.  The record of the load, which is
written when nothing can be stored safely any more, is left with the witness under a
seal, an HMAC-SHA256 (RFC 2104).

The copy in the state folder also shows which run folders are the user's own: any folder
may have a client.key, and a manifest that names a server, but only the user can write
to the state folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
import shlex
from dataclasses import dataclass, field
from pathlib import Path

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import RunFormatError, WitnessError
from dbcheck.base.system import sync
from dbcheck.runs import stored
from dbcheck.runs.stored import state_folder

KEY_BYTES = 32
FILE = "client.key"  # the name of the key's file in the run folder
_FILE_BYTES_MAX = 1 << 16


@dataclass(frozen=True, slots=True)
class ClientKey:
    """The key and digests by which a run's client recognises its own records.

    secret: KEY_BYTES random bytes, in hex.
    manifest_sha256: of the manifest as it was stored on the witness, in hex.
    """

    run_id: str
    secret: str = field(repr=False)
    manifest_sha256: str

    @classmethod
    def draw(cls, run_id: str, manifest: bytes) -> ClientKey:
        """Return a new key for the run of *manifest*."""
        digest = hashlib.sha256(manifest).hexdigest()
        return cls(run_id, secrets.token_hex(KEY_BYTES), digest)

    def is_of(self, manifest: bytes) -> bool:
        """Return True if *manifest* is what the client stored."""
        return hashlib.sha256(manifest).hexdigest() == self.manifest_sha256

    def seal(self, record: bytes) -> str:
        """Return the seal of the run's record of the load, in hex."""
        text = b"\0".join((b"dbcheck load record", self.run_id.encode(), record))
        return hmac.new(bytes.fromhex(self.secret), text, hashlib.sha256).hexdigest()

    def fits(self, record: bytes, seal: object) -> bool:
        """Return True if *seal*, of any type, is that of *record*."""
        given = seal.encode(errors="replace") if isinstance(seal, str) else b""
        return hmac.compare_digest(self.seal(record).encode(), given)

    def write(self, path: Path) -> None:
        """Store the key as a new file for this user alone; raise RunWriteError."""
        with (
            stored.translate_write_errors(path.parent),
            stored.open_private(path, "xb") as file,
        ):
            try:
                file.write(stored.to_bytes(self))
                file.flush()
                sync(file.fileno())
            except BaseException:
                # With a partial key the run is refused; without a key it is judged.
                path.unlink()
                raise

    @classmethod
    def read(cls, path: Path) -> ClientKey | None:
        """Read a stored key; None if there is none.

        Raise RunFormatError if it is damaged, or if another user may have written it.
        """
        try:
            file = stored.open_private(path, "rb")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise stored.unreadable_record_error(path, error) from None
        with file:
            if os.fstat(file.fileno()).st_mode & 0o077:
                raise RunFormatError(
                    f"others may read {path}, which must be private",
                    id=ErrorId.SECRET_FILE_NOT_PRIVATE,
                    hint=f"Find out who changed that; then run: chmod 600"
                    f" {shlex.quote(str(path))}",
                )
            key = stored.from_bytes(file.read(_FILE_BYTES_MAX), cls, str(path))
        if len(key.secret) != 2 * KEY_BYTES or set(key.secret) - set(
            "0123456789abcdef"
        ):
            raise stored.damaged_record_error(str(path), "it holds no key")
        return key


def remember(key: ClientKey) -> None:
    """Store a copy of *key* outside of the run folder, in case that is lost.

    Raise RunWriteError if that fails.
    """
    path = _key_path(key.run_id)
    stored.make_folder(path.parent)
    key.write(path)


def recall(run_id: str) -> ClientKey | None:
    """Return the key of a run of this user, None if none can be found here.

    Raise RunFormatError as ClientKey.read() does.
    """
    path = _key_path(run_id)
    # The folder may be another user's: root may have made it.
    if not os.access(path.parent, os.X_OK):
        return None
    try:
        return ClientKey.read(path)
    except RunFormatError as error:
        if error.id in (ErrorId.RECORD_DAMAGED, ErrorId.RECORD_UNREADABLE):
            error.hint = (
                f"Without {path} the run can be judged, but only on what the witness"
                " says: remove it if it is damaged."
            )
        raise


def forget(run_id: str) -> None:
    """Delete what remember() kept of a key; raise RunWriteError if that fails."""
    path = _key_path(run_id)
    if os.access(path.parent, os.X_OK):
        with (
            stored.translate_write_errors(path.parent),
            contextlib.suppress(FileNotFoundError),
        ):
            path.unlink()


def is_own(run_id: str, manifest: bytes) -> bool:
    """Return True if this user's client made the run, with this very manifest."""
    try:
        key = recall(run_id)
    except RunFormatError:
        return False
    return key is not None and key.is_of(manifest)


def find_key_folder() -> Path:
    """Return the folder of the keys of this user's runs."""
    return state_folder("runs")


def _key_path(run_id: str) -> Path:
    return find_key_folder() / f"{run_id}.json"


def changed_record_error(what: str, run_id: str) -> WitnessError:
    """Return the error of a witness that holds another *what* than was left there."""
    return WitnessError(
        f"the witness's copy of the {what} of run {run_id} is not what this client left"
        " there",
        id=ErrorId.WITNESS_COPY_CHANGED,
        hint="Somebody changed it on the witness, or another client made that run; "
        "nothing the witness holds of it can be judged.",
    )
