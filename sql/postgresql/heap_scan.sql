-- Forbids indexes until the transaction ends: an index may hold what the heap lost.
select set_config('enable_seqscan', 'on', true),
       set_config('enable_indexscan', 'off', true),
       set_config('enable_indexonlyscan', 'off', true),
       set_config('enable_bitmapscan', 'off', true);
