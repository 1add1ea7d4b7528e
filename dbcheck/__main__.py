"""`python -m dbcheck` is `dbcheck`."""

from dbcheck.cli import main

main()
