-- Other connections that use %(database)s: MariaDB shows who has a lock on a table only
-- with the plugin metadata_lock_info.  Those of other accounts need PROCESS.
-- id: of the connection; what: what it does; state: in which state
select id, user as account, command as what, state
  from information_schema.processlist
 where db = %(database)s and id <> connection_id()
 order by time desc
 limit 5;
