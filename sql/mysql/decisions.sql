-- what, times: how often the server was asked to commit prepared transactions, and to
--              roll them back, since it started; also where it refused (MySQL 8.4
--              manual, 7.1.10, Com_xxx)
-- Every account may see it.
show global status
 where variable_name in ('Com_xa_commit', 'Com_xa_rollback');
