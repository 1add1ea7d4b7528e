"""Inventories: Ansible's files in, one frozen and validated object for each target out.

ansible-inventory reads the files and merges their variables (`listed.py`), whatever
their format.  What dbcheck_* variables mean, and {{ variable }} in them, is dbcheck's.
"""
