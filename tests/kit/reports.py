"""A report as a person sees it, and text that attacks a terminal."""

from __future__ import annotations

import io

from rich.console import Console, RenderableType


def printed(report: RenderableType, columns: int = 400) -> str:
    """Return what a person sees of a report, on a terminal of that width."""
    file = io.StringIO()
    Console(file=file, width=columns).print(report)
    return file.getvalue()


# Clears the screen, fills the clipboard, forges a line, turns the text around; markup
# that rich refuses, a colour of its, an emoji.
EVIL = (
    "\x1b[2J\x1b]52;c;cm0gLXJmIH4=\x07\r\n PASS \x9b31m\u202e[/nope][bold]x[/]:warning:"
)


def is_harmless(text: str) -> bool:
    """Say whether a terminal does no more with *text* than to show it, in lines."""
    return not any(
        ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 for c in text.replace("\n", "")
    )
