-- autocommit, sql_mode: what is in effect now
select @@session.autocommit as autocommit, @@session.sql_mode as sql_mode;
