-- names, commits: the settings by which a commit waits for a standby
-- standbys: that are connected and may answer it; an account that may not see their
--           state sees that they are there
select current_setting('synchronous_standby_names') as names,
       current_setting('synchronous_commit') as commits,
       (select count(*) from pg_stat_replication
         where coalesce(sync_state, 'sync') in ('sync', 'quorum')) as standbys;
