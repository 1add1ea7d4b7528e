-- Whether commits wait for replicas now, and for how many that could answer; of a
-- server without the plugin no row (MySQL 8.0.26; MariaDB).
show global status
where variable_name in (
    'Rpl_semi_sync_source_status', 'Rpl_semi_sync_source_clients',
    'Rpl_semi_sync_master_status', 'Rpl_semi_sync_master_clients'
);
