"""Models from the forms of other programs."""
