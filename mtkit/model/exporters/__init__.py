"""Models in the forms of other programs."""
