-- what: each database, and each schema of this database, with tables of others; a
-- template and the empty one that initdb makes (postgres) are none
select datname as what
  from pg_database
 where not datistemplate and datname not in ('postgres', current_database())
union
select current_database() || '.' || n.nspname
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
 where c.relkind in ('r', 'p', 'm')
   and n.nspname not in ('pg_catalog', 'information_schema')
   and n.nspname !~ '^pg_(temp_|toast)'
   and obj_description(c.oid, 'pg_class') is distinct from 'dbcheck 1'
 order by 1;
