-- Makes a restore point: a record of the write-ahead log with that name.
select pg_create_restore_point(%(name)s)::text as lsn;
