"""How an archive is restored to a point of the log: honest ways, and bad ones.

Each text is a program of the shell, as in archive_methods.py; $2 is the point.
"""

from __future__ import annotations

from dataclasses import replace

from dbcheck.base.points import PointKind
from tests.kit.archive_methods import mariadb_binlog, postgresql_archive
from tests.kit.archives import Shipping

_TARGETS = {
    PointKind.LSN: "recovery_target_lsn",
    PointKind.RESTORE_POINT: "recovery_target_name",
}
EARLIER = "earlier"  # a restore point from before any load
# The newest segment is complete, and shipped, before anything is restored.
_SHIP_REST = """\
segment=$(ask $from "select pg_walfile_name(pg_switch_wal())")
shipped() { [ -e "$log/$segment" ]; }
wait_for shipped
"""
_PROMOTE = "-c recovery_target_action=promote"


def postgresql_point(
    kind: PointKind,
    *,
    target: str = "$2",
    before: str = "",
    settings: str = "",
    action: str = _PROMOTE,
) -> Shipping:
    """Return an archive that is restored to the point.

    target:   to which it is restored; "" for the end of the archive.
    before:   what the program does once the log was shipped.
    settings: more of the restored server's.  action: what it does at its target.
    """
    made = postgresql_archive(timeout_s=0)
    options = settings
    if target:
        options = f"-c {_TARGETS[kind]}={target} {action} {settings}"
    start = f'{made.method.restore.rstrip()} \\\n    -o "{options.strip()}"\n'
    name = f"""ask $from "select pg_create_restore_point('{EARLIER}')"\n"""
    shipping = made.restoring(_SHIP_REST + before + start)
    return replace(shipping, begin=shipping.begin + name)


def moved(by_bytes: int) -> Shipping:
    """Return a restore to an LSN that is so many bytes behind the point, or before."""
    move = f"""target=$(ask $from "select '$2'::pg_lsn + ({by_bytes})")\n"""
    return postgresql_point(PointKind.LSN, target="$target", before=move)


def segment_missing() -> Shipping:
    """Return an archive without the segment that has the point."""
    lose = """\
lost=$(ask $from "select pg_walfile_name('$2')")
mv "$log/$lost" "$archive/lost"
"""
    return postgresql_point(PointKind.LSN, before=lose)


# The receiver begins a file once it has all of the one before.
_SHIP_REST_OF_BINLOG = """\
point=$2
ask $from "flush binary logs"
newest=$(ask $from "show binary logs" | sed -n '$s/ .*//p')
shipped() { [ -e "$log/$newest" ]; }
wait_for shipped
"""
_START = '--start-position="$place"'


def mariadb_point(stop: str = '--stop-position="$point"') -> Shipping:
    """Return the binary log, replayed to the point; stop: the options for that."""
    made = mariadb_binlog()
    assert _START in made.method.restore
    replay = made.method.restore.replace(_START, f"{_START} {stop}")
    return made.restoring(_SHIP_REST_OF_BINLOG + replay)


def mariadb_earlier() -> Shipping:
    """Return the same, replayed to some transactions before the point."""
    return mariadb_point('--stop-position="${point%-*}-$((${point##*-} - 50))"')
