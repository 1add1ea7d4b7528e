-- Whether clients may write: OFF each.  A server lacks those that its product lacks.
-- offline_mode: ON where a member of a group left it, and lets no client in
show global variables
where variable_name in (
    'read_only', 'super_read_only', 'innodb_read_only', 'offline_mode'
);
