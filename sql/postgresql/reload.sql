-- the server reads its configuration again
select pg_reload_conf();
