"""What libpq is given: the URL's options, and which logins it must refuse.

libpq sends the password to any server that asks for it, in clear too, and by default
(sslmode=prefer) it verifies no server.  So, for a host that is not this machine, either
the user has asked libpq to verify the server, or it refuses to log in that way.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

import psycopg
import psycopg2.extensions
from psycopg.conninfo import make_conninfo
from psycopg.pq import PGconn

from dbcheck.engines.link import one_line
from dbcheck.error_ids import ErrorId
from dbcheck.errors import EngineError
from dbcheck.remote.addresses import is_here

# PostgreSQL 17 manual, 34.1.2.  What remains are SCRAM, which shows the server that the
# client knows the password and not which it is, GSS, SSPI, and no password at all.
REFUSED = "!password,!md5"
_VERIFYING = ("verify-ca", "verify-full")
_REQUIRES_AUTH = 16_00_00  # the first libpq with require_auth
_NO_SUCH_SERVER = "?"  # for target_session_attrs

UNVERIFIED_HINT = (
    "Make the connection verify the server: add sslmode=verify-full&sslrootcert=FILE"
    " to the URL, where FILE is the certificate of the authority that signed the"
    " server's. Or store the account's password for SCRAM: set password_encryption ="
    " scram-sha-256, set the password again, and use scram-sha-256 in pg_hba.conf. To"
    " send the password to any server that answers there, add require_auth=md5 or"
    " require_auth=password to the URL."
)


def libpq_options(target: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return libpq's arguments for the next connection, by either driver.

    target: how error messages name the server.  Raise EngineError if libpq cannot use
    the arguments, or is too old to refuse what it must not send.
    """
    options = dict(arguments)
    effective = _effective(target, arguments)
    if (
        effective["sslmode"] in _VERIFYING
        or effective.get("require_auth")
        or all(map(is_here, _hosts(effective)))
    ):
        return options
    if min(psycopg.pq.version(), psycopg2.extensions.libpq_version()) < _REQUIRES_AUTH:
        raise EngineError(
            f"cannot connect to {target}: this libpq would send the password in clear"
            " text to any server that requests it",
            id=ErrorId.LIBPQ_TOO_OLD,
            hint="Install psycopg[binary] and psycopg2-binary with libpq 16 or newer;"
            " or add sslmode=verify-full&sslrootcert=FILE to the URL.",
        )
    return {**options, "require_auth": REFUSED}


def _effective(target: str, arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return libpq's options after those of environment and service file.

    Only an attempt to connect puts them together.  This one fails before libpq looks
    any host up, over the last option that it reads.
    """
    asked = {
        **arguments,
        "password": None,
        "target_session_attrs": _NO_SUCH_SERVER,
    }
    try:
        attempt = PGconn.connect_start(make_conninfo(**asked).encode())
        try:
            text = attempt.error_message.decode("utf-8", "replace")
            found = attempt.info
        finally:
            attempt.finish()
    except psycopg.Error as error:
        text, found = str(error), []
    if "target_session_attrs" not in text:
        why = one_line(
            psycopg.Error(text),
            str(arguments.get("password") or ""),
        )
        raise EngineError(
            f"cannot connect to {target}: {why}",
            id=ErrorId.TARGET_URL_OPTION_INVALID,
            hint="Check the options in the URL, and libpq's in the environment.",
        )
    return {item.keyword.decode(): (item.val or b"").decode() for item in found}


def _hosts(options: Mapping[str, str]) -> list[str]:
    """Return each host that libpq may connect to, "" for its socket file."""
    hosts = options["host"].split(",")
    addresses = options["hostaddr"].split(",")
    if options["hostaddr"]:
        pairs = zip_longest(addresses, hosts, fillvalue="")
        return [address or host for address, host in pairs]
    return hosts
