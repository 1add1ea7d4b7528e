-- The table %(name)s of %(database)s; no row if there is none.
-- version: another one whenever somebody altered the table, if only its comment, or
--          rewrote it; CHECK, ANALYZE and triggers leave it as it is (seen on
--          MariaDB 10.11, where it is the ctime of the .frm file, and on MySQL 9.7);
--          '' if the storage engine shows none
select coalesce(cast(create_time as char), '') as version
  from information_schema.tables
 where table_schema = %(database)s and table_name = %(name)s;
