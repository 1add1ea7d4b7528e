-- For a control: ends the connections of standbys, by the names that the writer lists.
-- ended: whether the process that serves the standby was asked to end
select pg_terminate_backend(pid) as ended
  from pg_stat_replication
 where application_name = any(%(names)s);
