-- The newest rows of an epoch, the newest first, with nothing but their keys.
-- after: only rows with a higher id
-- limit: 1000, so that a reader that falls behind still reads the newest
select id, session, seq
  from dbcheck.{table}
 where id > %(after)s and epoch = %(epoch)s
 order by id desc
 limit 1000;
