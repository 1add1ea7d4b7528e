-- What names the table %(name)s of %(database)s itself; no row if there is none.
-- %(folder)s: the database's name as its folder has it, which MariaDB 10.11 shows
-- identity: MyRocks' number of its primary key, a new one after TRUNCATE, a rebuild,
--           CREATE (seen on MariaDB 10.11)
select cast(index_number as char) as identity
  from information_schema.rocksdb_ddl
 where table_schema in (%(database)s, %(folder)s) and table_name = %(name)s
   and index_name = 'PRIMARY' and partition_name is null;
