-- What shows that other servers gave this one rows since its process started.  It needs
-- no privilege.
-- Com_...: how often the statement was run, also where it failed
--          (MySQL 9.7 manual, 7.1.10 Server Status Variables, Com_xxx)
-- Gr_total_messages_sent_count: more than 0 once it was in a group (MySQL 8.1), until
--          the next START GROUP_REPLICATION, which sets it to 0, also where it fails
-- wsrep_connected: ON in a Galera cluster, also while wsrep_on is OFF
show global status
where variable_name in (
    'Com_group_replication_start', 'Gr_total_messages_sent_count',
    'Com_replica_start', 'Com_slave_start',
    'Com_start_slave', 'Com_start_all_slaves',
    'wsrep_connected'
);
