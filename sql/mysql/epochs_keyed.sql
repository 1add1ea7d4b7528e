-- epoch: of earlier cycles; row_count: what it left; row_id_max: its highest id
-- weight: sum of id times checksum, exact
select epoch, count(*) as row_count, max(id) as row_id_max,
       sum(cast(id as decimal(20)) * checksum) as weight
  from {table} group by epoch;
