-- How many messages of its replication group this member has received and not handled.
-- A transaction is handled once it is in the relay log.  No row while that is unknown.
select count_transactions_in_queue as queued
  from performance_schema.replication_group_member_stats
 where member_id = @@server_uuid and view_id <> '';
