"""Calls of objects in another of a lab's processes: methods by name, values as JSON.

A class marks with remote() which of its methods other processes may call.  A caller
names the method itself, so that its parameters and its result are checked twice: by the
type checker where it is called, by msgspec where it arrives.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar, get_type_hints

import msgspec

from dbcheck.base.decoding import UNDECODABLE, decode_json
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import DbcheckError, LabError

T = TypeVar("T")
P = ParamSpec("P")
F = TypeVar("F", bound=Callable[..., Any])
Method = Callable[Concatenate[Any, P], T]
_TIMEOUT_ATTRIBUTE = "_remote_timeout_s"


class Call(msgspec.Struct, forbid_unknown_fields=True):
    """One call: the name of a method, and its arguments by the names of parameters."""

    method: str
    values: msgspec.Raw = msgspec.Raw(b"{}")


class Reply(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The reply to a call: its result, or its error.

    ok:    the result, "null" if there is none.
    error: the error's message, "" if the call succeeded.
    hint:  what to do about the error.
    id:    the id of the error's cause.
    """

    ok: msgspec.Raw = msgspec.Raw(b"null")
    error: str = ""
    hint: str = ""
    id: ErrorId = ErrorId.VIRTUAL_DRIVE_REFUSED


class NotUnderstood(Exception):
    """A call or a reply that no process of this version sends."""


def remote(timeout_s: float) -> Callable[[F], F]:
    """Mark a method as callable by other processes, which wait timeout_s for it."""

    def mark(method: F) -> F:
        setattr(method, _TIMEOUT_ATTRIBUTE, timeout_s)
        return method

    return mark


def time_limit_s(method: Callable[..., object]) -> float:
    """Return the time that a caller waits for a method, in seconds."""
    return float(getattr(method, _TIMEOUT_ATTRIBUTE))


def encode_call(method: Method[P, object], *args: P.args, **named: P.kwargs) -> bytes:
    """Return a call of *method* as a message."""
    bound = inspect.signature(method).bind(None, *args, **named).arguments
    values = dict(list(bound.items())[1:])  # without self
    return msgspec.json.encode({"method": method.__name__, "values": values})


def decode_result(method: Method[P, T], message: bytes) -> T:
    """Return the result of a call of *method* from the reply *message*.

    Raise LabError with the error that the reply reports, and NotUnderstood for a
    message that is no such reply.
    """
    result: T = decode_result_as(message, _read_type_hints(method)["return"])
    return result


def decode_result_as(message: bytes, kind: Any) -> Any:
    """Return the result, which must be a *kind*; raise as decode_result() does."""
    try:
        reply = decode_json(message, Reply)
        if not reply.error:
            return decode_json(reply.ok, kind)
    except UNDECODABLE:
        raise NotUnderstood from None
    raise LabError(reply.error, id=reply.id, hint=reply.hint)


class Callee:
    """An object whose methods other processes may call, as *interface* marks them."""

    def __init__(self, interface: type[Any], target: object) -> None:
        self._target = target
        self._argument_types = {
            name: _make_arguments_type(method)
            for name, method in vars(interface).items()
            if hasattr(method, _TIMEOUT_ATTRIBUTE)
        }

    def call_in(self, message: bytes) -> tuple[str, Callable[[], object]]:
        """Return the name of the method that a message calls, and the call itself.

        Raise NotUnderstood, with the reason, if it is no call of a marked method.
        """
        try:
            call = decode_json(message, Call)
            if call.method not in self._argument_types:
                raise NotUnderstood(f"nothing is called {call.method!r}")
            values = decode_json(call.values, self._argument_types[call.method])
        except UNDECODABLE as error:
            raise NotUnderstood(str(error)) from None
        method = getattr(self._target, call.method)
        return call.method, functools.partial(method, **msgspec.structs.asdict(values))


def encode_success(result: object) -> bytes:
    """Return *result* as a reply."""
    return msgspec.json.encode(Reply(ok=msgspec.Raw(msgspec.json.encode(result))))


def encode_failure(error: DbcheckError) -> bytes:
    """Return *error* as a reply."""
    text = str(error) or type(error).__name__
    return msgspec.json.encode(Reply(error=text, hint=error.hint, id=error.id))


def _make_arguments_type(method: Callable[..., object]) -> type[msgspec.Struct]:
    """Return a type with a field for each parameter of *method*, but for self."""
    hints = _read_type_hints(method)
    parameters = list(inspect.signature(method).parameters.values())[1:]
    fields: list[Any] = [
        (parameter.name, hints[parameter.name])
        if parameter.default is parameter.empty
        else (parameter.name, hints[parameter.name], parameter.default)
        for parameter in parameters
    ]
    return msgspec.defstruct(
        method.__name__, fields, forbid_unknown_fields=True, kw_only=True
    )


@functools.cache
def _read_type_hints(method: Callable[..., object]) -> dict[str, Any]:
    hints = get_type_hints(method)
    return {name: type(None) if kind is None else kind for name, kind in hints.items()}
