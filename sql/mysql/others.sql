-- what: each database of others that this account may see, and each table of others in
-- %(database)s; "mysql" is there if it may see all (SHOW DATABASES).  MariaDB lists the
-- folder lost+found of an ext4 filesystem, which is no database.
select schema_name as what
  from information_schema.schemata
 where schema_name not in
       (%(database)s, 'information_schema', 'performance_schema', 'sys',
        '#mysql50#lost+found')
union
select concat(table_schema, '.', table_name)
  from information_schema.tables
 where table_schema = %(database)s and table_comment <> 'dbcheck 1'
 order by 1;
