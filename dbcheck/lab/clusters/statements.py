"""Runs statements that make a server of a lab one of a cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import mysql.connector
import psycopg2
from sqlalchemy.engine import make_url

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError
from dbcheck.lab.certificates import in_memory, path_of
from dbcheck.lab.lab import Lab
from dbcheck.lab.servers.base import USER

_CONNECT_S, _STATEMENT_S = 10, 60


def run_statements(lab: Lab, statements: Sequence[str], **values: object) -> None:
    """Run these on the server of *lab*; raise LabError.

    values: what stands for {name} in them; user, password and authority, the file by
    which the server knows others, are the lab's own.
    """
    own = {"user": USER, "password": lab.password, "authority": lab.authority_file}
    filled = [each.format(**own, **values) for each in statements]
    run = _on_postgresql if lab.spec.engine == "postgresql" else _on_mysql
    try:
        run(lab, filled)
    except (mysql.connector.Error, psycopg2.Error) as error:
        text = str(error).strip().replace(lab.password, "***")
        raise LabError(
            f"{lab.name}: a statement failed: {text}", id=ErrorId.STATEMENT_FAILED
        ) from None


def _on_mysql(lab: Lab, statements: Sequence[str]) -> None:
    """Run them on the server that the cluster's authority vouches for, and on no other.

    Another may listen at its port while it is off.
    """
    url = make_url(lab.target_url)
    with in_memory(lab.authority) as (authority,):
        link = mysql.connector.connect(
            host=url.host,
            port=url.port or 0,
            user=USER,
            password=lab.password,
            ssl_ca=str(path_of(authority)),
            ssl_verify_cert=True,
            # The driver trusts the system's authorities as well; they have certificates
            # for anyone, but for no 127.0.0.1.
            ssl_verify_identity=True,
        )
    with contextlib.closing(link), contextlib.closing(link.cursor()) as cursor:
        for statement in statements:
            cursor.execute(statement)


def _on_postgresql(lab: Lab, statements: Sequence[str]) -> None:
    """Run them on a server that knows the password, too, as SCRAM has it prove."""
    url = make_url(lab.target_url)
    link = psycopg2.connect(
        host=url.host,
        port=url.port,
        user=USER,
        password=lab.password,
        require_auth="scram-sha-256",
        dbname=url.database,
        connect_timeout=_CONNECT_S,
        options=f"-c statement_timeout={_STATEMENT_S}s",
    )
    with contextlib.closing(link):
        link.autocommit = True
        with link.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
