-- rows:   how many the index {key} has, by the server's own count
-- digest: of their keys, as engines.rowsread has it
-- MySQL's hypergraph optimizer cannot show its plan in the traditional format
select /*+ set_var(optimizer_switch = 'hypergraph_optimizer=off') */
       count(*) as row_count,
       cast(coalesce(sum((epoch % 1048573) * ((session * 40009 + part) % 65521)), 0)
            as char) as digest
  from {table} force index ({key});
