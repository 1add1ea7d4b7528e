-- Begins another file of WAL, if the current one holds anything.
select pg_switch_wal();
