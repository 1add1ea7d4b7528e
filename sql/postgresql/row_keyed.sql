-- The row with the id %(id)s, if it is there; columns as in create_ledger.sql.
select id, epoch, session, seq, part, payload, checksum
  from only dbcheck.{table} where id = %(id)s;
