"""A virtual drive with a volatile write cache, served as a file."""
