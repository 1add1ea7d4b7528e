-- Whether commits wait for replicas now, for how many that could answer, how often that
-- was given up, and for how many commits; of a server without the plugin no row
-- (MySQL 8.0.26; MariaDB).
show global status
where variable_name in (
    'Rpl_semi_sync_source_status', 'Rpl_semi_sync_source_clients',
    'Rpl_semi_sync_source_no_times', 'Rpl_semi_sync_source_no_tx',
    'Rpl_semi_sync_master_status', 'Rpl_semi_sync_master_clients',
    'Rpl_semi_sync_master_no_times', 'Rpl_semi_sync_master_no_tx'
);
