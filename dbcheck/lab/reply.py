"""What a lab's processes answer one another: a result as JSON, or why there is none."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError

T = TypeVar("T")


class Reply(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """ok: the result, "null" if there is nothing to report; error: "" if there is one.

    hint: what to do about the error.  id: of its cause; the process of a drive, which
    imports little, sends none.
    """

    ok: msgspec.Raw = msgspec.Raw(b"null")
    error: str = ""
    hint: str = ""
    id: ErrorId = ErrorId.VIRTUAL_DRIVE_REFUSED


class NotUnderstood(Exception):
    """A reply that no process of this version sends."""


def result_in(message: bytes, kind: type[T]) -> T:
    """Return the result, which must be a *kind*.

    Raise LabError with the error that the reply reports, and NotUnderstood.
    """
    try:
        reply = msgspec.json.decode(message, type=Reply)
        if not reply.error:
            return msgspec.json.decode(reply.ok, type=kind)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise NotUnderstood from None
    raise LabError(reply.error, id=reply.id, hint=reply.hint)
