"""`python -m limitlaw.cli`."""

from . import main

main()
