-- row_count: how many there are, by the server's own count
select count(*) as row_count from ledger force index (primary);
