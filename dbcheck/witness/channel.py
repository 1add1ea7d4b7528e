"""The client's side of the protocol that agent/witness.py speaks."""

from __future__ import annotations

from collections.abc import Mapping

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import WitnessError
from dbcheck.remote.channel import AgentProtocol, Channel, Pipe, program

# Of the agent's program.
PARTS = ("dbcheck.base.owners", "dbcheck.agent.witness_folders")
PROGRAM = program("dbcheck.agent.witness", *PARTS)
REFUSALS: Mapping[str, tuple[ErrorId, str]] = {
    "ENOSPC": (
        ErrorId.WITNESS_DISK_FULL,
        "Make room in the witness's folder; what was confirmed is kept.",
    ),
    "EDQUOT": (
        ErrorId.WITNESS_QUOTA_USED,
        "Raise the quota on the witness; what was confirmed is kept.",
    ),
    "EIO": (
        ErrorId.WITNESS_DISK_FAILS,
        "The witness's disk fails, or its filesystem has become read-only; see its "
        "kernel log. Use another witness.",
    ),
    "EROFS": (
        ErrorId.WITNESS_FILESYSTEM_READ_ONLY,
        "Its filesystem is mounted read-only, or became so after an error: see "
        "the witness's kernel log. Name another folder.",
    ),
    "EACCES": (
        ErrorId.WITNESS_FOLDER_NOT_WRITABLE,
        "Name a folder on the witness that its user may write.",
    ),
    "EPERM": (
        ErrorId.WITNESS_FOLDER_NOT_WRITABLE,
        "Name a folder on the witness that its user may write.",
    ),
    "ENOTDIR": (
        ErrorId.WITNESS_FOLDER_IS_FILE,
        "Name a folder, not a file, on the witness.",
    ),
    "volatile": (
        ErrorId.WITNESS_FOLDER_IN_MEMORY,
        "Name a folder on a disk; a folder in memory is lost with the power.",
    ),
    "not-own": (
        ErrorId.WITNESS_FOLDER_OPEN_TO_OTHERS,
        "Name a folder in the home of the user who logs in there, e.g. "
        "ssh://me@witness/~/dbcheck, or fix this one (chown, chmod go-w).",
    ),
    "no-user": (
        ErrorId.WITNESS_URL_INVALID,
        "Name a folder in the home of a user of the witness, as /~/folder.",
    ),
    "exists": (
        ErrorId.WITNESS_LOG_EXISTS,
        "Each run needs a new id, and each process of a load a new log.",
    ),
    "no-log": (
        ErrorId.WITNESS_LOG_UNKNOWN,
        "The run's manifest says how many logs it has.",
    ),
    "in-use": (
        ErrorId.WITNESS_IN_USE,
        "Wait until that run is over, or end its client; if the client is lost, "
        "end its agent on the witness.",
    ),
    "no-run": (
        ErrorId.RUN_NOT_ON_WITNESS,
        "`dbcheck witness show --witness URL` lists the runs that are there.",
    ),
    "strangers": (
        ErrorId.FOLDER_HOLDS_OTHER_FILES,
        "Check that folder by hand; dbcheck deletes only its own files.",
    ),
}
_PROTOCOL = AgentProtocol(
    program=PROGRAM,
    who="witness",
    failure=WitnessError,
    refusals=REFUSALS,
    ended_hint="Check that host; acks that it had confirmed are safe there.",
)


def open_channel(pipe: Pipe, place: str) -> Channel:
    """Send the agent its program; raise WitnessError unless it answers."""
    return Channel(pipe, place, _PROTOCOL)
