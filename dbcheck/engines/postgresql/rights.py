"""The one list of what dbcheck's account must be allowed to do on PostgreSQL.

The checks of the preflight, the GRANT in each hint, the output of `dbcheck grants` and
docs/privileges.md all come from here.  Nothing imported connects.

The account owns its tables, so it needs no privilege on them, whatever the load does.
"""

from __future__ import annotations

import re

from sqlalchemy.dialects.postgresql.base import RESERVED_WORDS

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.model.cluster import SiteKind
from dbcheck.model.rights import Right
from dbcheck.rows.operation import Usage
from dbcheck.rows.tasks import TaskKind

CHECKPOINT_ROLE_SINCE = 15  # the first with pg_checkpoint (its release notes, E.1.3)
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")
# Even in quotes: GRANT TO "public" is for everybody, and the rest is kept for the
# server's own roles, as is what begins with pg_ (manual, CREATE ROLE).
_NO_ROLES = ("public", "none")


def quote_name(name: str) -> str:
    """Return a name as SQL wants it, in quotes where it needs them."""
    if _PLAIN.fullmatch(name) and name not in RESERVED_WORDS:
        return name
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def quote_role(name: str) -> str:
    """Return the name of an account as SQL wants it.

    Raise UsageError for a name that GRANT takes for something other than an account.
    """
    if name in _NO_ROLES or name.startswith("pg_"):
        raise UsageError(
            f"{name} is no name of an account on PostgreSQL: it has a meaning of its"
            " own in GRANT",
            id=ErrorId.TARGET_URL_INVALID,
            hint="Name the account in the target's URL that dbcheck logs in with.",
        )
    return quote_name(name)


def quote_for_psql(database: str) -> str:
    r"""Return the argument of psql's \connect for a *database* as SQL names it.

    psql reads more than a name from some (its manual page, \connect).
    """
    if database != '"-"' and not re.search("=|://", database):
        return database
    name = database[1:-1].replace("\\", "\\\\").replace("'", "\\'")
    return f"-reuse-previous=on \"dbname='{name}'\""


def create_statements(account: str, database: str) -> tuple[str, ...]:
    """Return the statements that create the account and the database."""
    return (
        f"create role {account} login password 'CHANGE-ME';",
        f"create database {database};",
    )


def grant_database(account: str, database: str) -> str:
    """Return the GRANT on the database; PUBLIC may have lost CONNECT."""
    return f"grant connect, create on database {database} to {account};"


def grant_settings(account: str) -> str:
    """Return the GRANT that shows data_directory and the like."""
    return f"grant pg_read_all_settings to {account};"


def grant_checkpoint(account: str) -> str:
    """Return the GRANT for CHECKPOINT."""
    return f"grant pg_checkpoint to {account};"


def grant_rotate(account: str) -> str:
    """Return the GRANT for the housekeeping task ROTATE; in dbcheck's database."""
    return f"grant execute on function pg_switch_wal() to {account};"


def grant_restore_point(account: str) -> str:
    """Return the GRANT that makes a restore point; in dbcheck's database."""
    return f"grant execute on function pg_create_restore_point(text) to {account};"


def grant_index_check(account: str, schema: str = "") -> str:
    """Return the GRANT for amcheck's check of indexes; in dbcheck's database."""
    name = f"{schema}.bt_index_check" if schema else "bt_index_check"
    return f"grant execute on function {name}(regclass, boolean) to {account};"


CREATE_AMCHECK = "create extension if not exists amcheck;"


def grant_monitor(account: str) -> str:
    """Return the GRANT that shows the standbys of a cluster."""
    return f"grant pg_monitor to {account};"


def grant_history(account: str) -> str:
    """Return the GRANT that shows where a timeline began; in dbcheck's database."""
    function = "pg_read_file(text, bigint, bigint, boolean)"
    return f"grant execute on function {function} to {account};"


def grant_promote(account: str) -> str:
    """Return the GRANT that promotes a standby; in dbcheck's database."""
    return f"grant execute on function pg_promote(boolean, integer) to {account};"


def grant_signal(account: str) -> str:
    """Return the GRANT that ends the connections of standbys."""
    return f"grant pg_signal_backend to {account};"


def make_superuser(account: str) -> str:
    """Return what ends the connections of standbys that log in as a superuser."""
    return f"alter role {account} superuser;"


def list_rights(
    usage: Usage,
    account: str,
    database: str,
    *,
    asks_host: bool,
    names_points: bool = False,
) -> tuple[Right, ...]:
    """Return the rights for a load, the required first; a control needs no other.

    asks_host: the target's host is asked, so the data directory must be known.
    names_points: restore points are made.
    """
    found = [
        Right(
            grant_database(account, database),
            "Creates the schema dbcheck with its tables, loads, reads and drops them.",
        ),
        Right(
            grant_settings(account),
            "Knows the data directory and where the server logs.",
            ""
            if asks_host
            else "Whatever asks the target's host is refused: --target-host, probe"
            " flushes, probe latency.",
        ),
        Right(
            grant_checkpoint(account),
            "Has the server checkpoint before the load.",
            "There is no checkpoint before the load"
            + (
                ", and the run leaves out the housekeeping task checkpoint."
                if TaskKind.CHECKPOINT in usage.tasks
                else "."
            ),
            f"PostgreSQL {CHECKPOINT_ROLE_SINCE} or newer; before, only a superuser"
            " may.",
        ),
    ]
    if names_points:
        why = "Makes the restore point of dbcheck snapshot."
        found.append(Right(grant_restore_point(account), why))
    if TaskKind.ROTATE in usage.tasks:
        without = "The run leaves out the housekeeping task rotate."
        why = "Does the housekeeping task rotate."
        found.append(Right(grant_rotate(account), why, without))
    found += _list_check_rights(account)
    return tuple(sorted(found, key=lambda right: not right.is_required))


def _list_check_rights(account: str) -> list[Right]:
    """Return the rights for amcheck's checks, which can be left out."""
    indexes = "Has the server check its indexes and tables, before the load and after."
    unchecked = "The server does not check them itself."
    return [
        Right(
            CREATE_AMCHECK,
            indexes,
            unchecked,
            "As a superuser; the extension is in the server's contrib package.",
        ),
        Right(grant_index_check(account), indexes, unchecked),
        Right(
            f"grant execute on function verify_heapam to {account};",
            indexes,
            unchecked,
            "PostgreSQL 14 or newer.",
        ),
    ]


def list_cluster_rights(
    kind: SiteKind, account: str, *, promotes: bool, control: bool = False
) -> tuple[Right, ...]:
    """Return the rights on a node of a cluster, beside those of a single server.

    promotes: dbcheck promotes a standby by SQL.  control: a control comes first.
    """
    if kind is not SiteKind.STREAMING:
        return ()
    found = [
        Right(grant_monitor(account), "Sees who follows whom."),
        Right(
            grant_history(account),
            "Sees where the timeline of the promoted node began. It lets the account"
            " read any file of the data directory.",
            "No run ends in PASS or FAIL after a promotion.",
        ),
    ]
    if promotes:
        found.append(Right(grant_promote(account), "Promotes a standby."))
    if control:
        why = "Disconnects the standbys for the control's cut (--control)."
        only = "If the standbys log in as a superuser, the account has to be one, too."
        found.append(Right(grant_signal(account), why, only=only))
    return tuple(sorted(found, key=lambda right: not right.is_required))
