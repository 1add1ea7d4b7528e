-- epoch: always 0; rows: how many there are; row_id_max: the highest id; weight: null
select 0::bigint as epoch, count(*) as rows, coalesce(max(id), 0) as row_id_max,
       null as weight
  from only dbcheck.{table};
