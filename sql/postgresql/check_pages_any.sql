-- page, item: where the table's first damaged page has a damaged item
-- message:    what is wrong with it
select blkno as page, offnum as item, msg as message
  from verify_heapam('dbcheck.{table}'::regclass, on_error_stop => true)
 limit 1;
