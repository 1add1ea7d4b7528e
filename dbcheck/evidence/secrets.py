"""Finds passwords, tokens and private keys in a text.

Servers log statements, and errors quote command lines, connection strings and headers.
Too much is taken out rather than too little: where a secret without quotes ends cannot
be seen, so all up to the next blank goes.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable
from urllib.parse import quote

SECRET_MIN = 4  # characters; a shorter one would match ordinary text

_WORD = (
    r"(?:password|passwd|passphrase|pwd|secret|token|api[_-]?key|private[_-]?key"
    r"|secret[_-]?access[_-]?key|snmp[_-]?community)"
)
# 'a', E'a', 'it''s', ''a'' inside of another text, "a", $$a$$, and what has no end.
_QUOTED = (
    r"''[^'\n]+''|\w{0,8}&?'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\""
    r"|\$(?P<tag>\w*)\$.{0,9999}?\$(?P=tag)\$|'[^'\n]*|\"[^\"\n]*"
)
_VALUE = rf"{_QUOTED}|\{{(?:[^}}]|\}}\}})*\}}|\S+"
_NO_SECRET = r"(?:yes|no|on|off|true|false|null|none|\(none\)|\d+)(?![^\s,;)\"'])"


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE | re.DOTALL)


# The group "secret" is what is taken out.
_PATTERNS = (
    _pattern(
        r"-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----(?P<secret>.*?)"
        r"(?:-----END [A-Z ]*KEY(?: BLOCK)?-----|\Z)"
    ),
    _pattern(r"\bPrivate-Lines:\s{0,40}\d+\s(?P<secret>.*?)(?=Private-MAC|\Z)"),
    # SQL
    _pattern(rf"(?<![\w'\"])\w*{_WORD}\s{{0,40}}\(?\s{{0,40}}(?P<secret>{_QUOTED})"),
    _pattern(
        r"\bset\s{1,40}password\b[^=\n]{0,300}=\s{0,40}(?:\w+\s{0,40}\(\s{0,40})?"
        rf"(?P<secret>{_QUOTED})"
    ),
    _pattern(
        r"\bidentified\s{1,40}(?:(?:with|via)\s{1,40}\S{1,80}\s{1,40})?(?:by|as|using)\s{1,40}"
        rf"(?:password\b\s{{0,40}}\(?\s{{0,40}})?(?P<secret>{_QUOTED})"
    ),
    _pattern(rf"\breplace\s{{1,40}}(?P<secret>{_QUOTED})"),
    _pattern(r"\bparameters: (?=\$1 = )(?P<secret>[^\n]+)"),
    # name = value, name: value, "name": "value", --name value
    _pattern(
        rf"{_WORD}[\"']?\s{{0,40}}(?:=>|:=|=|:)\s{{0,40}}(?!{_NO_SECRET})(?P<secret>{_VALUE})"
    ),
    _pattern(rf"\bcommunity[\"']?\s{{0,40}}=\s{{0,40}}(?P<secret>{_VALUE})"),
    _pattern(rf"(?<!\S)[\"']?-[\w-]*{_WORD}\s{{1,40}}(?!-)(?P<secret>{_VALUE})"),
    # Headers of HTTP
    _pattern(
        r"\b(?:authorization|cookie)[\"']?\s{0,40}[:=]\s{0,40}[\"']?(?P<secret>[^\r\n\"']+)"
    ),
    _pattern(r"\bbearer\s{1,40}(?P<secret>\S{6,})"),
    # URLs
    _pattern(
        r"\b[a-z][a-z0-9+.-]{0,30}://[^\s/:@]{0,200}:(?P<secret>[^\s'\"<>]{1,999})@"
    ),
    _pattern(r"\bhttps?://(?P<secret>[^\s/:@]{1,999})@"),
    # Tokens that are known by their look
    re.compile(
        r"(?P<secret>\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bgh[pousr]_\w{20,}"
        r"|\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*)"
    ),
)
# Programs that take a secret after one letter, and their lines.
_PROGRAMS = re.compile(
    r"\b(?:sshpass|fence_\w+|ipmitool|snmp\w+|mysql(?!d\b)\w*|mariadb(?!d\b)[\w-]*)"
    r" [^\n]*"
)
_LETTERS = re.compile(r"(?<!\S)[\"']?-[pPcAX]\s?(?!-)(?P<secret>\S+)")
_NAMED = re.compile(rf"{_WORD}$", re.IGNORECASE)
_HARMLESS = re.compile(rf"{_NO_SECRET}$|$", re.IGNORECASE)


def is_secret(name: str, value: str) -> bool:
    """Say whether a *value* that has this *name* is a secret."""
    return bool(_NAMED.search(name)) and not _HARMLESS.match(value)


def removed_sentence(count: int) -> str:
    """Return how many secrets were removed, in words."""
    if count == 1:
        return "1 text that looks like a secret was removed"
    return f"{count} texts that look like secrets were removed"


def replaced(text: str, instead: Callable[[str], str]) -> str:
    """Return *text* with what instead() returns for each secret."""

    def whole(match: re.Match[str]) -> str:
        start, end = (at - match.start() for at in match.span("secret"))
        found = match.group()
        return found[:start] + instead(found[start:end]) + found[end:]

    def line(match: re.Match[str]) -> str:
        return _LETTERS.sub(whole, match.group())

    for pattern in _PATTERNS:
        text = pattern.sub(whole, text)
    return _PROGRAMS.sub(line, text)


def forms(secrets: Iterable[str]) -> list[str]:
    """Return the known *secrets* in every form that a text may have them in.

    The longest come first, so that none is left half of.
    """
    found: set[str] = set()
    for secret in secrets:
        if len(secret) >= SECRET_MIN:
            found |= {secret, quote(secret), quote(secret, safe="")}
            found |= {secret.replace("'", "''"), json.dumps(secret)[1:-1]}
            found |= {secret.replace("\\", "\\\\").replace("'", "\\'")}
            found |= set(_base64(secret.encode()))
    return sorted(found, key=lambda form: (-len(form), form))


def _base64(secret: bytes) -> Iterable[str]:
    """Yield what base64 has of a secret, wherever in a longer text it begins."""
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + secret).decode()
        # The first and the last characters depend on what is beside the secret.
        first, last = -(-before * 8 // 6), (before + len(secret)) * 8 // 6
        if last - first >= 2 * SECRET_MIN:
            yield encoded[first:last]
