"""How many transactions a set of GTIDs has, as MySQL and MariaDB write it."""

from __future__ import annotations

import re

# A source's transactions in a set: its UUID, perhaps a tag (MySQL 8.3), intervals.
_INTERVAL = re.compile(r"(\d+)(?:-(\d+))?")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def counts(text: str) -> dict[str, int]:
    """Return how many transactions of each UUID a set has (MySQL 9.7 manual, 19.1.3.1).

    E.g. "UUID:1-5:7, UUID:tag:1-2" has eight of that UUID.
    """
    found: dict[str, int] = {}
    for part in re.sub(r"\s", "", text.lower()).split(","):
        uuid, *rest = part.split(":")
        if not _UUID.fullmatch(uuid):
            continue
        for interval in rest:
            if match := _INTERVAL.fullmatch(interval):
                first, last = int(match[1]), int(match[2] or match[1])
                found[uuid] = found.get(uuid, 0) + last - first + 1
    return found


def newest(text: str) -> dict[str, int]:
    """Return the newest sequence number of each server in a list of MariaDB's GTIDs.

    E.g. "0-1-100,0-2-105": domain, server, sequence.
    """
    found: dict[str, int] = {}
    for part in re.sub(r"\s", "", text).split(","):
        if re.fullmatch(r"\d+-\d+-\d+", part):
            _, server, sequence = part.split("-")
            found[server] = max(found.get(server, 0), int(sequence))
    return found
