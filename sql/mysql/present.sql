-- name: of each table in %(database)s that dbcheck would drop
select table_name as name
  from information_schema.tables
 where table_schema = %(database)s and table_name in
       ('canary', 'district', 'fs', 'identity', 'item', 'ledger', 'marker',
        'neworder', 'orderline', 'orders', 'outage', 'register', 'side1', 'side2',
        'warehouse')
   and table_type = 'BASE TABLE' and table_comment = 'dbcheck 1'
 order by table_name;
