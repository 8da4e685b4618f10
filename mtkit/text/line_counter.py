"""Line numbers of ascending positions in a text."""


class LineCounter:
    """Finds the line numbers, from 1, of ascending positions: each line is counted once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._line, self._done = 1, 0

    def find(self, position: int) -> int:
        """Returns the line of a position."""
        self._line += self._text.count("\n", self._done, position)
        self._done = max(self._done, position)
        return self._line
