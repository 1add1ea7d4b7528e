"""Which switch cuts which host: what a user agrees to, and what notes are about."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass

from dbcheck.model.host import Expected
from dbcheck.power.kinds.plan import NOT_AGREED_TO, PowerPlan
from dbcheck.power.scope import DriveScope


@dataclass(frozen=True, slots=True)
class Wiring:
    """A host with its server and its switch.

    name:   in the inventory; "" if flags put it together.
    target: the URL of its server.
    host:   the URL by which the host itself is asked; "" if it is not.
    scope:  the drives, if they alone lose their power.
    """

    name: str
    target: str
    host: str
    expected: Expected
    plan: PowerPlan
    scope: DriveScope | None = None

    @property
    def title(self) -> str:
        """The host as its user calls it."""
        return self.name or self.target

    def describe(self) -> str:
        """Return what a cut would do, and to which host, without any secret.

        All that fingerprint() covers is shown.
        """
        about = {"host": self.name, "server": self.target, "reached at": self.host}
        about |= {f"expected {key}": value for key, value in self._expected.items()}
        shown = ", ".join(f"{key} {value}" for key, value in about.items() if value)
        done = self.plan.describe(self.host)
        if self.scope is not None:
            done += f": that is to {self.scope.describe()}"
        return f"{done}. The target: {shown}"

    def fingerprint(self) -> str:
        """Return a digest that identifies this switch of this host."""
        plan = {k: v for k, v in asdict(self.plan).items() if k not in NOT_AGREED_TO}
        about = (self.name, self.target, self.host, self._expected)
        scope = (asdict(self.scope),) if self.scope is not None else ()
        agreed = (*about, self.plan.kind.value, plan, *scope)
        return hashlib.sha256(json.dumps(agreed, sort_keys=True).encode()).hexdigest()

    @property
    def _expected(self) -> dict[str, str]:
        return asdict(self.expected)
