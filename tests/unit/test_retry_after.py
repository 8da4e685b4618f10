from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from mtkit.http_file import read_retry_after


@pytest.mark.parametrize(
    ("given", "seconds"),
    [("120", 120.0), ("0", 0.0), ("0.5", 0.5), ("-3", 0.0), ("nan", 0.0), ("soon", 0.0), ("", 0.0)],
)
def test_seconds(given: str, seconds: float) -> None:
    assert read_retry_after({"Retry-After": given}) == seconds


def test_no_header() -> None:
    assert read_retry_after({}) == 0.0


def test_a_date() -> None:
    now = datetime.now(UTC)
    later = {"Retry-After": format_datetime(now + timedelta(minutes=5), usegmt=True)}
    assert 290.0 < read_retry_after(later) <= 300.0
    earlier = {"Retry-After": format_datetime(now - timedelta(minutes=5), usegmt=True)}
    assert read_retry_after(earlier) == 0.0
