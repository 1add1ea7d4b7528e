"""What a server wrote into its log, beside a reader without a regular expression."""

from __future__ import annotations

import time
from collections.abc import Iterator

from dbcheck.core.target import LogTail
from dbcheck.judge.item import ItemId, Standing
from dbcheck.judge.serverlog import crash_item, replayed
from tests.fuzz.script import Script, edit_bytes
from tests.fuzz.target import Target

_READ_S = 3.0  # no longer may any text take that is fuzzed
_SHUT_DOWN = (
    "database system was shut down at",
    "database system is shut down",
    "Shutdown completed;",
    "Received SHUTDOWN from user",
)
_CRASHED = (
    "was not properly shut down",
    "was interrupted; last known up",
    "tarting crash recovery",
    "tarting XA crash recovery",
    "tarting table crash recovery",
    "was not shutdown normally",
)
_COMPLETE, _NAMES = ": Shutdown complete", ("mysqld", "mariadbd")
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
    *_SHUT_DOWN,
    *(f"{letter}{words}" for words in _CRASHED[2:5] for letter in "Ss"),
    *_CRASHED,
    *_NAMES,
    _COMPLETE,
    *(words for one in _REPLAYS for words in one[:2]),
    *("0/FF", "1/100", "FFFFFFFF/FFFFFFFF", "123456789/0", "/", "12", "7", "64"),
    *("18446744073709551615", "9" * 21, "9" * 5000, "F" * 5000 + "/0", "\u0663"),
    *("mariadbd " * 3000, " ", "\n", "\n", "\0", "\r", "\u2028"),
    "mysqld" * 4000,
)


def was_shut_down(text: str) -> bool:
    return any(words in text for words in _SHUT_DOWN) or any(
        name in line[: line.rfind(_COMPLETE)]
        for line in text.split("\n")
        if _COMPLETE in line
        for name in _NAMES
    )


def has_crashed(text: str) -> bool:
    found = any(words in text for words in _CRASHED[:2] + _CRASHED[5:])
    starts = (letter + words for words in _CRASHED[2:5] for letter in "Ss")
    return found or any(words in text for words in starts)


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


def read(text: str) -> None:
    log = LogTail(text, False, False)
    began_s = time.process_time()
    item, found = crash_item(ItemId.SERVER_LOG, log), replayed(log)
    assert time.process_time() - began_s < _READ_S
    if was_shut_down(text):
        assert item.standing is Standing.CONTRADICTED
    elif has_crashed(text):
        assert item.standing is Standing.PRESENT
    else:
        assert item.standing is Standing.NOT_OBSERVABLE
    size = bytes_replayed(text)
    assert (found is None) == (size is None), (size, found)
    if found is not None and size is not None:
        assert f" {size:,} bytes" in found.reason
        assert found.standing is (Standing.PRESENT if size else Standing.ABSENT)


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


def logs() -> Iterator[bytes]:
    for words in (*_SHUT_DOWN, *_CRASHED):
        yield f"x\nS{words} y\n".encode()
    yield b"/usr/sbin/mysqld: Shutdown complete (mysqld 9.7)"
    for first, last, _ in _REPLAYS:
        yield f"{first}0/10\n{last}1/20\n{first}16 {last}33".encode()


def choices() -> Iterator[bytes]:
    yield bytes((len(_WORDS) - 1, 1)) * 11
    for step in range(48):
        yield bytes((step * 19 + place * (step + 5)) % 256 for place in range(32))


TARGETS = (
    Target("server-log", any_text, logs),
    Target("server-log-words", words, choices),
)
