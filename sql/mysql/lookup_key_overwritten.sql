-- id: of the rows that the index {key} does not find, one search for about
--     every %(stride)sth, by a checksum: ids may all be odd (auto_increment_increment)
-- MySQL's hypergraph optimizer would join by a hash, without a search
select /*+ set_var(optimizer_switch = 'hypergraph_optimizer=off') */
       t.id
  from {table} as t force index (primary)
  left join {table} as found force index ({key})
    on found.epoch = t.epoch and found.session = t.session and found.part = t.part
 where mod(crc32(t.id), %(stride)s) = 0 and (found.id is null or found.id <> t.id)
 order by t.id
 limit 100000;
