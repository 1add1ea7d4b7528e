"""Protocol of each kind of power switch; each docstring is the contract."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import Field
from typing import Any, ClassVar, Protocol, Self, TypeVar

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.config.secret import Secret
from dbcheck.hosts.host import TargetHost
from dbcheck.model.cut import CutClass, SwitchKind
from dbcheck.ports.power import PowerSwitch

T = TypeVar("T")
# The fields of a config that do not change what is done to the host: how long dbcheck
# waits for the switch, and what its user declares that it cuts.
NOT_AGREED_TO = frozenset({"timeout_s", "declared"})


class Fields(Protocol):
    """The variables of one host; each method raises UsageError naming place and key.

    Their names are whole, e.g. "dbcheck_power_cut".
    """

    def read(
        self,
        kind: type[T],
        prefix: str,
        *,
        given: Mapping[str, Any] = ...,
        keys: Mapping[str, str] = ...,
    ) -> T:
        """Return the dataclass whose fields are variables that begin with *prefix*.

        given: fields that the caller gives, without a variable.  keys: field -> the
        rest of its variable's name, if that differs.
        """

    def value(self, name: str, type_: Any, default: Any) -> Any:
        """Return the variable *name* as a *type_*; *default* if it is absent."""

    def secret(self, name: str) -> Secret | None:
        """Return the source of the secret *name*, None if it has none."""

    def options(self, name: str) -> tuple[dict[str, str], dict[str, Secret]]:
        """Return the options in the mapping *name*, and the secrets in it."""

    def error(self, name: str, what: str, *, id: ErrorId, hint: str) -> UsageError:
        """Return the error about the variable *name*."""


class SwitchConfig(Protocol):
    """The way to cut and restore the power of one target, as its user gave it.

    A frozen dataclass of plain values, so another process can use it.  Its fields are
    variables of an inventory (see shared.list_variables()), with their ranges.  Each
    field that is not in NOT_AGREED_TO is part of what a user agrees to before the first
    cut, and describe() shows it.

    attended:   a human cuts and restores.
    guarded:    the interlocks and the user's consent come before a cut.
    needs_host: open() needs the target's host.
    shows_state: the switch can read whether the power is on.
    timeout_s:  seconds that one call of the switch may take, and that the state which
                it leads to may need to come.
    """

    kind: ClassVar[SwitchKind]
    attended: ClassVar[bool]
    guarded: ClassVar[bool]
    needs_host: ClassVar[bool]

    @property
    def shows_state(self) -> bool: ...

    @property
    def timeout_s(self) -> float: ...

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @classmethod
    def read(cls, fields: Fields) -> Self:
        """Return the config that *fields* hold; raise UsageError naming the key."""

    @property
    def cut_class(self) -> CutClass:
        """The class of the switch's cuts; raise UsageError if another is declared."""

    @property
    def class_assumed(self) -> bool:
        """True if cut_class is assumed: nothing shows it, and no user declares it."""

    @property
    def returns_by_itself(self) -> bool:
        """True if the power comes back without restore(), or never goes."""

    def restore_command(self, own_command: tuple[str, ...]) -> tuple[str, ...]:
        """Return the command by which a user restores the power, () if there is none.

        own_command: dbcheck's, for this host; () if no inventory names the host.
        """

    def describe(self, host: str) -> str:
        """Return a cut and a restore in words, to come after "dbcheck would".

        It names each program and option, and the source of each secret.
        host: the URL of the target's host, "" if it is not to be asked.
        """

    def outlet(self) -> Hashable | None:
        """Return the outlet, which may belong to one host only; None if not known."""

    def open(self, host: TargetHost | None, ask: Callable[[str], None]) -> PowerSwitch:
        """Return the switch; raise UsageError or PowerError if it cannot be one.

        host: of the target, None if it is not to be asked.  ask: shows a text to the
        human who cuts.
        """
