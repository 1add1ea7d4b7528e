-- For the sessions of a control of a cluster: what they commit is not replicated.
set session sql_log_bin = 0;
