-- the server that this standby receives from; no row if it is connected to none
select status, sender_host, sender_port from pg_stat_wal_receiver;
