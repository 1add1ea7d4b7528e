-- How many messages of its replication group this member has received and not handled.
-- A transaction is handled once it is in the relay log.
select coalesce(sum(count_transactions_in_queue), 0) as queued
  from performance_schema.replication_group_member_stats
 where member_id = @@server_uuid;
