"""Hosts near and far: connections, programs sent there, how hosts are distinguished."""
