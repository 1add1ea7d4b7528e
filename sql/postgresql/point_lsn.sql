-- The end of all that was inserted into the write-ahead log, written or not.
select pg_current_wal_insert_lsn()::text as lsn;
