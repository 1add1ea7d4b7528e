"""Advises on a login that failed, by the error numbers of the driver and the server."""

from __future__ import annotations

import mysql.connector

from dbcheck.base.error_ids import ErrorId
from dbcheck.engines.link import UNREACHABLE_HINT, WRONG_PASSWORD_HINT
from dbcheck.engines.mysql.connection import INSECURE, Unverified

MISUSE = (AttributeError, ValueError)  # the driver's, for an option it cannot use

# MySQL 8.4 and MariaDB error references.
_TOO_MANY_CONNECTIONS, _NO_RIGHT_ON_DATABASE, _ACCESS_DENIED = 1040, 1044, 1045
_CLIENT_NOT_ALLOWED = 1130
_UNVERIFIED_HINT = (
    "Make the connection verify the server: add ssl_ca=FILE&ssl_verify_cert=true to"
    " the URL, where FILE is the certificate of the authority that signed the server's"
    " (MySQL creates its own: ca.pem in its data directory), and"
    " ssl_verify_identity=true if the certificate names the host. Or, on the server's"
    " own machine, use its Unix socket, in a folder that no other account may write"
    " (unix_socket=/run/mysqld/mysqld.sock), or name the account that runs it:"
    " server_account=ACCOUNT. Or use an account of the server's with"
    " mysql_native_password, where it has that. To send the password to any server that"
    " answers there with TLS, add ssl_verify_cert=false."
)


def connect_advice(error: BaseException) -> tuple[ErrorId, str]:
    """Return the id of a connection that failed, and what to do about it."""
    number = getattr(error, "errno", None)
    if isinstance(error, Unverified):
        return ErrorId.SERVER_NOT_VERIFIED, _UNVERIFIED_HINT
    if "certificate" in str(error).lower():
        return ErrorId.SERVER_CERTIFICATE_REFUSED, (
            "Check ssl_ca in the URL, or ssl-ca in ~/.my.cnf, and the server's"
            " certificate: ssl_verify_identity needs one for the host name in the"
            " URL."
        )
    if number == INSECURE or "requires SSL" in str(error):
        return ErrorId.TLS_NEEDED, (
            "Use TLS: remove ssl_disabled from the URL and enable TLS on the server; or"
            " use the server's unix socket, with ?unix_socket=/its/path."
        )
    if isinstance(error, mysql.connector.NotSupportedError):
        return ErrorId.LOGIN_NOT_SUPPORTED, (
            "Use an account whose login the driver supports: caching_sha2_password on"
            " MySQL, mysql_native_password on MariaDB."
        )
    if isinstance(error, MISUSE):
        return ErrorId.TARGET_URL_OPTION_INVALID, (
            "Check the options in the URL; they are mysql-connector-python's."
        )
    return _advise_on_refusal(number, str(error))


def _advise_on_refusal(number: int | None, text: str) -> tuple[ErrorId, str]:
    """Return the id and the advice for a server's error, or for no answer at all."""
    if number == _ACCESS_DENIED and "(using password: NO)" in text:
        return ErrorId.PASSWORD_REFUSED, (
            "Give a password with --password-command, in DBCHECK_PASSWORD or MYSQL_PWD,"
            " or in [client] of ~/.my.cnf, which this user must be able to read."
        )
    if number == _ACCESS_DENIED:
        return ErrorId.PASSWORD_REFUSED, WRONG_PASSWORD_HINT
    if number == _NO_RIGHT_ON_DATABASE:
        return ErrorId.PRIVILEGE_MISSING, (
            "The account has no rights on that database, or its name in the URL is"
            " mistyped. dbcheck grants prints the statements that give them."
        )
    if number == _CLIENT_NOT_ALLOWED:
        return ErrorId.LOGIN_REFUSED, (
            "Create the account for the address of this client: CREATE USER"
            " name@address."
        )
    if number == _TOO_MANY_CONNECTIONS:
        return ErrorId.CONNECTION_FAILED, "Raise max_connections of the server."
    return ErrorId.CONNECTION_FAILED, UNREACHABLE_HINT
