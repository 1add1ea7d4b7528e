-- Those of %(names)s (an array) that this session has, as in settings.sql
select name, setting from pg_catalog.pg_settings where name = any(%(names)s);
