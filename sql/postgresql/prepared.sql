-- name: of each transaction that is prepared in this database
select gid as name
  from pg_prepared_xacts
 where database = current_database()
 order by gid;
