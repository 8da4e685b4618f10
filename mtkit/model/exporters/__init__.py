"""Model folders in the forms of other programs."""
