-- Which of the transactions *theirs* this member has neither applied nor in its relay
-- log.
select gtid_subtract(
           gtid_subtract(%(theirs)s, @@global.gtid_executed),
           coalesce(
               (select received_transaction_set
                  from performance_schema.replication_connection_status
                 where channel_name = 'group_replication_applier'),
               ''
           )
       ) as lacking;
