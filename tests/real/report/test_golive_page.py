"""The page of a go-live check in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dbcheck.model.verdict import Verdict
from dbcheck.report.html.page import format_golive_page
from tests.kit.browser import DESKTOP, PHONE, PRINTED, Seen, browser
from tests.kit.golives import golive_result
from tests.kit.subjects import MARKUP

pytestmark = pytest.mark.wide
LONG = "x" * 300  # a text that no line can break at a blank


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as started:
        yield started


@pytest.mark.parametrize("verdict", list(Verdict))
@pytest.mark.parametrize("text", ["", f"{MARKUP} {LONG}"], ids=["plain", "hostile"])
@pytest.mark.parametrize(
    ("size", "scheme"), [(DESKTOP, "light"), (DESKTOP, "dark"), (PHONE, "dark")]
)
def test_it_can_be_read_by_everyone(
    chromium: Any, tmp_path: Path, verdict: Verdict, text: str, size: Any, scheme: str
) -> None:
    file = tmp_path / "golive.html"
    file.write_text(format_golive_page(golive_result(text, verdict)))
    seen = Seen(chromium, file, viewport=size, color_scheme=scheme)
    try:
        seen.require_readable()
    finally:
        seen.close()


def test_it_prints_with_its_lines_to_sign(chromium: Any, tmp_path: Path) -> None:
    file = tmp_path / "golive.html"
    file.write_text(format_golive_page(golive_result("")))
    seen = Seen(chromium, file, viewport=PRINTED, color_scheme="dark")
    try:
        seen.page.emulate_media(media="print")
        assert seen.overflow == []
        assert seen.page.locator(".sign td").first.bounding_box()["height"] >= 40
    finally:
        seen.close()
