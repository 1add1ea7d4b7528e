"""Which settings of the writer contradict what its cluster promises."""

from __future__ import annotations

from collections.abc import Mapping

from dbcheck.core.promise import Promise

# PostgreSQL 17 manual, 19.5.1, synchronous_commit.
_NOT_AWAITED = ("off", "local")
_NOT_FLUSHED = "remote_write"


def contradiction(promise: Promise, settings: Mapping[str, str]) -> str:
    """Return why *settings* do not keep the promise, "" if nothing shows that.

    settings: of PostgreSQL, as the writer's sessions have them.
    """
    if promise.writer_returns:
        return ""
    commits = settings.get("synchronous_commit", "")
    if commits in _NOT_AWAITED:
        return (
            f"synchronous_commit = {commits}: a commit is answered before any standby"
            " has it"
        )
    if not settings.get("synchronous_standby_names", ""):
        return (
            "synchronous_standby_names is empty: a commit is answered before any"
            " standby has it"
        )
    if promise.cuts_all and commits == _NOT_FLUSHED:
        return (
            f"synchronous_commit = {commits}: a commit is answered before a standby has"
            " flushed it"
        )
    return ""
