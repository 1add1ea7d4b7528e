"""The pods of a database on Kubernetes: where each runs, and what its data lie on."""
