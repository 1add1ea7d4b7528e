-- the name by which the server that this standby follows lists it
-- (PostgreSQL 17 manual, 26.2.5: application_name, else cluster_name, else walreceiver)
-- conninfo: null if the account may not see it
select coalesce(substring(conninfo from '(?:^| )application_name=(\S+)'),
                nullif(current_setting('cluster_name'), ''), 'walreceiver') as name,
       conninfo
  from pg_stat_wal_receiver;
