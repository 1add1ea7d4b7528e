-- timeline: of the log that is being written, in hexadecimal
-- history: where it left its parents, a line each; null if that file is not there
select tli as timeline, pg_read_file('pg_wal/' || tli || '.history', 0, 65536, true)
  from (select left(pg_walfile_name(pg_current_wal_lsn()), 8) as tli) as current;
