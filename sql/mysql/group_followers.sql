-- As group_members.sql, and with since: the view, which has another name after each
-- change of the members (MySQL 8.0, replication_group_member_stats).
select member_id as name, member_state as state,
       coalesce((select max(view_id)
                   from performance_schema.replication_group_member_stats
                  where channel_name = 'group_replication_applier'), '') as since
  from performance_schema.replication_group_members
 where member_id <> '' and member_state <> 'OFFLINE';
