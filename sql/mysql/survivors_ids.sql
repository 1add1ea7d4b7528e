-- Every id, with what the other columns of a ledger would be.
select id, 0, 0, 0, 0, '', 0 from {table} force index (primary);
