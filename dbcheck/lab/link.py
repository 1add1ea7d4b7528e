"""The network between servers and clients of a lab: one process for each link."""

from __future__ import annotations

import contextlib
import select
import subprocess

from dbcheck.base import processes
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError

_ANSWER_S = 30.0
_END_S = 5.0
_ANEW = "End the lab and start a new one."


class Link:
    """A way to a server on 127.0.0.1 that can be taken down, and made slow.

    port: where it begins; see lead_to() for where it ends.
    """

    def __init__(
        self, delay_ms: float = 0.0, *, port: int = 0, network: int | None = None
    ) -> None:
        """Start it; raise LabError if it does not answer.

        port: 0 for any free one.  network: an open network namespace in which it ends.
        """
        into = [] if network is None else [network]
        self._process = subprocess.Popen(
            processes.make_module_command(
                "dbcheck.lab.relay", str(port), *map(str, into)
            ),
            pass_fds=into,
            env=processes.make_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            self.port = int(self._answer())
            if delay_ms:
                self._ask(f"delay {delay_ms:g}")
        except BaseException:
            self.close()
            raise

    def lead_to(self, port: int) -> None:
        """Have what connects from now on reach that port."""
        self._ask(f"to {port}")

    def take_down(self) -> None:
        """Pass nothing on from now on; what comes meanwhile waits."""
        self._ask("down")

    def bring_up(self) -> None:
        """Pass on again what comes, and what has waited."""
        self._ask("up")

    def close(self) -> None:
        """End it; never raises.  Idempotent."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _ask(self, command: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{command}\n".encode())
            self._process.stdin.flush()
        except OSError as error:
            raise LabError(
                f"a link of the lab is gone: {error.strerror}",
                id=ErrorId.LAB_LINK_GONE,
                hint=_ANEW,
            ) from None
        self._answer()

    def _answer(self) -> str:
        output = self._process.stdout
        assert output is not None
        if not select.select([output], [], [], _ANSWER_S)[0]:
            raise LabError(
                f"a link of the lab does not answer within {_ANSWER_S:g} s",
                id=ErrorId.LAB_LINK_GONE,
                hint=_ANEW,
            )
        if not (line := output.readline()):
            raise LabError(
                "a link of the lab has ended", id=ErrorId.LAB_LINK_GONE, hint=_ANEW
            )
        return line.decode().strip()
