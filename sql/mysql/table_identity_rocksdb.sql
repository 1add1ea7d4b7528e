-- What names the table %(name)s of %(database)s itself; no row if there is none.
-- identity: MyRocks' number of its primary key, a new one after TRUNCATE, a rebuild,
--           CREATE (seen on MariaDB 10.11)
select cast(index_number as char) as identity
  from information_schema.rocksdb_ddl
 where table_schema = %(database)s and table_name = %(name)s
   and index_name = 'PRIMARY' and partition_name is null;
