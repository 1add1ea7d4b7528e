"""What users configure: workload files, values of files, secrets."""
