"""Inventories: Ansible's files in, one frozen and validated object for each target out.

What is taken from Ansible: its YAML format, groups, ranges of hosts, group_vars/ and
host_vars/, and which of several values wins (ansible-core 2.19, "Understanding
variable precedence").
"""
