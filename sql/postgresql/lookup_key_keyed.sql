-- id: of each of %(rows)s, a JSON array of [id, epoch, session, seq, part], that the
--     index {key} does not find, one search each
select (wanted.value ->> 0)::bigint as id
  from json_array_elements(%(rows)s::json) as wanted(value)
  left join lateral (
       select t.id from only dbcheck.{table} as t
        where t.epoch = (wanted.value ->> 1)::bigint
          and t.session = (wanted.value ->> 2)::integer
          and t.seq = (wanted.value ->> 3)::bigint
          and t.part = (wanted.value ->> 4)::smallint
        limit 1
       ) as found on true
 where found.id is distinct from (wanted.value ->> 0)::bigint
 order by 1;
