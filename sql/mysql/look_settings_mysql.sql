-- Those of %(names)s (separated by commas) that are set for the whole server.
-- name, value: in lower case; as SHOW GLOBAL VARIABLES and SHOW GLOBAL STATUS give them
-- set_time: when it was last set while the server runs, null if it was not (MySQL 8.4
--           manual, 29.12.14.2 The variables_info Table); every account may see it
select lower(v.variable_name) as name, v.variable_value as value,
       cast(i.set_time as char) as set_time
  from performance_schema.global_variables v
  join performance_schema.variables_info i on i.variable_name = v.variable_name
 where find_in_set(lower(v.variable_name), %(names)s)
union all
select lower(variable_name), variable_value, null
  from performance_schema.global_status
 where find_in_set(lower(variable_name), %(names)s);
