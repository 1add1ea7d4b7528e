"""Settings that users write: workload files, inventories' values, secrets."""
