-- Who has, or waits for, a lock on a table of %(database)s that no reader passes (MySQL
-- 8.4 manual, 29.12.13.3 The metadata_locks Table).
-- id: of the connection; what: which lock; state: GRANTED or PENDING
select t.processlist_id as id, t.processlist_user as account,
       concat(m.lock_type, ' on ', m.object_name) as what, m.lock_status as state
  from performance_schema.metadata_locks m
  join performance_schema.threads t on t.thread_id = m.owner_thread_id
 where m.object_type = 'TABLE' and m.object_schema = %(database)s
   and m.lock_type in ('EXCLUSIVE', 'SHARED_NO_READ_WRITE')
   and t.processlist_id <> connection_id()
 limit 5;
