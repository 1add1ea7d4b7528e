-- The consistency conditions of TPC-C 5.11, 3.3.2.1 to 3.3.2.4, as far as the rows of
-- %(epoch)s break them: no row if they hold.
-- condition: its number
-- session, place: of the warehouse and the district, or of the order's operation
-- found, expected: the two sides of the equation; null as 0
select 1 as "condition", w.session, 0 as place, w.ytd as found,
       coalesce(d.total, 0) as expected
  from dbcheck.warehouse w
  left join (select session, sum(ytd) as total from dbcheck.district
              where epoch = %(epoch)s group by session) d on d.session = w.session
 where w.epoch = %(epoch)s and w.ytd <> coalesce(d.total, 0)
union all
select 2, d.session, d.part, d.next_order - 1, coalesce(o.newest, 0)
  from dbcheck.district d
  left join (select session, district, max(number) as newest from dbcheck.orders
              where epoch = %(epoch)s group by session, district) o
    on o.session = d.session and o.district = d.part
 where d.epoch = %(epoch)s and d.next_order - 1 <> coalesce(o.newest, 0)
union all
select 2, d.session, d.part, d.next_order - 1, coalesce(n.newest, 0)
  from dbcheck.district d
  left join (select session, district, max(number) as newest from dbcheck.neworder
              where epoch = %(epoch)s group by session, district) n
    on n.session = d.session and n.district = d.part
 where d.epoch = %(epoch)s and d.next_order - 1 <> coalesce(n.newest, 0)
union all
select 3, n.session, n.district, max(n.number) - min(n.number) + 1, count(*)
  from dbcheck.neworder n
 where n.epoch = %(epoch)s
 group by n.session, n.district
having max(n.number) - min(n.number) + 1 <> count(*)
union all
select 4, o.session, o.seq, o.line_count, count(l.id)
  from dbcheck.orders o
  left join dbcheck.orderline l
    on l.epoch = o.epoch and l.session = o.session and l.seq = o.seq
 where o.epoch = %(epoch)s
 group by o.id, o.session, o.seq, o.line_count
having o.line_count <> count(l.id)
 order by 1, 2, 3
 limit 100;
