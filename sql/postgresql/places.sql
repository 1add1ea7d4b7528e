-- Where a table of schema dbcheck lies, or would be created, and where the catalogs
-- of this database do.
-- what:     "table" or "database"
-- location: of the tablespace: absolute, or relative to the data directory (PostgreSQL
--           15, allow_in_place_tablespaces); "" for pg_default, which is in "base"
with chosen (what, space) as (
    select 'table', coalesce(
        (select coalesce(nullif(c.reltablespace, 0), d.dattablespace)
           from pg_class c
           join pg_namespace n on n.oid = c.relnamespace
          where n.nspname = 'dbcheck' and c.relname = %(name)s),
        (select oid from pg_tablespace
          where spcname = current_setting('default_tablespace')),
        d.dattablespace)
      from pg_database d where d.datname = current_database()
    union all
    select 'database', dattablespace
      from pg_database where datname = current_database()
)
select what, pg_tablespace_location(space) as location from chosen;
