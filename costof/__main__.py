"""`python -m costof`."""

from costof.cli import main

main()
