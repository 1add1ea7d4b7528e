"""Runs statements that make a MySQL or MariaDB server of a lab one of a cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import mysql.connector
from sqlalchemy.engine import make_url

from dbcheck.errors import LabError
from dbcheck.lab.lab import Lab
from dbcheck.lab.servers.base import USER


def run_statements(lab: Lab, statements: Sequence[str], **values: object) -> None:
    """Run these on the server of *lab*; raise LabError.

    values: what stands for {name} in them; user and password are the lab's own.
    """
    url = make_url(lab.target_url)
    try:
        link = mysql.connector.connect(
            host=url.host, port=url.port or 0, user=USER, password=lab.password
        )
        with contextlib.closing(link), contextlib.closing(link.cursor()) as cursor:
            for statement in statements:
                cursor.execute(
                    statement.format(user=USER, password=lab.password, **values)
                )
    except mysql.connector.Error as error:
        text = str(error).replace(lab.password, "***")
        raise LabError(f"{lab.name}: the cluster could not be formed: {text}") from None
