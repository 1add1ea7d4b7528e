"""Inventories: Ansible's files in, one frozen and validated object for each target out.

A plain YAML file is read by `yaml_file.py`, which never guesses; all else by
ansible-inventory (`listed.py`), whatever its format.  What dbcheck_* variables mean,
and {{ variable }} in them, is dbcheck's.
"""
