-- Whether this replica acknowledges commits; no row without the plugin (MySQL 8.0.26;
-- MariaDB).
show global status
where variable_name in ('Rpl_semi_sync_replica_status', 'Rpl_semi_sync_slave_status');
