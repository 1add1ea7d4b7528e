-- loaded: when the server last loaded its configuration files (PostgreSQL 17 manual,
--         9.27, pg_conf_load_time)
select pg_catalog.pg_conf_load_time()::text as loaded;
