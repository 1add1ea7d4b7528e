"""The pages of dbcheck report in a real browser."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbcheck.campaign.compare import compare_folders
from dbcheck.cli.report import read_result
from dbcheck.judge.results import CampaignsResult
from dbcheck.model.verdict import CycleVerdict, Verdict
from dbcheck.report.formats import format_report
from dbcheck.report.html.page import as_html
from dbcheck.report.rows import Line, make_matrix_result
from dbcheck.report.subject import RunSubject, Subject
from dbcheck.witness.log import FrameLogReader
from tests.kit.browser import DESKTOP, PHONE, PRINTED, Seen, browser
from tests.kit.explored_results import LOST
from tests.kit.poisoned_reports import poisoned_campaign
from tests.kit.reports import CLUSTER, run_result
from tests.kit.subjects import MARKUP, poisoned_subjects
from tests.runs import make

pytestmark = pytest.mark.wide

STORED = Path(make.__file__).parent
RUNS = ("postgresql-lying", "mariadb-pass", "orders-pass", "unrecoverable")
NAMES = (
    *RUNS,
    "damaged",
    "campaign",
    "campaigns",
    "matrix",
    "explore",
    "compare",
    "cluster",
)
EVIL = ("evil run", "evil campaign", "evil matrix", "evil explore")
LONG = "x" * 300  # a text that no line can break at a blank


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as started:
        yield started


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The file of each page by its name."""
    folder = tmp_path_factory.mktemp("pages")
    found = {}
    for name, subject in subjects(folder).items():
        found[name] = folder / f"{name}.html"
        found[name].write_text(as_html(subject))
    return found


def subjects(folder: Path) -> dict[str, Subject]:
    found: dict[str, Subject] = {}
    for name in RUNS:
        run = shutil.copytree(STORED / name, folder / "runs" / name)
        found[name] = read_result(run)
    run = shutil.copytree(STORED / "mariadb-pass", folder / "runs" / "damaged")
    log = run / "acks.log"
    log.write_bytes(log.read_bytes()[:-40] + bytes(40))
    found["damaged"] = read_result(run)
    lossy, kept = (folder / "runs" / name for name in RUNS[:2])
    found["compare"] = compare_folders(kept, lossy, FrameLogReader())
    found["campaign"] = campaigns(1)
    found["campaigns"] = campaigns(2)
    rows = [
        Line("a=1", "50/s", Verdict.PASS, 9.0, [run_result({"load": LOAD})], ""),
        Line("a=2", "", None, 9.0, [run_result({"verdict": "FAIL"})], ""),
        Line("a=3", "", None, None, [], "it did not start"),
    ]
    found["explore"] = LOST
    found["cluster"] = RunSubject(run_result({"verdict": "FAIL", "cluster": CLUSTER}))
    found["matrix"] = make_matrix_result(rows, 1, "about it", "what others saw")
    for kind, subject in poisoned_subjects(f"{MARKUP} {LONG}").items():
        found[f"evil {kind}"] = subject
    return found


LOAD = {"rate": 100.0, "latency_ms": {"p99": 2.0}}


def campaigns(targets: int) -> CampaignsResult:
    one = poisoned_campaign("")
    verdicts = [CycleVerdict.PASS] * 30 + list(CycleVerdict)
    first = replace(one.cycles[0], acks_per_s=1234.5)
    cycles = tuple(
        replace(first, number=number, verdict=verdict)
        for number, verdict in enumerate(verdicts, 1)
    )
    whole = replace(one, cycles=cycles, bound_ppm=50_000, verdict=Verdict.FAIL)
    named = (replace(whole, name=f"db{number}") for number in range(targets))
    return CampaignsResult("/c", tuple(named))


@pytest.fixture(params=[(DESKTOP, "light"), (DESKTOP, "dark"), (PHONE, "dark")])
def window(request: pytest.FixtureRequest) -> dict[str, Any]:
    size, scheme = request.param
    return {"viewport": size, "color_scheme": scheme}


@pytest.mark.parametrize("name", [*NAMES, *EVIL])
def test_a_page_can_be_read_by_everyone(
    chromium: Any, pages: dict[str, Path], name: str, window: dict[str, Any]
) -> None:
    seen = Seen(chromium, pages[name], **window)
    try:
        seen.require_readable()
    finally:
        seen.close()


