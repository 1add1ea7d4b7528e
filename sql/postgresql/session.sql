-- Fixes, for this session, the settings in %(settings)s (a JSON object of name and
-- value) that this server has.
-- Every name has its schema, since search_path may still be anything.
select pg_catalog.set_config(key, value, false)
  from pg_catalog.json_each_text(%(settings)s::pg_catalog.json)
 where pg_catalog.current_setting(key, true) is not null;
