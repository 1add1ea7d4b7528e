"""Sets how Sphinx makes the documentation: `make docs`."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

import dbcheck

DOCS = Path(__file__).resolve().parents[2] / "docs"
EXAMPLES = DOCS / "examples"
INDEX = "README.md"  # the page about the examples; the others are not of this site

project = "dbcheck"
version = release = dbcheck.__version__
copyright = "the dbcheck authors; MIT License"
extensions = ["myst_parser"]
root_doc = "index"
exclude_patterns = ["examples/[!R]*"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 4  # the depth to which headings are anchors, as on a forge
nitpicky = True
smartquotes = False  # they make one dash of the two before an option
html_theme = "furo"
html_title = f"dbcheck {release}"
html_copy_source = False


def linked(_app: Sphinx, doctree: nodes.document) -> None:
    """Correct links that Sphinx alone would not make as a forge does.

    An example is shown as it is, and not downloaded. What is outside of docs/ is not a
    part of the site, so it is named without a link.
    """
    kinds = (addnodes.download_reference, addnodes.pending_xref)
    for node in [each for kind in kinds for each in doctree.findall(kind)]:
        target = node["reftarget"]
        folder = (DOCS / node["refdoc"]).parent
        if node.get("refdomain") == "doc":  # without its suffix, from docs/ on
            target = os.path.relpath(f"{DOCS / target}.md", folder)
        path = (folder / target).resolve()
        if path.parent == EXAMPLES and path.name != INDEX:
            node.replace_self(nodes.reference("", "", *node.children, refuri=target))
        elif path.exists() and not path.is_relative_to(DOCS):
            node.replace_self(node.children)


def copy_examples(app: Sphinx, error: Exception | None) -> None:
    """Copy the examples, which dbcheck itself made."""
    if error is None and app.builder.format == "html" and EXAMPLES.is_dir():
        to = Path(app.outdir, EXAMPLES.name)
        ignored = shutil.ignore_patterns(INDEX)
        shutil.copytree(EXAMPLES, to, ignore=ignored, dirs_exist_ok=True)


def setup(app: Sphinx) -> None:
    """Add what is above."""
    app.connect("doctree-read", linked)
    app.connect("build-finished", copy_examples)
