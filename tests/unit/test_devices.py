import pytest

from mtkit.devices import read_device
from mtkit.errors import MtkitError


@pytest.mark.parametrize(
    ("name", "device"),
    [
        ("auto", ("auto", None)),
        ("cpu", ("cpu", None)),
        ("cuda", ("cuda", None)),
        ("cuda:0", ("cuda", 0)),
        ("cuda:12", ("cuda", 12)),
    ],
)
def test_a_name_is_a_kind_and_an_index(name: str, device: tuple[str, int | None]) -> None:
    assert read_device(name) == device


@pytest.mark.parametrize("name", ["", "gpu", "cuda:", "cuda:-1", "cuda:250", "cpu:0", "CPU"])
def test_any_other_name_is_refused(name: str) -> None:
    with pytest.raises(MtkitError, match=f"no device '{name}'"):
        read_device(name)
