"""How Sphinx makes the documentation: `make docs`."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

import dbcheck

DOCS = Path(__file__).parent

project = "dbcheck"
version = release = dbcheck.__version__
copyright = "the dbcheck authors; MIT License"
extensions = ["myst_parser"]
root_doc = "index"
source_suffix = {".md": "markdown"}
myst_heading_anchors = 4  # the depth to which headings are anchors, as on a forge
nitpicky = True
smartquotes = False  # they make one dash of the two before an option
html_theme = "furo"
html_title = f"dbcheck {release}"
html_copy_source = False


def without_empty_globs(_app: Sphinx, _name: str, source: list[str]) -> None:
    """Remove patterns of a toctree that match no page, of which Sphinx warns."""
    source[0] = re.sub(
        r"^\w+/\*$",
        lambda found: found[0] if any(DOCS.glob(f"{found[0]}.md")) else "",
        source[0],
        flags=re.M,
    )


def linked(_app: Sphinx, doctree: nodes.document) -> None:
    """Correct links that Sphinx alone would not make as a forge does.

    A page in HTML is shown and not downloaded. What is outside of docs/ is not a part
    of the site, so it is named without a link.
    """
    for node in [*doctree.findall(addnodes.download_reference)]:
        if node["reftarget"].endswith(".html"):
            page = nodes.reference("", "", *node.children, refuri=node["reftarget"])
            node.replace_self(page)
    for node in [*doctree.findall(addnodes.pending_xref)]:
        if Path(node["reftarget"]).is_absolute():
            node.replace_self(node.children)


def copy_examples(app: Sphinx, error: Exception | None) -> None:
    """Copy the examples, which are pages of their own."""
    examples = DOCS / "examples"
    if error is None and app.builder.format == "html" and examples.is_dir():
        ignored = shutil.ignore_patterns("*.md")
        to = Path(app.outdir, "examples")
        shutil.copytree(examples, to, ignore=ignored, dirs_exist_ok=True)


def setup(app: Sphinx) -> None:
    """Add what is above."""
    app.connect("source-read", without_empty_globs)
    app.connect("doctree-read", linked)
    app.connect("build-finished", copy_examples)
