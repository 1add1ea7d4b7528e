-- epoch: always 0; row_count: all there are; row_id_max: the highest id; weight: null
select 0 as epoch, count(*) as row_count, coalesce(max(id), 0) as row_id_max,
       null as weight
  from {table};
