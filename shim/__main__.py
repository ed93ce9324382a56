"""`python -m shim`: the command line."""

from shim.cli import main

main()
