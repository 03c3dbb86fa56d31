"""`python -m octavo`: what the launcher at the repository's root runs."""

from octavo.cli.app import main

main()
