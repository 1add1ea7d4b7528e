-- Which server answers in this connection.
-- started_s: second in which it started; Uptime counts to that in which this began
select @@server_id as server_id, @@hostname as hostname, @@datadir as datadir,
       @@port as port, @@version as version,
       cast(unix_timestamp() - variable_value as signed) as started_s
  from information_schema.global_status
 where variable_name = 'Uptime';
