-- version:    e.g. 15.18
-- version_num: e.g. 150018
-- started_us: when the postmaster started, microseconds since the epoch
-- database:   name and oid of the database that this connection is in
-- platform:   the whole of version(), which names the system it was built for
-- clock_us:   the server's clock now, microseconds since the epoch
-- standby:    true while it is in recovery
select current_setting('server_version') as version,
       current_setting('server_version_num') as version_num,
       (extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint as started_us,
       (select datname || ' ' || oid from pg_database
         where datname = current_database()) as database,
       (extract(epoch from clock_timestamp()) * 1000000)::bigint as clock_us,
       version() as platform,
       pg_is_in_recovery() as standby;
