-- how this standby reaches its source; '' without a source
select current_setting('primary_conninfo') as conninfo;
