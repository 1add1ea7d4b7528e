-- %(rows)s rows with an id alone, many at once; row_count: how many went in.
with added as (
    insert into dbcheck.{table} overriding user value
    select 0 from generate_series(1, %(rows)s)
    returning id
)
select count(*) as row_count from added;
