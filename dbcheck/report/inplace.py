"""What draws something in place on a terminal, below the lines that it writes."""

from __future__ import annotations

import contextlib
from collections.abc import Set
from types import TracebackType
from typing import Self

from rich.console import Console, RenderableType
from rich.live import Live

from dbcheck.ports.listener import Phase
from dbcheck.report.progress import PlainProgress


class InPlace(PlainProgress):
    """Draws what _draw() returns, so many times a second."""

    def __init__(
        self, console: Console, only: Set[Phase] | None = None, per_second: int = 8
    ) -> None:
        super().__init__(console, only)
        self._live = Live(
            console=console, refresh_per_second=per_second, transient=True
        )
        self._live.get_renderable = self._draw  # type: ignore[method-assign]

    def _draw(self) -> RenderableType:
        raise NotImplementedError

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with contextlib.suppress(OSError):
            self._live.stop()
