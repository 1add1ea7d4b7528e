"""The witness's agent with a clock that can be set, and with what is planted in it."""

from __future__ import annotations

import functools
import os

from dbcheck.remote import channel

HASTY, CARELESS = (
    "an agent that confirms and does not write",
    "an agent that syncs nothing",
)

_CLOCK = """
_time_ns = time.time_ns
def _shifted():
    with open({path!r}) as file:
        return _time_ns() + int(float(file.read()) * 1e9)
time.time_ns = _shifted
"""
_BEFORE = "\ndef make_frame("
_WRITES = """\
            for log in self._added.values():
                log.write()
            for log in self._added.values():
                self._send(MARK, log.commit(), log.token)
"""
_SYNCS = "            sync_data(self._fd)\n"
_CONFIRMS_ALONE = """\
            for log in self._added.values():
                mark = MARKED.pack(*log._added, log._sha.digest(), clock_us())
                self._send(MARK, mark, log.token)
"""


@functools.cache
def change_agent(plant: str) -> None:
    """Change what this process sends to the witness; before it sends the first."""
    source = channel._read_source

    def changed(module: str) -> str:
        text = source(module)
        if module == "dbcheck.agent.witness":
            assert _BEFORE in text and _WRITES in text
            clock = _CLOCK.format(path=os.environ["TRIAL_CLOCK"])
            text = text.replace(_BEFORE, clock + _BEFORE)
            if plant == HASTY:
                text = text.replace(_WRITES, _CONFIRMS_ALONE)
            if plant == CARELESS:
                assert _SYNCS in text
                text = text.replace(_SYNCS, "")
        return text

    channel._read_source = changed
