-- The row with the id %(id)s, if it is there, with what the other columns of a ledger
-- would be.
select id, 0, 0, 0, 0, '', 0 from only dbcheck.{table} where id = %(id)s;
