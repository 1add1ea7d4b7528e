-- the name by which the server that this standby follows lists it
-- (PostgreSQL 17 manual, 26.2.5: application_name, else cluster_name, else walreceiver)
-- conninfo: null if the account may not see it
-- connection: the slot that it uses there, '' without one
-- sender_host, sender_port: where it receives from
-- own: the address at which this session reached this server
-- targets: settings that end recovery before all that was received is replayed
select coalesce(substring(conninfo from '(?:^| )application_name=(\S+)'),
                nullif(current_setting('cluster_name'), ''), 'walreceiver') as name,
       conninfo,
       (select string_agg(name, ', ') from pg_settings
         where name in ('recovery_target', 'recovery_target_lsn',
                        'recovery_target_name', 'recovery_target_time',
                        'recovery_target_xid')
           and setting <> '') as targets,
       coalesce('slot ' || slot_name, '') as connection,
       coalesce(sender_host, '') as sender_host,
       coalesce(sender_port, 0) as sender_port,
       coalesce(host(inet_server_addr()), '') as own
  from pg_stat_wal_receiver;
