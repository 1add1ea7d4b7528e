-- uuid: server_uuid; executed: the transactions that were applied or begun here
select @@server_uuid as uuid, @@global.gtid_executed as executed;
