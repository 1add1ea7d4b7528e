"""What can be claimed of a managed service, whose hosts are its provider's alone."""

from __future__ import annotations

from dbcheck.error_ids import ErrorId
from dbcheck.errors import UsageError
from dbcheck.model.cut import CutClass
from dbcheck.model.managed import SERVICE
from dbcheck.model.server import ServerFacts
from dbcheck.ports.site import Node


def require_failover(node: Node, server: ServerFacts) -> None:
    """Raise UsageError if what is declared of a managed service cannot be true.

    Nothing of its host can be asked, and no switch cuts the power of that.
    """
    service = server.settings.get(SERVICE, "")
    if not service:
        return
    if node.host is not None:
        raise UsageError(
            f"{node.engine.target} is a server of {service}: no host of it can be"
            " asked, so one that is named is another",
            id=ErrorId.MANAGED_SERVICE_HAS_NO_HOST,
            hint="Leave out --target-host, or set dbcheck_ask_host: false. A managed"
            " service can be tested by a forced failover, which shows no depth.",
        )
    declared = node.power.cut_class
    if declared is not CutClass.FAILOVER:
        raise UsageError(
            f"{node.engine.target} is a server of {service}, whose power only the"
            f" provider can cut: a cut of class {declared.value!r} is not possible",
            id=ErrorId.MANAGED_SERVICE_NEEDS_FAILOVER,
            hint="Use programs that force a failover (dbcheck_power: exec), and declare"
            f" it: --power-class {CutClass.FAILOVER.value}, or dbcheck_power_class."
            " docs/guides/cloud.md shows them.",
        )
