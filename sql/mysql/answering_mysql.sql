-- Which server answers in this connection.
-- started_s: second in which it started; Uptime counts to that in which this began
select @@server_uuid as server_uuid, @@hostname as hostname, @@datadir as datadir,
       @@port as port, @@version as version,
       cast(unix_timestamp() - variable_value as signed) as started_s
  from performance_schema.global_status
 where variable_name = 'Uptime';
