"""Whatever the nodes of a cluster are called, a redacted bundle does not show it."""

from __future__ import annotations

import re
import tempfile
from functools import cache
from pathlib import Path

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.evidence.verify import verify
from dbcheck.witness.log import FrameLogReader
from tests.kit.bundles import bundle_of, contents
from tests.kit.renamed_nodes import renamed_run

SAID = ('slot "slot_{}"', "connecting to {}: refused", "host={} port=1")
# Names of people, and of those who want to see them in a bundle.
_WORDS = st.sampled_from(["db", "pg", "node", "fra", "rack", "a", "on", "0", "host-1"])
_ENDS = st.sampled_from(["", "1", "10", "-2", "_3", "x", ".lan", "'", '"', "%", " z"])
names = st.builds("{}{}".format, _WORDS, _ENDS) | st.text(
    st.characters(codec="utf-8", categories=("L", "N", "P")), min_size=1, max_size=9
)


@cache
def plain() -> dict[str, bytes]:
    found = redacted("zeta-q7", "zeta-q8")
    assert found is not None
    return found


def redacted(*given_names: str) -> dict[str, bytes] | None:
    """Return the files of a bundle, None if it was refused."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        run = renamed_run(folder, given_names, SAID)
        try:
            bundle_of(run.path, folder / "b.tar", redact=True)
        except UsageError as error:
            assert error.id is ErrorId.REDACTION_NOT_POSSIBLE
            return None
        assert verify(folder / "b.tar", FrameLogReader()).same
        return dict(contents(folder / "b.tar"))


def is_word_of_texts(name: str) -> bool:
    """Return True if logs or errors of the run have the name as a word of their own."""
    word = re.compile(rf"(?<![^\W_]){re.escape(name.lower())}(?![^\W_])")
    texts = (content.decode("utf-8", "replace").lower() for content in plain().values())
    return any(word.search(text) for text in texts)


@settings(max_examples=25, deadline=None)
@example("db", "CPU")
@given(names, names)
def test_a_bundle_does_not_depend_on_the_names_of_nodes(one: str, two: str) -> None:
    assume(one != two)
    found = redacted(one, two)
    if found is None:
        return
    shown = {name: found[name] for name in found if name != "index.json"}
    for name, content in shown.items():
        text = f"{name} {content.decode('utf-8', 'replace')}".lower()
        for word in (one.lower(), two.lower()):
            if re.search(r"[g-z].*[\d_-]|[\d_-].*[g-z]", word) and len(word) >= 4:
                assert word not in text, (word, name)
    # Where a name ends can be seen of such alone; node-1 is passed over if it is one.
    if not all(re.fullmatch(r"(?!node-)\w[\w-]*", name) for name in (one, two)):
        return
    # Texts do not show that a word of theirs is no name: it is replaced, too.
    if not any(is_word_of_texts(name) for name in (one, two)):
        assert {n for n in plain() if found.get(n) != plain()[n]} == set(), (one, two)
