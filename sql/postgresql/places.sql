-- Where a table of schema dbcheck and its primary key lie, or would be created, and
-- where the catalogs of this database do.
-- what:     "table", "index" or "database"
-- location: of the tablespace: absolute, or relative to the data directory (PostgreSQL
--           15, allow_in_place_tablespaces); "" for pg_default, which is in "base"
-- file:     of the relation, relative to the data directory; "" before it is made
with relation (what, id) as (
    select 'database', 'pg_catalog.pg_class'::regclass::oid
    union all
    select 'table', c.oid
      from pg_class c
      join pg_namespace n on n.oid = c.relnamespace
     where n.nspname = 'dbcheck' and c.relname = %(name)s
    union all
    select 'index', i.indexrelid
      from pg_index i
      join pg_class c on c.oid = i.indrelid
      join pg_namespace n on n.oid = c.relnamespace
     where n.nspname = 'dbcheck' and c.relname = %(name)s and i.indisprimary
), chosen (what, space, file) as (
    select r.what, coalesce(nullif(c.reltablespace, 0), d.dattablespace),
           coalesce(pg_relation_filepath(r.id), '')
      from relation r
      join pg_class c on c.oid = r.id
      join pg_database d on d.datname = current_database()
    union all
    select made.what, coalesce(
        (select oid from pg_tablespace
          where spcname = current_setting('default_tablespace')),
        d.dattablespace), ''
      from (values ('table'), ('index')) as made (what)
      join pg_database d on d.datname = current_database()
     where made.what not in (select what from relation)
)
select what, pg_tablespace_location(space) as location, file from chosen;
