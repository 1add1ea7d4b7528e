-- row_count: how many there are, by the server's own count
select count(*) as row_count from {table} force index (primary);
