"""Messages between the server and its child processes."""

from io import BytesIO

import pytest

from mtkit.serving.messages import read_message, write_message


def test_a_message_that_ends_early_is_the_end_of_the_other_side() -> None:
    written = BytesIO()
    write_message(written, {"lines": ["Ein Hund."] * 3})
    content = written.getvalue()
    assert read_message(BytesIO(content)) == {"lines": ["Ein Hund."] * 3}
    for size in range(len(content)):
        with pytest.raises(EOFError):
            read_message(BytesIO(content[:size]))
