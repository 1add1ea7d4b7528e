-- Those of %(names)s (separated by commas) that are set for the whole server.
-- name, value: in lower case; as SHOW GLOBAL VARIABLES gives them
-- set_time: null: MariaDB does not show when a variable was set
select lower(variable_name) as name, variable_value as value, null as set_time
  from information_schema.global_variables
 where find_in_set(lower(variable_name), %(names)s);
