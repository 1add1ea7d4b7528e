-- connections: of other clients, replicas among them; whoever may not see what kind a
-- process is (backend_type is null then) sees whether it has a user and a database
select count(*) as connections
  from pg_stat_activity
 where pid <> pg_backend_pid()
   and (backend_type in ('client backend', 'walsender')
        or (backend_type is null and usename is not null and datname is not null));
