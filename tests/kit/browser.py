"""A real browser that opens one page, and everything that it complains about."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# Debian's Chromium, with nothing of its own on the network.
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update"),
    "--disable-sync",
)
DESKTOP, PHONE = {"width": 1100, "height": 900}, {"width": 390, "height": 844}
PRINTED = {"width": 688, "height": 1000}  # A4 without its margins, at 96 dpi


def missing() -> str:
    """Return what is missing for a browser, "" if nothing is."""
    if shutil.which("chromium") is None:
        return "no Chromium: as root, apt-get install chromium"
    try:
        import axe_playwright_python
        import playwright
    except ImportError:
        return "no Playwright: make pages"
    assert axe_playwright_python
    assert playwright
    return ""


@contextlib.contextmanager
def browser() -> Iterator[Any]:
    """Start Chromium, and end it."""
    if lacking := missing():
        pytest.skip(lacking)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=list(FLAGS)
        )
        try:
            yield chromium
        finally:
            chromium.close()


class Seen:
    """One page in one window, and what went wrong with it.

    complaints: of the console, of scripts, of dialogs, and each request for anything
    but the page.
    """

    def __init__(self, chromium: Any, file: Path, **context: Any) -> None:
        self.complaints: list[str] = []
        self._context = chromium.new_context(**context)
        self.page = self._context.new_page()
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", self._asked)
        self.page.on("request", self._requested)
        self._file = file.resolve().as_uri()
        self.page.goto(self._file)

    def require_readable(self) -> None:
        """Fail if something went wrong, is hard to read, or does not fit the window."""
        assert self.complaints == []
        assert self.violations == []
        assert self.overflow == []

    def _said(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text}")

    def _asked(self, dialog: Any) -> None:
        self.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _requested(self, request: Any) -> None:
        if request.url != self._file and not request.url.startswith("data:"):
            self.complaints.append(f"request: {request.url}")

    def close(self) -> None:
        self._context.close()

    @property
    def overflow(self) -> list[str]:
        """What is wider than the window it is in, for nobody to scroll."""
        found: list[str] = self.page.evaluate(_OVERFLOW)
        return found

    @property
    def violations(self) -> list[str]:
        """What axe-core finds: rule and the elements."""
        from axe_playwright_python.sync_playwright import Axe

        found = Axe().run(self.page).response["violations"]
        return [
            f"{one['id']}: {', '.join(str(node['target']) for node in one['nodes'])}"
            for one in found
        ]


_OVERFLOW = """() => {
  const wide = document.documentElement;
  const found = wide.scrollWidth > wide.clientWidth ? ["page"] : [];
  const print = matchMedia("print").matches;
  for (const one of document.querySelectorAll(".scroll, figure, .box, td, li, code")) {
    const scrolls = getComputedStyle(one).overflowX === "auto";
    if (one.scrollWidth > one.clientWidth + 1 && one.clientWidth && (print || !scrolls))
      found.push(`${one.tagName} ${one.className}: ${one.textContent.slice(0, 60)}`);
  }
  return found;
}"""
