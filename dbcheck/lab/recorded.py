"""Facts that a lab which replays recordings shares with the lab that made them."""

from __future__ import annotations

from pathlib import Path
from typing import Self

import msgspec

from dbcheck.base import plain
from dbcheck.base.decoding import UNDECODABLE, decode_json
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError, UsageError
from dbcheck.lab.drive.recording import RECORD_ANEW
from dbcheck.lab.namespace import BASE
from dbcheck.lab.spec import LabSpec
from dbcheck.runs.stored import open_private

_FILE = "lab.json"


def require_version(found: str, recorded: str) -> None:
    """Raise LabError unless a server is of the version with which it was recorded."""
    if found != recorded:
        raise LabError(
            f"the load was recorded on {recorded}, and this machine has {found}",
            id=ErrorId.RECORDED_ON_OTHER_VERSION,
            hint="Install that version. DBCHECK_POSTGRES or DBCHECK_MYSQLD can name a"
            " PostgreSQL or MySQL that is not installed.",
        )


class RecordedLab(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One lab whose drives were recorded.

    spec:     in JSON, see LabSpec.
    server:   what its program printed as its version: another may not start on its
              data, which would look like damage.
    base:     the path of its storage, in namespace.BASE: servers note paths in their
              data.
    password: the server's, which means nothing outside of such a lab.
    """

    spec: str
    server: str
    base: str
    password: str

    def __post_init__(self) -> None:
        """Refuse a path at which no lab that records has its storage.

        What is there is made, mounted on and given to the server's account.
        """
        base = Path(self.base)
        if base.parent != BASE or not base.name.strip(".") or str(base) != self.base:
            raise ValueError(f"no lab has its storage in {self.base!r}")
        try:
            LabSpec.from_json(self.spec)
        except (LookupError, AttributeError, RecursionError, UsageError) as error:
            raise ValueError(f"it describes no lab: {error}") from None

    def require_server(self, found: str) -> None:
        """Raise LabError unless *found*, printed by a program, is the version."""
        require_version(found, self.server)

    def write(self, folder: Path) -> None:
        """Store it beside the recordings; raise LabError."""
        try:
            with open_private(folder / _FILE, "xb") as file:
                file.write(msgspec.json.encode(self))
        except OSError as error:
            raise LabError(
                f"cannot write {folder / _FILE}: {error.strerror}",
                id=ErrorId.FILE_NOT_WRITABLE,
                hint="Make room there, or name another folder.",
            ) from None

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read it; raise LabError if it is not there or damaged."""
        path = folder / _FILE
        try:
            return decode_json(plain.read_regular(path), cls)
        except (OSError, *UNDECODABLE) as error:
            raise LabError(
                f"{path} cannot be read: {error}",
                id=ErrorId.RECORDING_NOT_USABLE,
                hint=RECORD_ANEW,
            ) from None
