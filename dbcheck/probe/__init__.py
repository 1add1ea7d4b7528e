"""Measures flushes and latencies of commits, and how deep a cut of an idle host is."""
