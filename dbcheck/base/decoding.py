"""Decodes plain values and JSON into classes by msgspec, in any thread.

msgspec describes a class to itself when it first decodes into it, and keeps that on the
class.  Two threads that begin this at once crash the interpreter (seen with msgspec
0.22.0 on Python 3.11; tests/real/base/test_decoding_threads.py shows it), although its
maintainers mean it to be thread-safe (https://github.com/msgspec/msgspec/issues/401).

Campaigns on several targets, replies of agents and the lab's calls are decoded in
threads, so all of dbcheck decodes here, one thread at a time.  msgspec keeps the
interpreter's lock while it decodes, so that costs no time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

# What convert() and decode_json() raise for content that is damaged or from elsewhere:
# not JSON, not of that class, text that is not Unicode, or nested too deeply.
UNDECODABLE = (msgspec.MsgspecError, UnicodeError, RecursionError)

T = TypeVar("T")

# Reentrant, since a hook may decode a part of the value itself.
_LOCK = threading.RLock()


def convert(
    value: object,
    kind: type[T],
    *,
    strict: bool = True,
    str_keys: bool = False,
    dec_hook: Callable[[type, Any], Any] | None = None,
) -> T:
    """Return *value*, of plain types, as a *kind*.

    The options are those of msgspec.convert(): *strict* takes no string for a number,
    *str_keys* takes the string keys of JSON for numbers and dates, and *dec_hook*
    converts to types that msgspec does not know.  Raise one of UNDECODABLE.
    """
    with _LOCK:
        return msgspec.convert(
            value, kind, strict=strict, str_keys=str_keys, dec_hook=dec_hook
        )


def decode_json(content: bytes | str, kind: type[T]) -> T:
    """Return the JSON in *content* as a *kind*.

    *content* is one document.  A field that *kind* does not have is passed over, unless
    the class forbids it.  Raise one of UNDECODABLE.
    """
    with _LOCK:
        return msgspec.json.decode(content, type=kind)


def decode_json_lines(content: bytes, kind: type[T]) -> list[T]:
    """Return each line of *content*, one document of JSON, as a *kind*.

    Raise one of UNDECODABLE, for an empty line as well.
    """
    with _LOCK:
        decoder = msgspec.json.Decoder(kind)
        return [decoder.decode(line) for line in content.splitlines()]
