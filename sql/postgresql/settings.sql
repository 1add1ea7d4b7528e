-- All settings in effect in this session that its account may see.
-- name, setting: as in pg_settings, numbers in the setting's base unit
select name, setting from pg_settings;
