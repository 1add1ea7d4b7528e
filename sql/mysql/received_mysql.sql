-- source:    server_uuid of the server that this one follows; '' if it follows none
-- executed:  the transactions that it has applied
-- unapplied: those that it has received and not applied
-- state:     ON while it is connected to that server
select coalesce(source_uuid, '') as source, @@global.gtid_executed as executed,
       gtid_subtract(received_transaction_set, @@global.gtid_executed) as unapplied,
       service_state as state
  from performance_schema.replication_connection_status
 where channel_name = '';
