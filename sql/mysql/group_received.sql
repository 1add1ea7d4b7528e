-- executed:  the transactions that this member of a replication group has applied
-- unapplied: those that are in its relay log, and not applied
select @@global.gtid_executed as executed,
       coalesce(
           (select gtid_subtract(received_transaction_set, @@global.gtid_executed)
              from performance_schema.replication_connection_status
             where channel_name = 'group_replication_applier'),
           ''
       ) as unapplied;
