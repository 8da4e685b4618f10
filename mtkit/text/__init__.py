"""Text by itself: what is written in a line, and its pieces, whatever they are used for."""
