-- the standbys that commits wait for, as the configuration has them
select current_setting('synchronous_standby_names') as names;
