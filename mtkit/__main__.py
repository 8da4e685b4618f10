"""`python -m mtkit`: the same as the `mtkit` command."""

from mtkit.cli.app import main

if __name__ == "__main__":
    main()
