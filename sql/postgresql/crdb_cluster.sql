-- cluster_id: drawn when the cluster was made; node_id: of the node that answers
-- (CockroachDB documentation, Functions and Operators, System info functions; from 25.4
-- on only with allow_unsafe_internals)
select crdb_internal.cluster_id()::text as cluster_id,
       crdb_internal.node_id()::text as node_id;
