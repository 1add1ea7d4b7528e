-- What names the table %(name)s in the folder %(folder)s itself; no row if there is
-- none.  For accounts with the privilege PROCESS (MySQL 8.4, INFORMATION_SCHEMA
-- INNODB_TABLES Table).
-- identity: InnoDB's number of the table, a new one after TRUNCATE, a rebuild, CREATE;
--           create_time of information_schema.tables stays what it was after TRUNCATE
select cast(table_id as char) as identity
  from information_schema.innodb_tables
 where name = concat(%(folder)s, '/', %(name)s);
