-- A row if another server's data were cloned over this server's since %(since_us)s, in
-- microseconds since the epoch.  Needs SELECT on performance_schema.clone_status, which
-- is there with the clone plugin, and keeps its row over restarts (MySQL 8.0.17).
-- performance_schema = OFF leaves it empty.
-- begun: by this server's clock
select cast(begin_time as char) as begun
  from performance_schema.clone_status
 where unix_timestamp(begin_time) * 1000000 > %(since_us)s
   and destination = 'LOCAL INSTANCE';
