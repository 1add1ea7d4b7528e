-- rows:   how many there are, by the server's own count
-- digest: of their ids, as engines.rowsread has it
-- Read from the table or from its primary key, as the session's settings decide.
select count(id) as rows,
       coalesce(sum((id % 1048573) * (id % 65521)), 0)::text as digest
  from only dbcheck.{table};
