"""Judges the restored copy of a server; touches no server, file or clock."""
