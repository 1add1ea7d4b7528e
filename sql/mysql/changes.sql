-- what, changes: how often the server was asked to change something by which rows of a
--                table can be changed (MySQL 8.4 manual, 7.1.10, Com_xxx)
-- Every account may see it.
show global status
 where variable_name in
       ('Com_create_trigger', 'Com_drop_trigger', 'Com_rename_table');
