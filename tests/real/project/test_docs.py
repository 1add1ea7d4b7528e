"""The documentation is made without a warning; a page that is wrong is refused."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.wide

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
CONFIGURED = ("-c", str(ROOT / "tools" / "docs"))


def made(source: Path, to: Path) -> subprocess.CompletedProcess[str]:
    """Make the site as `make docs` does; skip the test without Sphinx."""
    pytest.importorskip("sphinx", reason="no Sphinx: make pages")
    strict = ("--fail-on-warning", "--keep-going", "--nitpicky", "--quiet")
    options = (*CONFIGURED, *strict)
    return subprocess.run(
        (sys.executable, "-m", "sphinx", *options, "-b", "html", source, to),
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_site_is_made_without_a_warning(tmp_path: Path) -> None:
    done = made(DOCS, tmp_path / "html")
    assert (done.returncode, done.stderr) == (0, "")
    for page in DOCS.rglob("*.md"):
        assert (
            (tmp_path / "html" / page.relative_to(DOCS)).with_suffix(".html").exists()
        )
    for page in DOCS.glob("examples/*.html"):
        assert (tmp_path / "html" / page.relative_to(DOCS)).exists()
    index = (tmp_path / "html" / "index.html").read_text()
    for name in ("reference.html", "running.html", "method.html"):
        assert f'href="{name}"' in index


def test_a_link_that_leads_nowhere_is_refused(tmp_path: Path) -> None:
    source = shutil.copytree(DOCS, tmp_path / "docs")
    with (source / "power.md").open("a") as page:
        page.write("\nSee [this](nosuch.md) and [that](losses.md#no-such-kind).\n")
    done = made(source, tmp_path / "html")
    assert done.returncode == 1
    assert "'myst' cross-reference target not found: 'nosuch.md'" in done.stderr
    assert "local id not found in doc 'losses': 'no-such-kind'" in done.stderr
