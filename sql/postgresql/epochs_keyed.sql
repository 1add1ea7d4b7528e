-- epoch: of earlier cycles; rows: what it left; row_id_max: its highest id
-- weight: sum of id times checksum, exact
select epoch, count(*) as rows, max(id) as row_id_max,
       sum(id::numeric * checksum) as weight
  from only dbcheck.{table} group by epoch;
