"""CHECK TABLE, and what its messages say."""

from __future__ import annotations

from collections.abc import Sequence

from dbcheck.base.errors import IndexDamaged
from dbcheck.engines.link import SCAN_S
from dbcheck.engines.mysql.index import require_indexes
from dbcheck.engines.mysql.link import MysqlLink
from dbcheck.model.server import CheckOutcome, TableCheck
from dbcheck.rows.table import TableSpec

_SOUND, _CORRUPT = "OK", "Corrupt"  # sql/sql_admin.cc, HA_ADMIN_OK and HA_ADMIN_CORRUPT


def check(link: MysqlLink, tables: Sequence[TableSpec]) -> TableCheck:
    """Check the tables one after the other; stop at the first that is not sound.

    First the indexes are compared with the tables, as far as the server alone can:
    CHECK TABLE of MySQL 9.7 passes an index whose entries were marked as deleted.

    InnoDB's table is an index, too: what CHECK TABLE calls corrupt is an index that has
    another number of rows than the table, or whose pages do not fit together.  InnoDB
    marks it, so that no query uses it any more (MySQL 8.4 manual, 15.7.3.2).
    """
    try:
        link.rows("snapshot")
        for table in tables:
            ((count,),) = link.rows(f"count_{table.name}", answer_s=SCAN_S)
            require_indexes(link, table, count)
    except IndexDamaged as error:
        return TableCheck(CheckOutcome.INDEX, str(error))
    for table in tables:  # it ends the transaction
        messages = [
            (kind.lower(), text)
            for *_, kind, text in link.rows(f"check_{table.name}", answer_s=SCAN_S)
        ]
        *_, last = [text for _, text in messages] or [""]
        if last == _SOUND:
            continue
        said = "; ".join(t for kind, t in messages if kind in ("error", "warning"))
        reason = f"CHECK TABLE of {table.name}: {said or last}"
        outcome = CheckOutcome.INDEX if last == _CORRUPT else CheckOutcome.NOT_DONE
        return TableCheck(outcome, reason)
    names = ", ".join(table.name for table in tables)
    return TableCheck(
        CheckOutcome.SOUND, f"CHECK TABLE finds nothing wrong with {names}"
    )
