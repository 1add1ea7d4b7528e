"""The time to recover: probes that commit once the server is gone, until one lasts."""
