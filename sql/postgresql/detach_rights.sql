-- Whose connections a control cannot end: of standbys, and not by this account
-- (PostgreSQL 17 manual, 9.28.2 Server Signaling Functions: pg_terminate_backend).
-- account: who asks, quoted.  by_superuser: only a superuser may end them
select quote_ident(current_user) as account, bool_or(u.rolsuper) as by_superuser
  from pg_stat_replication r
  join pg_roles u on u.oid = r.usesysid
 where not (select rolsuper from pg_roles where rolname = current_user)
   and (u.rolsuper or not (pg_has_role(current_user, u.oid, 'usage')
                           or pg_has_role(current_user, 'pg_signal_backend', 'usage')))
having count(*) > 0;
