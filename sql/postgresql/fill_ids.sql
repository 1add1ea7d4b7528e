-- %(rows)s rows with an id alone, many at once; row_count: how many went in.
with added as (
    insert into dbcheck.{table}
    select nextval(pg_get_serial_sequence('dbcheck.{table}', 'id'))
      from generate_series(1, %(rows)s)
    returning id
)
select count(*) as row_count from added;
