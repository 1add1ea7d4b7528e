"""Promotes a node of a cluster by a program of the user's."""

from __future__ import annotations

from collections.abc import Sequence

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, PowerError
from dbcheck.ports.site import Node
from dbcheck.power.kinds.command import run, shown


class PromotionProgram:
    """Runs one program, without a shell, with the name of the node as last argument.

    Its arguments may hold no secret: they are shown in errors and by ps(1).
    """

    def __init__(self, command: Sequence[str], timeout_s: float) -> None:
        self._command, self._timeout_s = command, timeout_s

    def promote(self, name: str, _node: Node) -> None:
        """Run it for the node *name*; raise EngineError unless it exits with 0."""
        command = (*self._command, name)
        try:
            done = run(command, "promotion command", self._timeout_s)
        except PowerError as error:
            raise EngineError(str(error), id=error.id, hint=error.hint) from None
        if done.code:
            raise EngineError(
                f"the promotion command `{shown(command)}` ended with {done.code}; its"
                f" output: {done.output_tail}",
                id=ErrorId.PROMOTION_COMMAND_FAILED,
                hint="It must promote the node that is its last argument.",
            )
