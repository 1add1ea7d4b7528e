-- name: of each thing that dbcheck would drop, in the order of dropping
select 'dbcheck.' || c.relname
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
 where n.nspname = 'dbcheck' and c.relkind = 'r'
   and c.relname in ('canary', 'ledger', 'item', 'register', 'fs', 'side1', 'side2',
                     'warehouse', 'district', 'orders', 'neworder', 'orderline',
                     'outage')
   and obj_description(c.oid, 'pg_class') = 'dbcheck 1'
 order by c.relname;
