"""Text by itself: what is written in a line, whatever it is used for."""