@pytest.mark.parametrize("name", NAMES)
def test_a_page_prints_on_a4_with_nothing_cut_off(
    chromium: Any, pages: dict[str, Path], name: str
) -> None:
    seen = Seen(chromium, pages[name], viewport=PRINTED, color_scheme="dark")
    try:
        printed = seen.page.pdf(prefer_css_page_size=True)
        sizes = set(re.findall(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", printed))
        assert {(round(float(w)), round(float(h))) for w, h in sizes} == {(595, 842)}
        seen.page.emulate_media(media="print")
        assert seen.overflow == []
        back = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert back == "rgb(255, 255, 255)"  # a dark theme is not printed
    finally:
        seen.close()


def test_a_pass_prints_on_two_pages(chromium: Any, pages: dict[str, Path]) -> None:
    seen = Seen(chromium, pages["mariadb-pass"], viewport=PRINTED)
    try:
        printed = seen.page.pdf(prefer_css_page_size=True)
        assert 1 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 2
        assert seen.page.locator("details[open]").count() == 0
    finally:
        seen.close()


def test_a_matrix_on_a_phone_shows_verdict_and_losses_first(
    chromium: Any, pages: dict[str, Path]
) -> None:
    seen = Seen(chromium, pages["matrix"], viewport=PHONE)
    try:
        row = seen.page.locator(".cards tbody tr").first
        chip, lost, rate = (
            row.locator(one).bounding_box()
            for one in (".chip", "[data-name=lost]", '[data-name="commits/s"]')
        )
        assert chip["x"] + chip["width"] < lost["x"]
        assert lost["x"] + lost["width"] <= PHONE["width"]
        assert lost["y"] < rate["y"]
        headline = seen.page.locator(".banner h1").bounding_box()
        assert headline["y"] + headline["height"] < PHONE["height"]
        scroll = seen.page.locator(".scroll").first
        assert scroll.evaluate("one => one.scrollWidth <= one.clientWidth")
    finally:
        seen.close()


def test_all_is_drawn_without_a_script(chromium: Any, pages: dict[str, Path]) -> None:
    seen = Seen(chromium, pages["postgresql-lying"], viewport=DESKTOP)
    try:
        assert seen.page.locator("figure svg.chart:visible").count() >= 3
        assert seen.page.locator("rect.lost").count() > 5
        assert seen.page.locator("script").count() == 0
    finally:
        seen.close()


# Each is put into a page, and one of the checks above must see it.
PLANTED = {
    "request": '<img alt="x" src="http://127.0.0.1:9/x.png">',
    "dialog": "<script>alert(1)</script>",
    "error": "<script>console.error('x')</script>",
    "undefined": "<script>undefined.x</script>",
    "image-alt": '<img src="data:image/gif;base64,R0lGODlhAQABAAAAACw=">',
    "color-contrast": '<p style="color:#aaa;background:#bbb">too pale to read</p>',
    "FIGURE ": '<figure style="width:99px"><div style="width:300px">x</div></figure>',
    "page": f"<div>{LONG}</div>",
}


@pytest.mark.parametrize("fault", PLANTED)
def test_the_checks_see_a_fault(
    chromium: Any, pages: dict[str, Path], tmp_path: Path, fault: str
) -> None:
    text = pages["mariadb-pass"].read_text()
    text = re.sub(r"<meta http-equiv[^>]*>", "", text)
    file = tmp_path / "page.html"
    file.write_text(text.replace("</main>", f"{PLANTED[fault]}</main>"))
    seen = Seen(chromium, file, viewport=DESKTOP, color_scheme="light")
    try:
        found = [*seen.complaints, *seen.violations, *seen.overflow]
        assert any(fault in one for one in found), found
    finally:
        seen.close()


def test_a_page_is_as_large_as_a_ticket_takes(pages: dict[str, Path]) -> None:
    for file in pages.values():
        assert file.stat().st_size < 1_500_000


def test_the_pages_are_what_the_command_writes(pages: dict[str, Path]) -> None:
    folder = pages["mariadb-pass"].parent / "runs" / "mariadb-pass"
    assert (
        format_report(read_result(folder), "html") == pages["mariadb-pass"].read_text()
    )
