-- The columns of the relation named %(name)s in schema dbcheck, in their order.
-- column: name; type: as PostgreSQL writes it
select a.attname::text as "column", format_type(a.atttypid, a.atttypmod) as type
  from pg_attribute a
  join pg_class c on c.oid = a.attrelid
  join pg_namespace n on n.oid = c.relnamespace
 where n.nspname = 'dbcheck' and c.relname = %(name)s
   and a.attnum > 0 and not a.attisdropped
 order by a.attnum;
