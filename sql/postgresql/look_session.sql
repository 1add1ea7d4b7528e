-- Those of $1 (an array of names) that this session has, none of which has a unit.
-- name, setting: as in settings.sql; null: this version has none of that name
select name, pg_catalog.current_setting(name, true) as setting
  from pg_catalog.unnest($1::pg_catalog.text[]) as name;
