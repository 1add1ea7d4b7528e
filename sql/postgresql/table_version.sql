-- What changes whenever somebody alters the table %(name)s of schema dbcheck, or puts
-- another one in its place; no row if there is none.
-- columns: which transactions wrote its rows of pg_attribute anew since it was created,
--          as those of its system columns were not
-- version: its OID, and which transaction wrote its row of pg_class: the last one that
--          rewrote or altered it, or made its first trigger, rule or child.  VACUUM and
--          ANALYZE overwrite that row in place (PostgreSQL 17, heapam.c,
--          heap_inplace_update; trigger.c, CreateTriggerFiringOn)
select 'as created' || coalesce((
       select string_agg(distinct ', ' || a.xmin::text, '')
         from pg_attribute a
         join pg_attribute s on s.attrelid = a.attrelid and s.attname = 'ctid'
        where a.attrelid = c.oid and a.xmin::text <> s.xmin::text), '') as columns,
       c.oid::text || ' ' || c.xmin::text as version
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
 where n.nspname = 'dbcheck' and c.relname = %(name)s;
