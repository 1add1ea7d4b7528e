-- How many rows of the table %(name)s of schema dbcheck were deleted since the server
-- started; no row if the count may be older, as after a shutdown, which keeps it.
-- Recovery from a crash discards all counts (PostgreSQL 17 manual, 27.2 The Cumulative
-- Statistics System), and sets stats_reset anew (pgstat.c: pgstat_reset_after_failure;
-- up to 14: pgstat_reset_all).
-- deleted: also by transactions that were rolled back; without those of the last
--          seconds in sessions that are still open
select n_tup_del as deleted
  from pg_stat_all_tables
 where schemaname = 'dbcheck' and relname = %(name)s
   and (select stats_reset from pg_stat_bgwriter) >= pg_postmaster_start_time();
