"""Where the units of each format are."""
