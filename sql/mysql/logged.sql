-- line: of the server's error log since %(since_us)s, where it reports a start, a
--       shutdown, recovery, or damage; needs SELECT on performance_schema.error_log
--       (MySQL 8.0.22)
select concat('[', upper(prio), '] [', error_code, '] [', subsystem, '] ', data) as line
  from performance_schema.error_log
 where unix_timestamp(logged) * 1000000 > %(since_us)s
   and data regexp
       'shutdown|crash|recover|corrupt|checkpoint_lsn|log sequence number|^aborting|'
       'server - start|starting as process|ready for connections'
 order by logged
 limit 1001;
