-- Which server answers in this connection.  Stable functions alone, and no table: what
-- spreads statements over a primary and its standbys sends others to the primary.
-- started_us: as in facts.sql
-- standby:    it follows another server (false before PostgreSQL 14)
select (extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint as started_us,
       coalesce(current_setting('in_hot_standby', true), 'off') = 'on' as standby;
