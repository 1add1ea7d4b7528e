-- id: of the rows that the index item_key does not find, one search for each row
select t.id
  from item as t force index (primary)
  left join item as found force index (item_key)
    on found.epoch = t.epoch and found.session = t.session and found.seq = t.seq
       and found.part = t.part
 where found.id is null or found.id <> t.id
 order by t.id
 limit 100000;
