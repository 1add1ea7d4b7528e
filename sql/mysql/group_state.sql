-- In which state this server is in its replication group; no row while it is in none
-- (MySQL 9.7 manual, 20.4.2 Group Replication Server States).
select member_state
  from performance_schema.replication_group_members
 where member_id = @@server_uuid and member_state <> 'OFFLINE';
