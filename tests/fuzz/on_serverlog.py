"""What a server wrote into its log, beside a reader without a regular expression."""

from __future__ import annotations

import time
from collections.abc import Iterator

from dbcheck.judge.item import ItemId, Status
from dbcheck.judge.server_end import judge_replay_in_log, make_crash_item
from dbcheck.model.host import LogTail
from tests.fuzz.script import Script, edit_bytes
from tests.fuzz.target import Target

_READ_S = 3.0  # no longer may any text take that is fuzzed
# Whole lines of one server, by what they show.
_PG = "2026-01-01 00:00:00.000 UTC [7] "
_LINES = {
    f"{_PG}LOG:  starting PostgreSQL 15.18 on x86_64": "start",
    f"{_PG}LOG:  database system is ready to accept connections": "ready",
    f"{_PG}LOG:  database system was interrupted; last known up at 2026": "cut",
    f"{_PG}LOG:  database system was not properly shut down; automatic": "cut",
    f"{_PG}LOG:  database system was shut down at 2026": "shut",
    f"{_PG}LOG:  received fast shutdown request": "asked",
    f"{_PG}LOG:  shutting down": "asked",
    f"{_PG}LOG:  database system is shut down": "stopped",
    f"{_PG}LOG:  shutting down due to startup process failure": "failed",
    f"{_PG}FATAL:  could not frobnicate": "failed",
    f"{_PG}FATAL:  the database system is starting up": "",
    f"{_PG}LOG:  checkpoint starting: time": "",
}
_HEXADECIMAL, _DECIMAL = "0123456789ABCDEF", "0123456789"
_REPLAYS = (
    ("redo starts at ", "redo done at ", _HEXADECIMAL),
    ("crash recovery from checkpoint LSN=", "End of log at LSN=", _DECIMAL),
    (
        "whereas checkpoint_lsn = ",
        "scanned up to log sequence number ",
        _DECIMAL,
    ),
)
_WORDS = (
    *(words for one in _REPLAYS for words in one[:2]),
    *("0/FF", "1/100", "FFFFFFFF/FFFFFFFF", "123456789/0", "/", "12", "7", "64"),
    *("18446744073709551615", "9" * 21, "9" * 5000, "F" * 5000 + "/0", "\u0663"),
    *("mariadbd " * 3000, " ", "\n", "\n", "\0", "\r", "\u2028"),
    *("mysqld" * 4000, "{" * 4000, '{"err_code": 1, "msg": ' + "[" * 4000),
    *(f"\n{line}\n" for line in _LINES),
)


def status_of(kinds: list[str]) -> Status:
    """Return what lines of these kinds show of how the server ended."""
    runs: list[list[str]] = [[]]
    for kind in kinds:
        if kind == "start":
            runs.append([])
        runs[-1].append(kind)
    cut = False
    for number, run in enumerate(runs):
        cut = cut or "cut" in run
        if "shut" in run and not cut:
            return Status.CONTRADICTED
        served = run
        if number:
            last = max(
                (at for at, kind in enumerate(run) if kind == "ready"), default=-1
            )
            served = run[last + 1 :] if last >= 0 else []
        if any(
            kind == "stopped"
            and ("asked" in served[:at] or "failed" not in served[:at])
            for at, kind in enumerate(served)
        ):
            return Status.CONTRADICTED
        if served or not number:
            cut = False
    return Status.PRESENT if "cut" in kinds else Status.NOT_OBSERVABLE


def positions(text: str, words: str, digits: str) -> list[tuple[int, int]]:
    """Return where these words stand before a position in the log, and that."""
    found, at = [], text.find(words)
    while at >= 0:
        value = position(text[at + len(words) : at + len(words) + 40], digits)
        if value is not None:
            found.append((at, value))
        at = text.find(words, at + 1)
    return found


def position(text: str, digits: str) -> int | None:
    """Read a position of 64 bits at the beginning of *text*."""
    first = text[: len(text) - len(text.lstrip(digits))]
    if digits == _DECIMAL:
        return int(first) if 1 <= len(first) <= 20 else None
    behind = text[len(first) :]
    second = behind[1 : 1 + len(behind[1:]) - len(behind[1:].lstrip(digits))]
    if behind[:1] != "/" or not (1 <= len(first) <= 8 and 1 <= len(second) <= 8):
        return None
    return int(first, 16) << 32 | int(second, 16)


def bytes_replayed(text: str) -> int | None:
    for first, last, digits in _REPLAYS:
        for end, until in reversed(positions(text, last, digits)[-1:]):
            begins = positions(text[:end], first, digits)
            if begins and until >= begins[-1][1]:
                return until - begins[-1][1]
    return None


def read(text: str) -> Status:
    log = LogTail(text, False, False)
    began_s = time.process_time()
    item, found = make_crash_item(ItemId.SERVER_LOG, log, {}), judge_replay_in_log(log)
    assert time.process_time() - began_s < _READ_S
    size = bytes_replayed(text)
    assert (found is None) == (size is None), (size, found)
    if found is not None and size is not None:
        assert f" {size:,} bytes" in found.reason
        assert found.status is (Status.PRESENT if size else Status.ABSENT)
    return item.status


def any_text(data: bytes) -> None:
    """Any bytes are a log, as the host decodes them."""
    read(data.decode("utf-8", "replace"))


def words(data: bytes) -> None:
    """A log of the words that matter, and of what is nearly those."""
    script, text = Script(data), ""
    while not script.is_over and len(text) < 1 << 18:
        word = script.choice(_WORDS)
        if not script.below(8):
            word = edit_bytes(script, word.encode()).decode("utf-8", "replace")
        text += word
    read(text)


def lines(data: bytes) -> None:
    """A log of whole lines, in any order."""
    script = Script(data)
    written: list[str] = []
    while not script.is_over and len(written) < 200:
        written.append(script.choice(tuple(_LINES)))
    found = read("".join(f"{line}\n" for line in written))
    assert found is status_of([_LINES[line] for line in written])


def logs() -> Iterator[bytes]:
    for line in _LINES:
        yield f"x\n{line}\n".encode()
    for first, last, _ in _REPLAYS:
        yield f"{first}0/10\n{last}1/20\n{first}16 {last}33".encode()


def choices() -> Iterator[bytes]:
    yield bytes((len(_WORDS) - 1, 1)) * 11
    for step in range(48):
        yield bytes((step * 19 + place * (step + 5)) % 256 for place in range(32))


TARGETS = (
    Target("server-log", any_text, logs),
    Target("server-log-words", words, choices),
    Target("server-log-lines", lines, choices),
)
