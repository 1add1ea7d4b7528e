-- The members in this member's view of its replication group, a row each, its own among
-- them; none while it has not joined (MySQL 8.0).  UNREACHABLE is one that it cannot
-- reach and that was not expelled yet.
select member_id, member_state
  from performance_schema.replication_group_members
 where member_id <> '' and member_state <> 'OFFLINE';
