-- A row while this server tries to join its replication group, as it may do by itself
-- after its start, and while it is a member.
select name
  from performance_schema.threads
 where name in (
    'thread/group_rpl/THD_applier_module_receiver',
    'thread/group_rpl/THD_delayed_initialization'
);
