-- id: each of the ids in %(ids)s that its primary key does not find, one search each
select wanted.id
  from unnest(%(ids)s::bigint[]) as wanted(id)
  left join lateral (
       select true as found from only dbcheck.{table} as t
        where t.id = wanted.id limit 1
       ) as t on true
 where t.found is null
 order by wanted.id;
