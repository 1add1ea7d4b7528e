-- Checks each index of the table, and that it has an entry of each row; else an error.
select bt_index_check(indexrelid::regclass, true)
  from pg_index
 where indrelid = 'dbcheck.{table}'::regclass and indisvalid;
