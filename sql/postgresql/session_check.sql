-- name, setting: each of the settings in %(settings)s (a JSON object of name and value)
--                that has another value in this session
select key as name, pg_catalog.current_setting(key, true) as setting
  from pg_catalog.json_each_text(%(settings)s::pg_catalog.json)
 where pg_catalog.current_setting(key, true) operator(pg_catalog.<>) value;
