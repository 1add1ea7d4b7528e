"""The logs that container engines keep of what a server writes."""

from __future__ import annotations

import json

import pytest

from dbcheck.server_log.lines import unwrap_lines

PLAIN = "2026-11-30 08:00:01 UTC [7] LOG:  database system is ready\n"
TIME = "2026-11-30T08:00:01.123456789"


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        json.dumps({"log": PLAIN, "stream": "stderr", "time": f"{TIME}Z"}) + "\n",
        f"{TIME}Z stderr F {PLAIN}",
        f"{TIME}+01:00 stdout F {PLAIN}",
        f"{TIME}Z stderr P {PLAIN[:20]}\n{TIME}Z stderr F {PLAIN[20:]}",
    ],
)
def test_a_line_is_the_servers_whatever_engine_kept_it(text: str) -> None:
    assert unwrap_lines(text) == PLAIN
    assert unwrap_lines(text * 2 + PLAIN) == PLAIN * 3


@pytest.mark.parametrize(
    "text", ['{"log":"2026-11-30 08:00\n', '{"log":7}\n', "{}\n", "x F y\n", ""]
)
def test_what_no_engine_wrote_stays(text: str) -> None:
    assert unwrap_lines(text) == text
